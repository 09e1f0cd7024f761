"""Parsed modules are kept for one test module only: their millions of nodes slow down every garbage collection."""

import gc
from collections.abc import Iterator

import pytest

from tests.architecture.tree import parse


@pytest.fixture(scope="module", autouse=True)
def _parsed_modules() -> Iterator[None]:
    gc.disable()
    yield
    parse.cache_clear()
    gc.enable()
