"""What the tests of zoekt's API share."""

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from tests.gateway.zoekt.stage import Fleet, asking, small_fleet


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    fleet = small_fleet()
    yield fleet
    fleet.close()


@pytest.fixture
async def client(fleet: Fleet) -> AsyncIterator[httpx.AsyncClient]:
    async with asking(fleet.zoekt()) as client:
        yield client
