"""Fixtures of the v1 API."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.gateway.v1.api_fixture import Api, open_api
from tests.gateway.zoekt.fleet_fixture import small_fleet


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with open_api(small_fleet()) as api:
        yield api


@pytest.fixture
async def client(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    async with api.client() as client:
        yield client
