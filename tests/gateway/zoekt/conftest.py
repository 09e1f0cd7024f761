"""Fixtures of zoekt's API."""

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from tests.gateway.zoekt.fleet_fixture import Fleet, client_of, small_fleet


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    fleet = small_fleet()
    yield fleet
    fleet.close()


@pytest.fixture
async def client(fleet: Fleet) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(fleet.zoekt()) as client:
        yield client
