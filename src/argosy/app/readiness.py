"""Readiness of a working set: it is ready when a search reaches every repository that can be served.

`argosy up` stays ready from then on: a repository that is added later, or indexed again after its node died, does not
make `/readyz` fail. A repository that failed since the start, or that had no node for `STALL_S`, is reported and does
not delay the others.
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

POLL_S = 0.05  # cheap: the probing search runs only when all units are owned
STALL_S = 60.0  # repositories that have had no node for so long do not fit in memory

# One file: what counts is which nodes respond.
PROBE = Options(files_max=1)

log = logs.get("app")


class SearchableFleet(Protocol):
    """The gateway of this process."""

    def is_ready(self) -> bool: ...

    def missing(self) -> Sequence[Missing]: ...

    async def search(self, query: Query, options: Options) -> SearchResult: ...


class WorkingSetReadiness:
    """Completes once; `failed` then has the error of each repository that is not served."""

    def __init__(self, fleet: SearchableFleet, specs: Callable[[], Mapping[str, RepoSpec]], clock: Clock) -> None:
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
        """Polls until the working set is ready; then sleeps until it is cancelled."""
        while not await self._poll():
            await self._clock.sleep(POLL_S)
        self.took_s = self._clock.now() - self._began
        self.is_complete = True
        self._completed.set()
        for name, why in sorted(self.failed.items()):
            log.warning("repository not served", repository=name, error=why)
        await asyncio.Event().wait()

    async def _poll(self) -> bool:
        if not self._fleet.is_ready():
            return False
        missing = self._fleet.missing()
        if self._is_pending(missing):
            return False
        # Leases alone do not prove that the gateway reaches the nodes; one real search does.
        return not self._is_pending(await self._probe())

    async def _probe(self) -> Sequence[Missing]:
        """The repositories that a search over all nodes does not reach."""
        try:
            return (await self._fleet.search(parse("ready").query, PROBE)).missing
        except Unavailable as why:
            missing: Sequence[Missing] = getattr(why, "missing", ())
            return missing or [Missing(name, MissingReason.FAILED, str(why)) for name in self._specs()]
        # An error without a list of repositories concerns all of them.
        except ArgosyError as why:
            return [Missing(name, MissingReason.FAILED, str(why)) for name in self._specs()]

    def _is_pending(self, missing: Sequence[Missing]) -> bool:
        """Whether one of them may still become served."""
        # Computed again in each poll: a failed repository may have been indexed by another node since.
        self.failed = {each.repository: why for each in missing if (why := self._failure(each.repository)) is not None}
        left = [each for each in missing if each.repository not in self.failed]
        names = frozenset(each.repository for each in left)
        # A repository that is being indexed is making progress, however long it takes.
        if names != self._left or any(each.why is not MissingReason.UNOWNED for each in left):
            self._left, self._left_since = names, self._clock.now()
        if left and self._clock.now() - self._left_since >= STALL_S:
            self.failed |= {each.repository: each.detail or "no node has enough free memory" for each in left}
            return False
        return bool(left)

    def _failure(self, name: str) -> str | None:
        """The error since the start, or None."""
        spec = self._specs().get(name)
        if spec is None or not spec.failures or spec.last_failed_at is None or spec.last_failed_at < self._began_ms:
            return None
        return spec.last_error or "failed"
