"""Changes of the catalog that the API offers, each one transaction of the registry."""

from collections.abc import Awaitable, Callable

import msgspec

from argosy.base import logs
from argosy.base.errors import Invalid, NotFound
from argosy.gateway.v1 import model as v1
from argosy.gateway.v1.requests import AddRepositoryRequest
from argosy.gateway.v1.responses import catalog_entry
from argosy.gateway.v1.webhook import name_of, pushed_names
from argosy.registry import catalog
from argosy.registry.ports import RegistryStore
from argosy.search.catalog.addresses import address_of

Told = Callable[[str], Awaitable[None]]

log = logs.get("api")


class CatalogService:
    """`told` is called with the name of a repository that has new commits, so that its holders look at once."""

    def __init__(self, registry: RegistryStore, *, told: Told, allow_local: bool) -> None:
        self._registry = registry
        self._told = told
        self._allow_local = allow_local

    async def add(self, wish: AddRepositoryRequest) -> v1.CatalogEntry:
        address = address_of(wish.url, allow_local=self._allow_local)
        adding = catalog.add(
            wish.name or address.name,
            address.url,
            branches=tuple(wish.branches),
            is_pinned=wish.pinned,
            replicas=wish.replicas,
            max_bids=wish.max_bids,
        )
        row = await self._registry.run(adding)
        log.info("repository added", repository=row.repo_id)
        return catalog_entry(row, address.note)

    async def remove(self, name: str) -> None:
        if not await self._registry.run(catalog.remove(name)):
            raise NotFound(f'repository "{name}" not found in the catalog')
        log.info("repository removed", repository=name)

    async def pin(self, name: str, *, is_pinned: bool) -> v1.CatalogEntry:
        return catalog_entry(await self._registry.run(catalog.pin(name, is_pinned)))

    async def reindex(self, name: str) -> v1.CatalogEntry:
        return catalog_entry(await self._registry.run(catalog.request_reindex(name)))

    async def pushed(self, body: bytes) -> v1.WebhookResponse:
        """Tells the holders of the repository that an event is about, if it is one of ours."""
        try:
            names = pushed_names(msgspec.json.decode(body))
        except RecursionError:
            raise Invalid("the event is nested too deeply to be one") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Invalid(f"the event is not JSON: {error}") from None
        if not names:
            raise Invalid('the event names no repository: send a push event, or {"url": "https://…"}')
        rows = await self._registry.run(catalog.everything())
        found = [row.repo_id for row in rows if name_of(row.url) in names]
        for name in found:
            await self._told(name)
        return v1.WebhookResponse(found)
