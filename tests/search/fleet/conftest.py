"""Fixtures of the search nodes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.search.fleet.fleet_fixture import SearchFleet, open_search_fleet


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[SearchFleet]:
    async with open_search_fleet(tmp_path) as fleet:
        yield fleet
