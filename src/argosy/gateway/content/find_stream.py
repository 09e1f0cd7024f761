"""The stream of one find: records of many indexers as they arrive, each once.

Response headers name what an answer lacks, so the response starts only when every indexer has started to respond, has
failed, or is late. If one breaks off after that, the stream is cut without its terminator: a client that reads the
terminator has everything that the headers did not exclude (GW-1).
"""

from collections.abc import AsyncIterator, Iterable, Sequence

from argosy.base.clock import Clock
from argosy.base.errors import Unavailable
from argosy.gateway.content.backend_protocol import INCOMPLETE_HEADER
from argosy.gateway.content.gather_runner import GatherRunner
from argosy.gateway.content.http1_client import Http1Response
from argosy.gateway.content.model import BackendOutcome, MissingBackend, format_missing
from argosy.ipni.model import ProviderResult
from argosy.ipni.web.find_fast_path import RESULTS_MAX, TRUNCATED_HEADER

RECORDS_MAX = 2 * RESULTS_MAX  # per stream: the records remembered to remove duplicates
CACHEABLE_MAX = 1000  # records of a stream that is cached; larger ones would displace many small answers

# MALFORMED is not among them: the good lines of such a response are passed on, and the answer is only not cached.
_BROKEN = (BackendOutcome.FAILED, BackendOutcome.TIMED_OUT, BackendOutcome.ERROR)


class StreamCutOff(Unavailable):
    """The stream ended before it was complete."""


class FindStream:
    """Call `begin`, read `missing` and `total`, then iterate over `parts`."""

    def __init__(self, runner: GatherRunner[None], clock: Clock) -> None:
        self.missing: tuple[MissingBackend, ...] = ()
        self.total: int | None = None
        self.cacheable: dict[str, list[ProviderResult]] | None = {}  # by indexer; None once too large to cache
        self.is_whole = False  # set after the last part if nothing is missing
        self._runner = runner
        self._clock = clock
        self._seen: set[tuple[str, bytes, bytes]] = set()
        self._count = 0

    def on_head(self, name: str, reply: Http1Response) -> None:
        """The head of an indexer's response has arrived."""
        if INCOMPLETE_HEADER in reply.headers:
            self.missing = (*self.missing, MissingBackend(name, BackendOutcome.INCOMPLETE))
        if TRUNCATED_HEADER in reply.headers:
            self.total = max(self.total or 0, _number(reply.headers[TRUNCATED_HEADER]))
        self._runner.on_head(name)

    @property
    def has_found(self) -> bool:
        return self._runner.machine.has_found

    async def begin(self) -> bool:
        """Wait until an answer can start; returns whether anything was found."""
        machine = self._runner.machine
        await self._runner.wait(machine.is_ready)
        # Of two reasons for one indexer its own wins: it has answered, although incompletely.
        named = {each.backend: each for each in (*machine.missing(self._clock.now()), *self.missing)}
        self.missing = tuple(named.values())
        self.is_whole = not machine.has_found and not self.missing
        return machine.has_found

    async def parts(self) -> AsyncIterator[Sequence[ProviderResult]]:
        runner = self._runner
        is_over = False
        while not is_over:
            await runner.wait(lambda now: bool(runner.parts) or runner.machine.is_over(now))
            # Before the yield: a part that arrives while the client reads is drained in the next turn.
            is_over = runner.machine.is_over(self._clock.now())
            if fresh := self._fresh(runner.drain_parts()):
                yield fresh
        self._check_whole()

    async def close(self) -> None:
        await self._runner.cancel()

    def _fresh(self, parts: Iterable[tuple[str, list[ProviderResult]]]) -> list[ProviderResult]:
        fresh: list[ProviderResult] = []
        for name, part in parts:
            self._collect_cacheable(name, part)
            for result in part:
                # With the metadata, unlike a merge: a stream cannot wait for the first indexer in the operator's list,
                # so of two that disagree it contains both records (decision 0028).
                key = (result.provider.id, result.context, result.metadata)
                if key not in self._seen:
                    self._seen.add(key)
                    fresh.append(result)
        # Without a bound one multihash with millions of records would exhaust the gateway's memory.
        if len(self._seen) > RECORDS_MAX:
            raise StreamCutOff(f"stream exceeds {RECORDS_MAX} records; query the indexers directly for more")
        return fresh

    def _collect_cacheable(self, name: str, part: list[ProviderResult]) -> None:
        self._count += len(part)
        if self._count > CACHEABLE_MAX:
            self.cacheable = None
        elif self.cacheable is not None:
            self.cacheable.setdefault(name, []).extend(part)

    def _check_whole(self) -> None:
        missing = self._runner.machine.missing(self._clock.now())
        announced = {each.backend for each in self.missing}
        broken = [each for each in missing if each.why in _BROKEN and each.backend not in announced]
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
    # Bounded, because int() raises ValueError for thousands of digits.
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else 0
