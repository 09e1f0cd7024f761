"""What the content index's front door says of itself: metrics and log lines, in one place."""

from collections.abc import Iterable

from argosy.base import logs
from argosy.base.errors import ArgosyError
from argosy.base.metrics import Metrics
from argosy.gateway.breaker import BreakerState
from argosy.gateway.content import metrics as m
from argosy.gateway.content.model import Backend, BackendOutcome

_LEVELS = {BreakerState.CLOSED: 0.0, BreakerState.HALF_OPEN: 0.5, BreakerState.OPEN: 1.0}


class ContentTelemetry:
    """Speaks for one front door."""

    def __init__(self, metrics: Metrics) -> None:
        self.log = logs.get("gateway.content")
        self._metrics = metrics
        self._states: dict[str, BreakerState] = {}
        self._outcomes: set[tuple[str, str]] = set()

    def record_find(self, surface: str, found: str, took_s: float, *, is_incomplete: bool) -> None:
        self._metrics.observe(m.FIND_SECONDS, took_s, surface=surface, found=found)
        if is_incomplete:
            self._metrics.inc(m.INCOMPLETE)

    def record_source(self, source: str) -> None:
        self._metrics.inc(m.SOURCES, source=source)

    def set_in_flight(self, finds: int) -> None:
        self._metrics.set(m.FINDS_IN_FLIGHT, finds)

    def record_backends(self, backends: Iterable[Backend]) -> None:
        names = [each.name for each in backends]
        self._metrics.set(m.BACKENDS, len(names))
        self.log.info("indexers to ask", count=len(names), backends=names)

    def record_skip(self, name: str, outcome: BackendOutcome, state: BreakerState) -> None:
        """A question that was not even put."""
        self._count(name, outcome)
        self._breaker(name, state, outcome)

    def record_response(self, name: str, took_s: float) -> None:
        self._metrics.observe(m.BACKEND_SECONDS, took_s, backend=name)

    def record_outcome(self, name: str, outcome: BackendOutcome, state: BreakerState, *, records: int = 0) -> None:
        self._count(name, outcome)
        if records:
            self._metrics.inc(m.RECORDS, by=records, backend=name)
        self._breaker(name, state, outcome)

    def record_malformed(self, name: str, lines: int) -> None:
        if lines:
            self._metrics.inc(m.MALFORMED, by=lines, backend=name)

    def record_cut_off(self, why: ArgosyError) -> None:
        """A stream that had begun could not be completed."""
        self._metrics.inc(m.INCOMPLETE)
        self.log.warning("stream cut off", why=str(why))

    def record_reload_failure(self, why: ArgosyError) -> None:
        self.log.error("indexers not reloaded", why=str(why))

    def remove_backends(self, names: Iterable[str]) -> None:
        """Indexers that are gone have no series any more."""
        for name in names:
            self._states.pop(name, None)
            for metric in (m.BREAKER, m.BACKEND_SECONDS, m.RECORDS, m.MALFORMED):
                self._metrics.remove(metric, backend=name)
            for each in [each for each in self._outcomes if each[0] == name]:
                self._outcomes.discard(each)
                self._metrics.remove(m.QUESTIONS, backend=name, outcome=each[1])

    def _count(self, name: str, outcome: BackendOutcome) -> None:
        self._outcomes.add((name, outcome.value))
        self._metrics.inc(m.QUESTIONS, backend=name, outcome=outcome.value)

    def _breaker(self, name: str, state: BreakerState, after: BackendOutcome) -> None:
        former = self._states.get(name)
        if state is former:
            return
        self._states[name] = state
        self._metrics.set(m.BREAKER, _LEVELS[state], backend=name)
        if state is BreakerState.OPEN:
            self.log.warning("indexer left alone", backend=name, after=after.value)
        elif former is not None and state is BreakerState.CLOSED:
            self.log.info("indexer asked again", backend=name)
