"""Metrics and log lines of the content gateway."""

from collections.abc import Iterable

from argosy.base import logs
from argosy.base.errors import ArgosyError
from argosy.base.metrics import Metrics, counter, gauge, histogram
from argosy.gateway.content.model import Backend, BackendOutcome
from argosy.gateway.load_balancer import BreakerState

FIND_SECONDS = histogram(
    "argosy_content_find_seconds",
    "Find latency by surface and by result: yes, no, unknown",
    labels=("surface", "found"),
)
FINDS_IN_FLIGHT = gauge("argosy_content_in_flight", "Finds waiting for indexers")
INCOMPLETE = counter("argosy_content_incomplete", "Incomplete answers: the part of an indexer is missing")
SOURCES = counter("argosy_content_cache", "Finds by the source of the answer: cache, shared, backends", ("source",))
BACKENDS = gauge("argosy_content_backends", "Indexers configured")
BACKEND_REQUESTS = counter("argosy_content_backend_requests", "Requests to indexers by outcome", ("backend", "outcome"))
BACKEND_SECONDS = histogram(
    "argosy_content_backend_seconds",
    "Time to an indexer's response, or to the first byte of its stream",
    labels=("backend",),
)
RECORDS = counter("argosy_content_records", "Records returned by indexers", ("backend",))
MALFORMED = counter("argosy_content_malformed", "Malformed lines in responses of indexers", ("backend",))
BREAKER = gauge(
    "argosy_content_breaker", "Circuit breaker of the indexer: 0 closed, 0.5 half open, 1 open", ("backend",)
)

_LEVELS = {BreakerState.CLOSED: 0.0, BreakerState.HALF_OPEN: 0.5, BreakerState.OPEN: 1.0}


class ContentTelemetry:
    """The metrics and log lines of one content gateway."""

    def __init__(self, metrics: Metrics) -> None:
        self.log = logs.get("gateway.content")
        self._metrics = metrics
        self._states: dict[str, BreakerState] = {}
        # The series that exist, so that they can be removed with their indexer.
        self._outcomes: set[tuple[str, str]] = set()

    def record_find(self, surface: str, found: str, took_s: float, *, is_incomplete: bool) -> None:
        self._metrics.observe(FIND_SECONDS, took_s, surface=surface, found=found)
        if is_incomplete:
            self._metrics.inc(INCOMPLETE)

    def record_source(self, source: str) -> None:
        self._metrics.inc(SOURCES, source=source)

    def set_in_flight(self, finds: int) -> None:
        self._metrics.set(FINDS_IN_FLIGHT, finds)

    def record_backends(self, backends: Iterable[Backend]) -> None:
        names = [each.name for each in backends]
        self._metrics.set(BACKENDS, len(names))
        self.log.info("indexers loaded", count=len(names), backends=names)

    def record_skip(self, name: str, outcome: BackendOutcome, state: BreakerState) -> None:
        """Count an indexer that was skipped: its circuit is open or it is busy."""
        self._count(name, outcome)
        self._breaker(name, state, outcome)

    def record_response(self, name: str, took_s: float) -> None:
        self._metrics.observe(BACKEND_SECONDS, took_s, backend=name)

    def record_outcome(self, name: str, outcome: BackendOutcome, state: BreakerState, *, records: int = 0) -> None:
        self._count(name, outcome)
        if records:
            self._metrics.inc(RECORDS, by=records, backend=name)
        self._breaker(name, state, outcome)

    def record_malformed(self, name: str, lines: int) -> None:
        if lines:
            self._metrics.inc(MALFORMED, by=lines, backend=name)

    def record_cut_off(self, why: ArgosyError) -> None:
        """Count a stream that ended early, after its first byte was sent."""
        self._metrics.inc(INCOMPLETE)
        self.log.warning("stream cut off", why=str(why))

    def record_reload_failure(self, why: ArgosyError) -> None:
        self.log.error("indexers not reloaded", why=str(why))

    def remove_backends(self, names: Iterable[str]) -> None:
        """Remove the series of indexers that left the pool."""
        # Prometheus would otherwise see the last values of a removed indexer until the process restarts.
        for name in names:
            self._states.pop(name, None)
            for metric in (BREAKER, BACKEND_SECONDS, RECORDS, MALFORMED):
                self._metrics.remove(metric, backend=name)
            for each in [each for each in self._outcomes if each[0] == name]:
                self._outcomes.discard(each)
                self._metrics.remove(BACKEND_REQUESTS, backend=name, outcome=each[1])

    def _count(self, name: str, outcome: BackendOutcome) -> None:
        self._outcomes.add((name, outcome.value))
        self._metrics.inc(BACKEND_REQUESTS, backend=name, outcome=outcome.value)

    def _breaker(self, name: str, state: BreakerState, after: BackendOutcome) -> None:
        # Only changes are exported and logged: every request passes here.
        previous = self._states.get(name)
        if state is previous:
            return
        self._states[name] = state
        self._metrics.set(BREAKER, _LEVELS[state], backend=name)
        if state is BreakerState.OPEN:
            self.log.warning("circuit breaker opened", backend=name, after=after.value)
        elif previous is not None and state is BreakerState.CLOSED:
            self.log.info("circuit breaker closed", backend=name)
