"""An indexer's HTTP APIs in one application, called within the process."""

from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.types import ASGIApp

from argosy.base.clock import SystemClock
from argosy.base.metrics import Metrics
from argosy.ipni.web.app import indexer_app
from tests.ipni.web.builders import A
from tests.ipni.web.double import IndexerDouble

TOKEN = "the-admin-token"


@pytest.fixture
def indexer() -> IndexerDouble:
    return IndexerDouble(A)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def app(indexer: IndexerDouble, metrics: Metrics) -> ASGIApp:
    return indexer_app(indexer, clock=SystemClock(), metrics=metrics, admin_token=TOKEN)


@pytest.fixture
async def client(app: ASGIApp) -> AsyncIterator[httpx.AsyncClient]:
    """A client without the token."""
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test", headers={"accept": "*/*"}) as http_client:
        yield http_client


@pytest.fixture
async def operator(app: ASGIApp) -> AsyncIterator[httpx.AsyncClient]:
    """A client with the token."""
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://test", headers=headers
    ) as http_client:
        yield http_client
