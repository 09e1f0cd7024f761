"""When a working set is ready: every repository of it that can be served is served, and a search says so.

`argosy up` is ready from then on: a repository that is added later, or one that is indexed again after its node died,
does not make `/readyz` fail. A repository that failed since the start, or that no node takes for `STALL_S`, is reported
and does not hold the others up.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from argosy.base import logs
from argosy.base.clock import Clock
from argosy.base.errors import ArgosyError, Unavailable
from argosy.search.fleet.model import RepoSpec
from argosy.search.model import Missing, MissingReason, Options, SearchResult
from argosy.search.query import parse
from argosy.search.query.tree import Query

LOOK_S = 0.05  # a look costs nothing until all is held
STALL_S = 60.0  # no node takes what is left, and none is at work: there is no room for it

PROBE = Options(files_max=1)

log = logs.get("app")


class Fleet(Protocol):
    """The gateway of this process."""

    def is_ready(self) -> bool: ...

    def missing(self) -> Sequence[Missing]: ...

    async def search(self, query: Query, options: Options) -> SearchResult: ...


class WorkingSetReadiness:
    """Becomes complete once; `failed` then says what is not served, and why."""

    def __init__(self, fleet: Fleet, specs: Callable[[], Mapping[str, RepoSpec]], clock: Clock) -> None:
        self.is_complete = False
        self.failed: dict[str, str] = {}
        self.took_s = 0.0
        self._fleet = fleet
        self._specs = specs
        self._clock = clock
        self._began, self._began_ms = clock.now(), int(clock.wall() * 1000)
        self._left: frozenset[str] = frozenset()
        self._left_since = self._began
        self._completed = asyncio.Event()

    async def wait(self) -> None:
        """Returns once the working set is ready."""
        await self._completed.wait()

    async def run(self) -> None:
        """Looks until the working set is ready; ends only by cancellation."""
        while not await self._look():
            await self._clock.sleep(LOOK_S)
        self.took_s = self._clock.now() - self._began
        self.is_complete = True
        self._completed.set()
        for name, why in sorted(self.failed.items()):
            log.warning("repository not served", repository=name, why=why)
        await asyncio.Event().wait()

    async def _look(self) -> bool:
        if not self._fleet.is_ready():
            return False
        missing = self._fleet.missing()
        if self._holds_up(missing):
            return False
        return not self._holds_up(await self._probe())

    async def _probe(self) -> Sequence[Missing]:
        """What a search does not reach: it goes the whole way, to every node and back."""
        try:
            return (await self._fleet.search(parse("ready").query, PROBE)).missing
        except Unavailable as why:
            missing: Sequence[Missing] = getattr(why, "missing", ())
            return missing or [Missing(name, MissingReason.FAILED, str(why)) for name in self._specs()]
        except ArgosyError as why:
            return [Missing(name, MissingReason.FAILED, str(why)) for name in self._specs()]

    def _holds_up(self, missing: Sequence[Missing]) -> bool:
        """Whether one of them may still be served."""
        self.failed = {each.repository: why for each in missing if (why := self._failure(each.repository)) is not None}
        left = [each for each in missing if each.repository not in self.failed]
        names = frozenset(each.repository for each in left)
        if names != self._left or any(each.why is not MissingReason.UNOWNED for each in left):
            self._left, self._left_since = names, self._clock.now()
        if left and self._clock.now() - self._left_since >= STALL_S:
            self.failed |= {each.repository: each.detail or "no node has room for it" for each in left}
            return False
        return bool(left)

    def _failure(self, name: str) -> str | None:
        """Why it failed since the start, or None."""
        wish = self._specs().get(name)
        if wish is None or not wish.failures or wish.last_failed_at is None or wish.last_failed_at < self._began_ms:
            return None
        return wish.last_error or "failed"
