"""Trees of modules are kept while one page of rules is checked, and no longer: to whoever looks for garbage they are
millions of things."""

import gc
from collections.abc import Iterator

import pytest

from tests.house.tree import parsed


@pytest.fixture(scope="module", autouse=True)
def _trees() -> Iterator[None]:
    gc.disable()
    yield
    parsed.cache_clear()
    gc.enable()
