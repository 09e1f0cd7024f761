"""The find frontend of the keyspace: answers for all indexers that write to it, and ingests nothing.

Values come from the query nodes, providers from the indexers. A find that meets an unknown provider refreshes the
providers, at most once per `again_s`.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from argosy.base import logs
from argosy.base.clock import Clock
from argosy.base.errors import ArgosyError, NotFound
from argosy.ipni.indexer.ingest_state import ProviderTable
from argosy.ipni.indexer.policy import PeerPolicy
from argosy.ipni.indexer.resolver import Resolver, sample
from argosy.ipni.model import IndexerStatus, Provider, ProviderResult, StoreStats
from argosy.ipni.ports import IndexStore

AGAIN_S = 1.0  # between two refreshes caused by unknown providers: a find must not become a request to all indexers

T = TypeVar("T")
log = logs.get("ipni.keyspace")


class ProviderSource(Protocol):
    """Lists providers, such as the client of an indexer."""

    async def providers(self) -> Sequence[Provider]: ...


class QueryFrontend:
    """A `FindApi` for all indexers of the keyspace. `refresh` it before the first find, then `run` it until
    cancelled."""

    def __init__(
        self, id: str, store: IndexStore, indexers: Sequence[ProviderSource], *, clock: Clock, again_s: float = AGAIN_S
    ) -> None:
        self._id = id
        self._store = store
        self._indexers = indexers
        self._clock = clock
        self._again_s = again_s
        self._policy = PeerPolicy()  # allows everything: the indexers omit providers that their policies forbid
        self._provider_lists: dict[int, Sequence[Provider]] = {}
        self._provider_table = ProviderTable()
        self._resolver = Resolver(store, self._provider_table, self._policy)
        self._refreshed_at = -again_s

    async def run(self, every_s: float) -> None:
        while True:
            await self._clock.sleep(every_s)
            await self.refresh()

    async def refresh(self) -> None:
        """Reads the providers of every indexer; for one that does not answer, its last list stays valid."""
        # Before the requests: finds that meet unknown providers meanwhile must not start another refresh.
        self._refreshed_at = self._clock.now()
        for number, indexer in enumerate(self._indexers):
            try:
                self._provider_lists[number] = await indexer.providers()
            except ArgosyError as why:
                log.warning("reading providers failed", why=str(why))
        # A provider may be known to several indexers, such as a frozen one and its successor: the record with the
        # newest advertisement is taken as a whole, because mixed sets of extended providers would belong to no
        # advertisement.
        newest: dict[str, Provider] = {}
        for each in sorted(
            (each for providers in self._provider_lists.values() for each in providers),
            key=lambda each: each.last_ad_at,
        ):
            newest[each.id] = each
        self._provider_table = ProviderTable(newest.values())
        # A new one, so that a find in progress keeps the providers that it started with.
        self._resolver = Resolver(self._store, self._provider_table, self._policy)

    async def find(self, multihashes: Sequence[bytes]) -> list[tuple[ProviderResult, ...]]:
        return await self._find_fresh(lambda resolver: resolver.find(multihashes))

    async def find_encrypted(self, second_hashes: Sequence[bytes]) -> list[tuple[bytes, ...]]:
        return await self._find_fresh(lambda resolver: resolver.find_encrypted(second_hashes))

    async def encrypted_metadata(self, value_key_hash: bytes) -> bytes | None:
        return await self._find_fresh(lambda resolver: resolver.encrypted_metadata(value_key_hash))

    async def sample(self, provider: str, context: bytes, *, beacon: bytes, multihashes_max: int) -> list[bytes]:
        self.provider(provider)
        return await sample(self._store, provider, context, beacon=beacon, count=multihashes_max)

    def providers(self) -> Sequence[Provider]:
        return self._provider_table.all()

    def provider(self, id: str) -> Provider:
        provider = self._provider_table.get(id)
        if provider.is_inactive:
            raise NotFound(f"provider {id} not found")
        return provider

    async def stats(self) -> StoreStats:
        return await self._store.stats()

    def status(self) -> IndexerStatus:
        # A frontend stores nothing, so it has no disk to report.
        return IndexerStatus(self._id, is_frozen=False, usage_percent=-1.0)

    async def _find_fresh(self, find: Callable[[Resolver], Awaitable[T]]) -> T:
        resolver = self._resolver
        answer = await find(resolver)
        if resolver.orphans and self._clock.now() >= self._refreshed_at + self._again_s:
            await self.refresh()
            answer = await find(self._resolver)
        resolver.orphans.clear()  # an unknown provider may belong to an indexer that is down: nothing is removed here
        return answer
