"""Real code to rank: packages the environment pins, and this repository's own; indexed once."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from argosy.search.backends.memory import MemoryFile, MemorySource
from argosy.search.index.build import build
from argosy.search.index.index import Index
from argosy.search.model import Branch, Repository
from argosy.search.skip_policy import Policy

PACKAGES = ("click", "starlette", "rich", "hypothesis", "redis", "uvicorn", "limits")
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def indexes() -> Mapping[str, Index]:
    found = {name: python_of(name, home_of(name)) for name in PACKAGES}
    return {**found, "argosy": python_of("argosy", ROOT, ("src", "tests"))}


def home_of(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None, package
    assert spec.origin is not None, package
    return Path(spec.origin).parent


def python_of(name: str, home: Path, folders: tuple[str, ...] = ("",)) -> Index:
    paths = sorted(path for folder in folders for path in (home / folder).rglob("*.py"))
    files = [MemoryFile(path.relative_to(home).as_posix().encode(), path.read_bytes()) for path in paths]
    return build(MemorySource(Repository(name, branches=(Branch("main"),)), files), Policy())
