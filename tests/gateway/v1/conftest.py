"""What the tests of our API share."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.gateway.v1.stage import Api, opened
from tests.gateway.zoekt.stage import small_fleet


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with opened(small_fleet()) as api:
        yield api


@pytest.fixture
async def client(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    async with api.client() as client:
        yield client
