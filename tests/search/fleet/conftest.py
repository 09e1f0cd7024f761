"""What the tests of search nodes share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.search.fleet.harbour import Harbour, harbour_at


@pytest.fixture
async def harbour(tmp_path: Path) -> AsyncIterator[Harbour]:
    async with harbour_at(tmp_path) as harbour:
        yield harbour
