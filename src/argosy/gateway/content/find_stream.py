"""The stream of one find: records of many indexers as they arrive, each once.

What an answer lacks is said before it begins, so its beginning waits until every indexer has begun to answer, has
failed, or is late. If one breaks off later the stream is cut, not ended: a reader that sees the end has seen all that
was promised (GW-1).
"""

from collections.abc import AsyncIterator, Iterable, Sequence

from argosy.base.clock import Clock
from argosy.base.errors import Unavailable
from argosy.gateway.content.gather_runner import GatherRunner
from argosy.gateway.content.http1_client import Http1Response
from argosy.gateway.content.model import BackendOutcome, MissingBackend, format_missing
from argosy.gateway.content.reply_parser import INCOMPLETE_HEADER
from argosy.ipni.model import ProviderResult
from argosy.ipni.web.measured_finds import RESULTS_MAX, TRUNCATED_HEADER

RECORDS_MAX = 2 * RESULTS_MAX  # per stream: the records remembered to remove duplicates
KEPT_MAX = 1000  # of a stream that is cached

_BROKEN = (BackendOutcome.FAILED, BackendOutcome.TIMED_OUT, BackendOutcome.ERROR)


class StreamCutOff(Unavailable):
    """The stream ended before it was complete."""


class FindStream:
    """Call `begin`, read `missing` and `total`, then iterate over `parts`."""

    def __init__(self, gathering: GatherRunner[None], clock: Clock) -> None:
        self.missing: tuple[MissingBackend, ...] = ()
        self.total: int | None = None
        self.kept: dict[str, list[ProviderResult]] | None = {}  # by indexer; None once too large to cache
        self.is_whole = False  # set after the last part if nothing is missing
        self._gathering = gathering
        self._clock = clock
        self._seen: set[tuple[str, bytes, bytes]] = set()
        self._count = 0

    def begun(self, name: str, reply: Http1Response) -> None:
        """The head of an indexer's response has arrived."""
        if INCOMPLETE_HEADER in reply.headers:
            self.missing = (*self.missing, MissingBackend(name, BackendOutcome.INCOMPLETE))
        if TRUNCATED_HEADER in reply.headers:
            self.total = max(self.total or 0, _number(reply.headers[TRUNCATED_HEADER]))
        self._gathering.begun(name)

    @property
    def has_found(self) -> bool:
        return self._gathering.machine.has_found

    async def begin(self) -> bool:
        """Wait until an answer can start; returns whether anything was found."""
        machine = self._gathering.machine
        await self._gathering.wait(machine.is_ready)
        named = {lack.backend: lack for lack in (*machine.missing(self._clock.now()), *self.missing)}
        self.missing = tuple(named.values())
        self.is_whole = not machine.has_found and not self.missing
        return machine.has_found

    async def parts(self) -> AsyncIterator[Sequence[ProviderResult]]:
        gathering = self._gathering
        is_over = False
        while not is_over:
            await gathering.wait(lambda now: bool(gathering.parts) or gathering.machine.is_over(now))
            is_over = gathering.machine.is_over(self._clock.now())
            if fresh := self._fresh(gathering.taken()):
                yield fresh
        self._check_whole()

    async def close(self) -> None:
        await self._gathering.cancel()

    def _fresh(self, parts: Iterable[tuple[str, list[ProviderResult]]]) -> list[ProviderResult]:
        fresh: list[ProviderResult] = []
        for name, part in parts:
            self._keep(name, part)
            for result in part:
                key = (result.provider.id, result.context, result.metadata)
                if key not in self._seen:
                    self._seen.add(key)
                    fresh.append(result)
        if len(self._seen) > RECORDS_MAX:
            raise StreamCutOff(f"stream exceeds {RECORDS_MAX} records; query the indexers directly for more")
        return fresh

    def _keep(self, name: str, part: list[ProviderResult]) -> None:
        self._count += len(part)
        if self._count > KEPT_MAX:
            self.kept = None
        elif self.kept is not None:
            self.kept.setdefault(name, []).extend(part)

    def _check_whole(self) -> None:
        missing = self._gathering.machine.missing(self._clock.now())
        promised = {lack.backend for lack in self.missing}
        broken = [lack for lack in missing if lack.why in _BROKEN and lack.backend not in promised]
        if broken:
            raise StreamCutOff(f"indexers failed while streaming ({format_missing(broken)}); retry")
        self.is_whole = not missing and not self.missing


class CachedStream:
    """The same interface for a cached answer."""

    missing: tuple[MissingBackend, ...] = ()
    total: int | None = None

    def __init__(self, results: Sequence[ProviderResult]) -> None:
        self._results = results

    async def begin(self) -> bool:
        return bool(self._results)

    async def parts(self) -> AsyncIterator[Sequence[ProviderResult]]:
        yield self._results


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else 0
