"""Indexes that are only a name, a commit and a weight, and the workshop and shelf that handle them in virtual time."""

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
from argosy.sim.origins import SimSource

INCREMENTAL_SHARE = 0.2  # of a whole build: what a renewal takes, because most is shared
CHECK_S = 0.05
SEARCH_S = (0.001, 1.0)  # some are slow, so that much can happen meanwhile
RECIPE = "simulated"


@dataclass(frozen=True, slots=True, eq=False)
class SimIndex(Index):
    """An index without text."""

    index_bytes: int = 0

    @property
    def commit(self) -> str:
        return self.repository.branches[0].version


class _Parcel(msgspec.Struct):
    """An index on its way to another node."""

    repository: Repository
    index_bytes: int


def encode_index(index: Index) -> bytes:
    assert isinstance(index, SimIndex)
    return msgspec.msgpack.encode(_Parcel(index.repository, index.index_bytes))


class SimBuildExecutor(BuildExecutor):
    """Makes indexes by waiting; each step takes as long as the size says."""

    def __init__(
        self,
        *,
        clock: Clock,
        random: Random,
        bytes_per_s: float,
        damage_chance: Callable[[], float],
        found_damaged: Callable[[str], None],
        counts: Counter[str],
    ) -> None:
        self._clock = clock
        self._random = random
        self._bytes_per_s = bytes_per_s
        self._damage_chance = damage_chance
        self._found_damaged = found_damaged
        self._counts = counts  # indexes made, by how

    @property
    def recipe(self) -> str:
        return RECIPE

    async def build(self, source: Source, previous: Index | None, progress: Callable[[float], None]) -> Index:
        assert isinstance(source, SimSource)
        share = 1.0 if previous is None else INCREMENTAL_SHARE
        await self._clock.sleep(source.index_bytes / self._bytes_per_s * share)
        self._counts["built" if previous is None else "renewed"] += 1
        return SimIndex(source.repository, (), RECIPE, source.index_bytes)

    async def receive(self, chunks: AsyncIterator[bytes]) -> Index:
        parcel = msgspec.msgpack.decode(b"".join([chunk async for chunk in chunks]), type=_Parcel)
        self._counts["received"] += 1
        return SimIndex(parcel.repository, (), RECIPE, parcel.index_bytes)

    def measure(self, index: Index, *, fetch_time_ms: float = 0.0, index_time_ms: float = 0.0) -> IndexStats:
        assert isinstance(index, SimIndex)
        return IndexStats(
            index.index_bytes, index.repository.branches, fetch_time_ms=fetch_time_ms, index_time_ms=index_time_ms
        )

    async def verify(self, index: Index) -> list[Damage]:
        await self._clock.sleep(CHECK_S)
        if self._random.random() >= self._damage_chance():
            return []
        self._found_damaged(index.repository.name)
        return [Damage(0, "content")]

    def close(self) -> None:
        """There are no threads."""


class SimIndexSet(IndexSet):
    """A shelf whose searches take virtual time, and which tells whoever watches what is put on it and taken off."""

    def __init__(
        self, *, clock: Clock, random: Random, put: Callable[[SimIndex], None], dropped: Callable[[str], None]
    ) -> None:
        super().__init__(threads=1, clock=clock)
        self._random = random
        self._put_told = put
        self._dropped_told = dropped

    def put(self, index: Index) -> None:
        assert isinstance(index, SimIndex)
        super().put(index)
        self._put_told(index)

    def drop(self, name: str) -> None:
        super().drop(name)
        self._dropped_told(name)

    async def search(self, query: Query, options: Options, *, only: Collection[str] | None = None) -> SearchResult:
        """There is no text, so nothing is found; that takes its time all the same."""
        await self._clock.sleep(self._random.uniform(*SEARCH_S))
        return SearchResult()
