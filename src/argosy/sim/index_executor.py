"""Indexes that are only a name, a commit and a size, and the executor and index set that handle them in virtual
time."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass

import msgspec

from argosy.base.clock import Clock, Random
from argosy.search.documents import Source
from argosy.search.fleet.build_executor import BuildExecutor
from argosy.search.fleet.events import IndexStats
from argosy.search.index.index import Index
from argosy.search.index.sections import Damage
from argosy.search.index_set import IndexSet
from argosy.search.model import Options, Repository, SearchResult
from argosy.search.query.tree import Query
from argosy.sim.repositories import SimSource

INCREMENTAL_SHARE = 0.2  # of a whole build: an incremental one reuses most segments
CHECK_S = 0.05
SEARCH_S = (0.001, 1.0)  # some are slow, so that faults happen during a search
RECIPE = "simulated"


@dataclass(frozen=True, slots=True, eq=False)
class SimIndex(Index):
    """An index without text."""

    index_bytes: int = 0

    @property
    def commit(self) -> str:
        return self.repository.branches[0].version


class _EncodedIndex(msgspec.Struct):
    """An index as it is sent to another node."""

    repository: Repository
    index_bytes: int


def encode_index(index: Index) -> bytes:
    assert isinstance(index, SimIndex)
    return msgspec.msgpack.encode(_EncodedIndex(index.repository, index.index_bytes))


class SimBuildExecutor(BuildExecutor):
    """Builds indexes by waiting in proportion to their size."""

    def __init__(
        self,
        *,
        clock: Clock,
        random: Random,
        bytes_per_s: float,
        damage_chance: Callable[[], float],
        on_damage: Callable[[str], None],
        counts: Counter[str],
    ) -> None:
        self._clock = clock
        self._random = random
        self._bytes_per_s = bytes_per_s
        self._damage_chance = damage_chance
        self._on_damage = on_damage
        self._counts = counts  # indexes, by how they were obtained

    @property
    def recipe(self) -> str:
        return RECIPE

    async def build(self, source: Source, previous: Index | None, progress: Callable[[float], None]) -> Index:
        assert isinstance(source, SimSource)
        share = 1.0 if previous is None else INCREMENTAL_SHARE
        await self._clock.sleep(source.index_bytes / self._bytes_per_s * share)
        self._counts["built" if previous is None else "incremental"] += 1
        return SimIndex(source.repository, (), RECIPE, source.index_bytes)

    async def receive(self, chunks: AsyncIterator[bytes]) -> Index:
        encoded = msgspec.msgpack.decode(b"".join([chunk async for chunk in chunks]), type=_EncodedIndex)
        self._counts["received"] += 1
        return SimIndex(encoded.repository, (), RECIPE, encoded.index_bytes)

    def measure(self, index: Index, *, fetch_time_ms: float = 0.0, index_time_ms: float = 0.0) -> IndexStats:
        assert isinstance(index, SimIndex)
        return IndexStats(
            index.index_bytes, index.repository.branches, fetch_time_ms=fetch_time_ms, index_time_ms=index_time_ms
        )

    async def verify(self, index: Index) -> list[Damage]:
        await self._clock.sleep(CHECK_S)
        if self._random.random() >= self._damage_chance():
            return []
        self._on_damage(index.repository.name)
        # Any section: the controller unloads the whole index.
        return [Damage(0, "content")]

    def close(self) -> None:
        """There are no threads."""


class SimIndexSet(IndexSet):
    """An index set whose searches take virtual time, and which reports each index that is put and dropped."""

    def __init__(
        self, *, clock: Clock, random: Random, on_put: Callable[[SimIndex], None], on_drop: Callable[[str], None]
    ) -> None:
        super().__init__(threads=1, clock=clock)
        self._random = random
        self._on_put = on_put
        self._on_drop = on_drop

    def put(self, index: Index) -> None:
        assert isinstance(index, SimIndex)
        super().put(index)
        self._on_put(index)

    def drop(self, name: str) -> None:
        super().drop(name)
        self._on_drop(name)

    async def search(self, query: Query, options: Options, *, only: Collection[str] | None = None) -> SearchResult:
        """There is no text, so nothing is found; only the time passes."""
        await self._clock.sleep(self._random.uniform(*SEARCH_S))
        return SearchResult()
