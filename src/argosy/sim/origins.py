"""Where simulated repositories come from: each has commits and a size, and both change when somebody pushes."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from argosy.base.clock import Clock, Random
from argosy.base.errors import Unavailable
from argosy.search.documents import Content, Entry, Source
from argosy.search.fleet.model import RepoSpec
from argosy.search.model import Branch, Repository

FETCH_AT_LEAST_S = 0.1  # to fetch anything at all
LOOK_S = (0.02, 0.2)  # to ask where the branches stand


@dataclass(frozen=True)
class SimSource:
    """A checkout: implements `Source`, though what matters is only which commit it is and how large its index gets."""

    repository: Repository
    index_bytes: int

    def entries(self) -> Sequence[Entry]:
        return ()

    def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
        return iter(())


class Origins:
    """All repositories of a space, at their hosts."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = dict(sizes)
        self._commits = dict.fromkeys(sizes, 1)

    def commit(self, name: str, index_bytes: int | None = None) -> None:
        """New work; its index takes `index_bytes` from now on."""
        self._commits[name] += 1
        if index_bytes is not None:
            self._sizes[name] = index_bytes

    def index_bytes(self, name: str) -> int:
        return self._sizes[name]

    def heads(self, name: str) -> tuple[Branch, ...]:
        return (Branch("main", f"c{self._commits[name]}"),)

    def checkout(self, name: str) -> SimSource:
        return SimSource(Repository(name, branches=self.heads(name)), self._sizes[name])


class SimFetcher:
    """Implements `Fetcher`: takes time in proportion to the size, and sometimes fails."""

    def __init__(
        self,
        origins: Origins,
        *,
        clock: Clock,
        random: Random,
        bytes_per_s: float,
        failure_chance: Callable[[], float],
    ) -> None:
        self._origins = origins
        self._clock = clock
        self._random = random
        self._bytes_per_s = bytes_per_s
        self._failure_chance = failure_chance

    async def heads(self, spec: RepoSpec) -> tuple[Branch, ...]:
        await self._clock.sleep(self._random.uniform(*LOOK_S))
        self._fail_at_times(spec.name)
        return self._origins.heads(spec.name)

    @asynccontextmanager
    async def fetch(self, spec: RepoSpec, progress: Callable[[float], None]) -> AsyncIterator[Source]:
        await self._clock.sleep(FETCH_AT_LEAST_S + self._origins.index_bytes(spec.name) / self._bytes_per_s)
        self._fail_at_times(spec.name)
        yield self._origins.checkout(spec.name)

    def _fail_at_times(self, name: str) -> None:
        if self._random.random() < self._failure_chance():
            raise Unavailable(f"the origin of {name!r} is away")
