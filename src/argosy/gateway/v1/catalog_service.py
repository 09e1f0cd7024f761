"""Catalog changes of the v1 API; each is one registry transaction."""

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

Notify = Callable[[str], Awaitable[None]]

log = logs.get("api")


class CatalogService:
    """`notify` is called with the name of a repository that has new commits, so that its holders check the origin at
    once.
    """

    def __init__(self, registry: RegistryStore, *, notify: Notify, allow_local: bool) -> None:
        self._registry = registry
        self._notify = notify
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
        """Notify the holders of the event's repository, if it is in the catalog."""
        try:
            names = pushed_names(msgspec.json.decode(body))
        except RecursionError:
            raise Invalid("invalid event: JSON nested too deeply") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Invalid(f"invalid event: {error}") from None
        if not names:
            raise Invalid('no repository in the event; send a push event or {"url": "https://…"}')
        rows = await self._registry.run(catalog.everything())
        found = [row.repo_id for row in rows if name_of(row.url) in names]
        for name in found:
            await self._notify(name)
        return v1.WebhookResponse(found)
