"""The doors of the rooms: every public name exists, is typed and explained, and a room loads only what it needs."""

import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.house.tree import SOURCE

ROOMS = sorted(p.parent.name for p in SOURCE.glob("*/__init__.py") if p.parent.name not in {"cli", "bench"})
PUBLIC_NAMES_MAX = 40
# What no room may load until somebody asks for it: stores, servers, and what is slow to import.
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


def public(room: str) -> list[tuple[str, Any]]:
    module = importlib.import_module(f"argosy.{room}")
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


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_exists_and_the_door_is_narrow(room: str) -> None:
    module = importlib.import_module(f"argosy.{room}")
    names = list(getattr(module, "__all__", []))
    assert [name for name in names if not hasattr(module, name)] == []
    assert len(names) == len(set(names))
    assert len(names) <= PUBLIC_NAMES_MAX, "a door this wide is a wall that is missing"


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_typed(room: str) -> None:
    found = {
        where: missing
        for name, thing in public(room)
        for where, function in callables(name, thing)
        if (missing := untyped(function))
    }
    assert found == {}


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_explained(room: str) -> None:
    things = [(name, thing) for name, thing in public(room) if inspect.isclass(thing) or inspect.isfunction(thing)]
    # A dataclass without a docstring is given its signature for one, which explains nothing.
    assert [name for name, thing in things if (thing.__doc__ or f"{name}(").startswith(f"{name}(")] == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_alone_loads_no_extra(room: str) -> None:
    code = f"import sys, argosy.{room}; print(*[m for m in {EXTRAS!r} if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == []


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_exports_a_backend(room: str) -> None:
    assert [name for name, thing in public(room) if ".backends" in getattr(thing, "__module__", "")] == []
