"""The API over a small fleet and a real registry."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from starlette.routing import Route

from argosy.base.clock import SystemClock, seeded_random
from argosy.gateway.settings import ApiSettings
from argosy.gateway.v1.catalog_service import CatalogService
from argosy.gateway.v1.http import v1_routes
from argosy.registry import open_registry
from argosy.registry.ports import RegistryStore
from argosy.throttle import FairThrottle
from tests.gateway.zoekt.fleet_fixture import Fleet, client_of

TOKEN = "an admin's token"
ADMIN = {"authorization": f"Bearer {TOKEN}"}


class Api:
    """A fleet, a registry, and the repositories whose holders were notified."""

    def __init__(self, fleet: Fleet, registry: RegistryStore) -> None:
        self.fleet = fleet
        self.registry = registry
        self.notified: list[str] = []

    async def notify(self, name: str) -> None:
        self.notified.append(name)

    def routes(
        self,
        *,
        admin_token: str | None = TOKEN,
        settings: ApiSettings | None = None,
        allow_local: bool = False,
        throttle: FairThrottle | None = None,
    ) -> list[Route]:
        service = CatalogService(self.registry, notify=self.notify, allow_local=allow_local)
        return v1_routes(self.fleet.gateway, service, admin_token=admin_token, settings=settings, throttle=throttle)

    @asynccontextmanager
    async def client(
        self,
        *,
        admin_token: str | None = TOKEN,
        settings: ApiSettings | None = None,
        allow_local: bool = False,
    ) -> AsyncIterator[httpx.AsyncClient]:
        routes = self.routes(admin_token=admin_token, settings=settings, allow_local=allow_local)
        async with client_of(routes) as client:
            yield client


@asynccontextmanager
async def open_api(fleet: Fleet) -> AsyncIterator[Api]:
    registry = await open_registry("memory://", clock=SystemClock(), random=seeded_random(1))
    try:
        yield Api(fleet, registry)
    finally:
        await registry.close()
        fleet.close()
