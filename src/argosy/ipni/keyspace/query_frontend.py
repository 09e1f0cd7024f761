"""The find frontend of the keyspace: answers for all indexers that write to it, and ingests nothing.

Values come from the query nodes, providers from the indexers. A find that meets an unknown provider refreshes the
providers, at most once per `again_s`.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from argosy.base import logs
from argosy.base.clock import Clock
from argosy.base.errors import ArgosyError, NotFound
from argosy.ipni.indexer.policy import PeerPolicy
from argosy.ipni.indexer.provider_table import ProviderTable
from argosy.ipni.indexer.resolver import Resolver, sample
from argosy.ipni.model import IndexerStatus, Provider, ProviderResult, StoreStats
from argosy.ipni.ports import IndexStore

AGAIN_S = 1.0

T = TypeVar("T")
log = logs.get("ipni.keyspace")


class ProviderSource(Protocol):
    """Lists providers, such as the client of an indexer."""

    async def providers(self) -> Sequence[Provider]: ...


class QueryFrontend:
    """The find part of `ports.Indexer`. `refresh` it before it is asked, and `run` it until cancelled."""

    def __init__(
        self, id: str, store: IndexStore, indexers: Sequence[ProviderSource], *, clock: Clock, again_s: float = AGAIN_S
    ) -> None:
        self._id = id
        self._store = store
        self._indexers = indexers
        self._clock = clock
        self._again_s = again_s
        self._policy = PeerPolicy()  # of the indexers: what they do not allow they do not tell
        self._provider_lists: dict[int, Sequence[Provider]] = {}
        self._roster = ProviderTable()
        self._finder = Resolver(store, self._roster, self._policy)
        self._refreshed_at = -again_s

    async def run(self, every_s: float) -> None:
        while True:
            await self._clock.sleep(every_s)
            await self.refresh()

    async def refresh(self) -> None:
        """Asks every indexer; of one that does not answer, what it said last holds."""
        self._refreshed_at = self._clock.now()
        for number, indexer in enumerate(self._indexers):
            try:
                self._provider_lists[number] = await indexer.providers()
            except ArgosyError as why:
                log.warning("indexer does not tell its providers", why=str(why))
        newest: dict[str, Provider] = {}
        for each in sorted(
            (each for providers in self._provider_lists.values() for each in providers),
            key=lambda each: each.last_ad_at,
        ):
            newest[each.id] = each
        self._roster = ProviderTable(newest.values())
        self._finder = Resolver(self._store, self._roster, self._policy)

    async def find(self, multihashes: Sequence[bytes]) -> list[tuple[ProviderResult, ...]]:
        return await self._find_fresh(lambda finder: finder.find(multihashes))

    async def find_encrypted(self, second_hashes: Sequence[bytes]) -> list[tuple[bytes, ...]]:
        return await self._find_fresh(lambda finder: finder.find_encrypted(second_hashes))

    async def encrypted_metadata(self, value_key_hash: bytes) -> bytes | None:
        return await self._find_fresh(lambda finder: finder.encrypted_metadata(value_key_hash))

    async def sample(self, provider: str, context: bytes, *, beacon: bytes, multihashes_max: int) -> list[bytes]:
        self.provider(provider)
        return await sample(self._store, provider, context, beacon=beacon, count=multihashes_max)

    def providers(self) -> Sequence[Provider]:
        return self._roster.all()

    def provider(self, id: str) -> Provider:
        provider = self._roster.get(id)
        if provider.is_inactive:
            raise NotFound(f"provider {id} is not shown here")
        return provider

    async def stats(self) -> StoreStats:
        return await self._store.stats()

    def status(self) -> IndexerStatus:
        return IndexerStatus(self._id, is_frozen=False, usage_percent=-1.0)

    async def _find_fresh(self, find: Callable[[Resolver], Awaitable[T]]) -> T:
        finder = self._finder
        answer = await find(finder)
        if finder.orphans and self._clock.now() >= self._refreshed_at + self._again_s:
            await self.refresh()
            answer = await find(self._finder)
        finder.orphans.clear()
        return answer
