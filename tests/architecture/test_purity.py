"""Domain logic does no I/O: only the modules listed in pyproject.toml under [tool.argosy.io] may.

Every other module reads no clock, draws no random number and opens nothing, so it gives the same result each time it is
called: in a test, in the simulator, on another machine. Async code over an injected port may use asyncio's primitives.
"""

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.tree import ROOT, SOURCE, location, parse, source_modules

IO_LIBRARIES = {
    "asyncio", "time", "random", "secrets", "uuid", "os", "sys", "io", "socket", "select", "selectors", "signal",
    "subprocess", "multiprocessing", "threading", "concurrent", "pathlib", "shutil", "tempfile", "glob", "logging",
    "http", "sqlite3", "redis", "hiredis", "grpc", "httpx", "aiohttp", "uvicorn", "starlette", "click", "rich",
    "prometheus_client", "opentelemetry", "obstore", "slatedb", "rocksdict",
}  # fmt: skip
IO_CALLS = {"open", "print", "input"}
# What needs no loop, no clock and no task of its own.
ASYNCIO_PRIMITIVES = {"Event", "Lock", "Condition", "Semaphore", "Queue", "QueueFull", "QueueEmpty", "Future",
                      "CancelledError"}  # fmt: skip


@cache
def config() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["argosy"]["io"]


def may_do_io(path: Path) -> bool:
    inside = path.relative_to(SOURCE)
    return str(inside) in config()["modules"] or bool(set(config()["packages"]) & set(inside.parts[:-1]))


def pure_modules() -> list[Path]:
    return [path for path in source_modules() if not may_do_io(path)]


def imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every module that an import names, inside functions too; imports for the type checker alone do not count."""
    skipped = {id(inner) for node in ast.walk(tree) if is_type_checking(node) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or ""
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from ((node.lineno, name) for name in names if is_module(name))


def is_module(name: str) -> bool:
    path = SOURCE.parent / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def violations(path: Path, tree: ast.Module) -> Iterator[str]:
    permitted = set(config()["imports"].get(str(path.relative_to(SOURCE)), []))
    for line, module in imports(tree):
        library = module.split(".")[0]
        if library == "asyncio" and "." in module:
            continue  # checked by use, below
        if library in IO_LIBRARIES - permitted - {"asyncio"} or module == "urllib.request":
            yield f"{location(path, line)} imports {module}"
        # A package's __init__ exports its entry points and does nothing itself.
        if is_io_module(module) and path.name != "__init__.py":
            yield f"{location(path, line)} imports {module}, which does I/O"
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IO_CALLS:
            yield f"{location(path, node.lineno)} calls {node.func.id}()"
        is_asyncio = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "asyncio"
        if is_asyncio and node.attr not in ASYNCIO_PRIMITIVES:
            yield f"{location(path, node.lineno)} uses asyncio.{node.attr}"
        if isinstance(node, ast.ImportFrom) and node.module == "asyncio":
            yield f"{location(path, node.lineno)} imports names from asyncio: import the module"


def is_io_module(module: str) -> bool:
    package, *parts = module.split(".")
    if package != "argosy" or not parts:
        return False
    path = "/".join(parts) + ".py"
    if path in config()["importable"]:
        return False
    is_package = (SOURCE / "/".join(parts)).is_dir()
    return path in config()["modules"] or bool(set(config()["packages"]) & set(parts if is_package else parts[:-1]))


def test_only_the_listed_modules_do_io() -> None:
    found = [each for path in pure_modules() for each in violations(path, parse(path))]
    assert found == [], "pass it as an argument, or list the module in pyproject.toml under [tool.argosy.io]"


def test_every_listed_module_exists_and_does_io() -> None:
    modules = config()["modules"]
    assert modules == sorted(set(modules))
    idle = [name for name in modules if not (SOURCE / name).is_file() or not any(violations_of(name))]
    assert idle == [], "take it off the list"


def violations_of(name: str) -> Iterator[str]:
    return violations(SOURCE / name, parse(SOURCE / name))


@pytest.mark.parametrize(
    "code",
    [
        "import time",
        "def f():\n    import random",
        "from os import environ",
        "from redis.asyncio import Redis",
        "open('x')",
        "import asyncio\nasyncio.sleep(1)",
        "from asyncio import Queue",
        "from argosy.ownership.backends.memory import MemoryStore",
        "from argosy.ownership.backends import memory",
        "from argosy.base.driver import Driver",
        "from argosy.base import driver",
    ],
)
def test_a_violation_is_found(code: str) -> None:
    assert list(violations(SOURCE / "ownership" / "ring.py", ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "import math",
        "from argosy.base.clock import Clock",
        "import asyncio\nasyncio.Queue(), asyncio.Event()",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import asyncio",
    ],
)
def test_pure_code_is_accepted(code: str) -> None:
    assert not list(violations(SOURCE / "ownership" / "ring.py", ast.parse(code)))
