"""Pure by default; IO wears a badge, and the file name is the badge.

A module without a badge reads no clock, rolls no die and opens nothing, so it gives the same answer every time it is
asked: in a test, in the simulator, on another machine.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.tree import SOURCE, parsed, shown, source_modules

BADGES = {"service", "http", "grpc", "client", "worker", "driver", "clock", "settings"}
BADGED_FOLDERS = {"app", "backends", "sim", "bench", "cli"}
# What one module may import although it wears no badge, because it is the one place for it.
LICENSED = {
    "base/extras.py": {"pathlib", "sys"},
    "base/metrics.py": {"prometheus_client"},
    "base/logs.py": {"logging", "sys"},
    "search/kernels/cache.py": {"os"},
    "search/kernels/compiling.py": {"pathlib"},
}
IMPURE = {
    "asyncio", "time", "random", "secrets", "uuid", "os", "sys", "io", "socket", "select", "selectors", "signal",
    "subprocess", "multiprocessing", "threading", "concurrent", "pathlib", "shutil", "tempfile", "glob", "logging",
    "http", "sqlite3", "redis", "hiredis", "grpc", "httpx", "aiohttp", "uvicorn", "starlette", "click", "rich",
    "prometheus_client", "opentelemetry",
}  # fmt: skip
IMPURE_CALLS = {"open", "print", "input"}
# The badged modules whose nouns (ports, values) pure code may name.
NOUNS = {"clock", "settings"}


def is_badged(path: Path) -> bool:
    inside = path.relative_to(SOURCE)
    return inside.stem in BADGES or bool(BADGED_FOLDERS & set(inside.parts[:-1]))


def pure_modules() -> list[Path]:
    return [path for path in source_modules() if not is_badged(path)]


def imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every module named by an import, inside functions too; what only the type checker reads does not count."""
    skipped = {id(inner) for node in ast.walk(tree) if is_for_types(node) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or ""


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def offences(path: Path, tree: ast.Module) -> Iterator[str]:
    licensed = LICENSED.get(str(path.relative_to(SOURCE)), set())
    for line, module in imports(tree):
        if module.split(".")[0] in IMPURE - licensed or module == "urllib.request":
            yield f"{shown(path, line)} imports {module}"
        is_door = path.name == "__init__.py"  # a room's door shows its service, and does nothing itself
        if module.startswith("argosy.") and is_badged_name(module) and not is_door:
            yield f"{shown(path, line)} imports {module}, which wears a badge"
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
            yield f"{shown(path, node.lineno)} calls {node.func.id}()"


def is_badged_name(module: str) -> bool:
    *folders, name = module.split(".")
    return bool(BADGED_FOLDERS & set(folders[1:])) or name in (BADGES | BADGED_FOLDERS) - NOUNS


def test_a_module_without_a_badge_does_no_io() -> None:
    found = [offence for path in pure_modules() for offence in offences(path, parsed(path))]
    assert found == [], "hand it in as an argument, or move it to a module whose name is a badge"


@pytest.mark.parametrize(
    "code",
    [
        "import time",
        "def f():\n    import random",
        "from os import environ",
        "from redis.asyncio import Redis",
        "open('x')",
        "from argosy.ownership.backends.memory import MemoryStore",
        "from argosy.base.driver import Driver",
    ],
)
def test_the_check_sees(code: str) -> None:
    assert list(offences(SOURCE / "ownership" / "ring.py", ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "import math",
        "from argosy.base.clock import Clock",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import asyncio",
    ],
)
def test_the_check_lets_pass(code: str) -> None:
    assert not list(offences(SOURCE / "ownership" / "ring.py", ast.parse(code)))
