"""Per-indexer state: circuit breaker, requests in flight, and the latency above which a response is late.

An indexer is late when it takes LATE_FACTOR times its own 95th percentile: never before `patience_min_s`, so that
scheduling jitter costs no results, and always after `patience_max_s`, so that a slow indexer does not slow down every
find. Late responses are measured as well; otherwise an indexer that has recovered would stay late (decision 0028).
"""

from collections.abc import Collection

from argosy.base.clock import Random
from argosy.base.retry import Backoff
from argosy.gateway.content.model import BackendOutcome
from argosy.gateway.load_balancer import Breaker, BreakerState, NodeStats
from argosy.gateway.settings import ContentSettings

LATE_FACTOR = 4.0


class BackendTracker:
    """Statistics by indexer name. Every `on_start` is followed by exactly one `on_end` or `on_cancel`."""

    def __init__(self, settings: ContentSettings, random: Random) -> None:
        self._settings = settings
        self._random = random
        self._stats_by_name: dict[str, NodeStats] = {}

    def refusal(self, name: str, now: float) -> BackendOutcome | None:
        """Why to skip this indexer now; None if a request may be sent."""
        stats = self._stats(name)
        breaker = stats.breaker
        # When most finds are misses, a silent indexer would otherwise be waited for until three deadlines have passed,
        # 15 s (decision 0028).
        if breaker.state is BreakerState.CLOSED and stats.is_stalled(self._settings.stall_s, now):
            breaker.trip(now)
        if not breaker.admits(now):
            return BackendOutcome.CIRCUIT_OPEN
        return BackendOutcome.BUSY if stats.in_flight >= self._settings.requests_max else None

    def patience_s(self, name: str) -> float:
        usual_s = LATE_FACTOR * self._stats(name).late_s
        return min(max(usual_s, self._settings.patience_min_s), self._settings.patience_max_s)

    def on_start(self, name: str, now: float) -> None:
        self._stats(name).on_start(now)

    def on_response(self, name: str, took_s: float, now: float) -> None:
        """A response or its first byte arrived; `on_end` reports the outcome."""
        stats = self._stats(name)
        # The head of a stream proves long before its end that the indexer works, so the breaker closes here and not in
        # `on_end`.
        stats.on_response(took_s, now)
        stats.breaker.on_success()

    def on_end(self, name: str, outcome: BackendOutcome, now: float) -> None:
        breaker = self._finish(name).breaker
        # REFUSED and MALFORMED are responses: the indexer works, and querying it less would not make it answer better.
        if outcome in (BackendOutcome.FAILED, BackendOutcome.ERROR, BackendOutcome.TIMED_OUT):
            breaker.on_failure(now)
        else:
            breaker.on_success()

    def on_cancel(self, name: str, now: float) -> None:
        """The caller cancelled the request, through no fault of the indexer."""
        self._finish(name).breaker.on_cancel(now)

    def state(self, name: str) -> BreakerState:
        return self._stats(name).breaker.state

    def retain_only(self, names: Collection[str]) -> list[str]:
        """Drop other indexers without requests in flight; returns the dropped names."""
        # A request in flight reports its end, and needs the entry then.
        removed = [name for name, stats in self._stats_by_name.items() if name not in names and not stats.in_flight]
        for name in removed:
            del self._stats_by_name[name]
        return removed

    def _finish(self, name: str) -> NodeStats:
        stats = self._stats(name)
        stats.in_flight -= 1
        assert stats.in_flight >= 0, name
        return stats

    def _stats(self, name: str) -> NodeStats:
        stats = self._stats_by_name.get(name)
        if stats is None:
            settings = self._settings
            backoff = Backoff(settings.breaker_first_s, settings.breaker_ceiling_s)
            stats = self._stats_by_name[name] = NodeStats(Breaker(settings.breaker_failures, backoff, self._random))
        return stats
