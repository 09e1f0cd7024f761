"""Public APIs: every exported name exists, is typed and documented, and a package loads only what it needs."""

import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.architecture.tree import SOURCE

PACKAGES = sorted(p.parent.name for p in SOURCE.glob("*/__init__.py") if p.parent.name not in {"cli", "bench"})
PUBLIC_NAMES_MAX = 40
# What importing a package must not load: stores, servers, and whatever is slow to import.
EXTRAS = [
    "redis",
    "grpc",
    "google.protobuf",
    "opentelemetry",
    "uvicorn",
    "starlette",
    "click",
    "rich",
    "prometheus_client",
]


def public(package: str) -> list[tuple[str, Any]]:
    module = importlib.import_module(f"argosy.{package}")
    return [(name, getattr(module, name)) for name in getattr(module, "__all__", [])]


def callables(name: str, thing: Any) -> Iterator[tuple[str, Any]]:
    """The function itself, or the public methods that a class of ours defines."""
    if inspect.isfunction(thing):
        yield name, thing
    if inspect.isclass(thing):
        for attribute, member in vars(thing).items():
            inner = getattr(member, "fget", None) or getattr(member, "__func__", member)
            is_public = not attribute.startswith("_") or attribute == "__init__"
            if is_public and inspect.isfunction(inner) and inner.__module__.startswith("argosy."):
                yield f"{name}.{attribute}", inner


def untyped(function: Any) -> list[str]:
    signature = inspect.signature(function)
    arguments = [p for p in signature.parameters.values() if p.name not in {"self", "cls"}]
    missing = [p.name for p in arguments if p.annotation is p.empty]
    return missing + (["return"] if signature.return_annotation is signature.empty else [])


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_exists_and_there_are_few(package: str) -> None:
    module = importlib.import_module(f"argosy.{package}")
    names = list(getattr(module, "__all__", []))
    assert [name for name in names if not hasattr(module, name)] == []
    assert len(names) == len(set(names))
    assert len(names) <= PUBLIC_NAMES_MAX, "export fewer names, or split the package"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_typed(package: str) -> None:
    found = {
        where: missing
        for name, thing in public(package)
        for where, function in callables(name, thing)
        if (missing := untyped(function))
    }
    assert found == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_documented(package: str) -> None:
    things = [(name, thing) for name, thing in public(package) if inspect.isclass(thing) or inspect.isfunction(thing)]
    # dataclass() sets the signature as the docstring where there is none.
    assert [name for name, thing in things if (thing.__doc__ or f"{name}(").startswith(f"{name}(")] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_package_loads_no_extra(package: str) -> None:
    code = f"import sys, argosy.{package}; print(*[m for m in {EXTRAS!r} if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_package_exports_a_backend(package: str) -> None:
    assert [name for name, thing in public(package) if ".backends" in getattr(thing, "__module__", "")] == []
