"""Metrics and log lines of the synchronization: connectivity, update latency, queue depth and more."""

from argosy.base import logs
from argosy.base.errors import ArgosyError, Conflict
from argosy.base.metrics import Metric, Metrics, counter, gauge, histogram
from argosy.throttle.exchange import SyncCounters, SyncStatus
from argosy.throttle.model import ThrottleStats

_LATENCY_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

STORE_CONNECTED = gauge("argosy_throttle_store_connected", "1 while the shared store is reachable")
STORE_ERRORS = counter("argosy_throttle_store_errors", "Failed exchanges with the shared store")
UPDATE_LATENCY = histogram(
    "argosy_throttle_update_latency_seconds", "Time to commit a batch to the shared store", _LATENCY_BUCKETS_S
)
QUEUE_DEPTH = gauge("argosy_throttle_queue_depth", "Buckets with changes not yet pushed to the shared store")
DELTAS_DROPPED = counter(
    "argosy_throttle_deltas_dropped", "Changes dropped because the shared store was unreachable or the queue full"
)
BATCHES_DUPLICATE = counter("argosy_throttle_batches_duplicate", "Batches that the shared store had applied already")
ROWS_LOST = counter("argosy_throttle_rows_lost", "Rows lost by the shared store and restored")
BUCKETS_REBASED = counter("argosy_throttle_buckets_rebased", "Buckets changed by updates of other instances")
CLOCK_OFFSET = gauge(
    "argosy_throttle_clock_offset_seconds", "Clock of the shared store minus the clock of this machine"
)
PEERS = gauge("argosy_throttle_peers", "Live instances that share the state, including this one")
GAIN = gauge(
    "argosy_throttle_gain", "Factor of every step: the number of instances while the store is unreachable, otherwise 1"
)

BUCKETS_BLAMED = gauge("argosy_throttle_buckets_blamed", "Buckets of the current window with a probability above 0")

log = logs.get("throttle")


class ThrottleTelemetry:
    """Receives totals, and adds their increases to the counters."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._pending_buckets: dict[str, float] = {}
        self._is_away: bool | None = None
        self._why: ArgosyError | None = None

    def record_failure(self, why: ArgosyError) -> None:
        """An exchange has failed. It is logged only when the store is given up."""
        # Every exchange of a misconfigured instance fails alike; one line says what to change.
        if isinstance(why, Conflict) and not isinstance(self._why, Conflict):
            log.error("state not shared", why=str(why))
        self._why = why

    def record_commit(self, seconds: float) -> None:
        self._metrics.observe(UPDATE_LATENCY, seconds)

    def record_exchange(self, status: SyncStatus, counters: SyncCounters, *, rebased: int, refused: int) -> None:
        """The state after an exchange."""
        if status.is_unreachable != self._is_away:
            self._record_reachability(status)
        if counters.losses > self._pending_buckets.get(ROWS_LOST.name, 0):
            log.warning("store rows lost; restoring", rows=counters.losses)
        self._set(STORE_CONNECTED, not status.is_unreachable)
        self._set(QUEUE_DEPTH, status.queue)
        self._set(CLOCK_OFFSET, status.offset_ms / 1000)
        self._set(PEERS, status.peers)
        self._count(STORE_ERRORS, counters.errors)
        self._count(DELTAS_DROPPED, counters.dropped + refused)
        self._count(BATCHES_DUPLICATE, counters.duplicates)
        self._count(ROWS_LOST, counters.losses)
        self._count(BUCKETS_REBASED, rebased)

    def record_stats(self, stats: ThrottleStats) -> None:
        """Statistics of the throttle, which counts its decisions itself."""
        self._set(GAIN, stats.gain)
        self._set(BUCKETS_BLAMED, stats.blamed)

    def _record_reachability(self, status: SyncStatus) -> None:
        if status.is_unreachable:
            log.warning("store unreachable; deciding locally", peers=status.peers, why=str(self._why or ""))
        elif self._is_away is not None:
            log.info("store reachable again")
        self._is_away = status.is_unreachable

    def _set(self, gauge: Metric, value: float) -> None:
        self._metrics.set(gauge, float(value))

    def _count(self, counter: Metric, total: float) -> None:
        self._metrics.inc(counter, by=max(0.0, total - self._pending_buckets.get(counter.name, 0.0)))
        self._pending_buckets[counter.name] = total
