"""Tells people how sharing goes: figures after every exchange, and a log line when something turns."""

from argosy.base import logs
from argosy.base.errors import ArgosyError, Conflict
from argosy.base.metrics import Metric, Metrics, counter, gauge, histogram
from argosy.throttle.exchange import SyncCounters, SyncStatus
from argosy.throttle.model import Stats

_LATENCY_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

STORE_CONNECTED = gauge("argosy_throttle_store_connected", "1 while the shared store answers, 0 while it is away")
STORE_ERRORS = counter("argosy_throttle_store_errors", "exchanges with the shared store that failed")
UPDATE_LATENCY = histogram(
    "argosy_throttle_update_latency_seconds", "how long the shared store took to commit a batch", _LATENCY_BUCKETS_S
)
QUEUE_DEPTH = gauge("argosy_throttle_queue_depth", "buckets with changes on their way to the shared store")
DELTAS_DROPPED = counter("argosy_throttle_deltas_dropped", "changes given up because the shared store was away or full")
BATCHES_DUPLICATE = counter("argosy_throttle_batches_duplicate", "batches the shared store had already applied")
ROWS_LOST = counter("argosy_throttle_rows_lost", "rows that the shared store had forgotten and was told again")
BUCKETS_REBASED = counter("argosy_throttle_buckets_rebased", "buckets changed by what other instances have learnt")
CLOCK_OFFSET = gauge("argosy_throttle_clock_offset_seconds", "the shared store's clock less this machine's")
PEERS = gauge("argosy_throttle_peers", "instances that share their state, this one included")
GAIN = gauge("argosy_throttle_gain", "factor of every step: above 1 while the store is away and one stands for all")

BUCKETS_BLAMED = gauge("argosy_throttle_buckets_blamed", "buckets of the deciding window above zero")

log = logs.get("throttle")


class ThrottleTelemetry:
    """Counters are told as totals, and passed on as what was added since."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._told: dict[str, float] = {}
        self._is_away: bool | None = None
        self._why: ArgosyError | None = None

    def failed(self, why: ArgosyError) -> None:
        """An exchange failed; which is a log line only when the store is given up."""
        if isinstance(why, Conflict) and not isinstance(self._why, Conflict):
            log.error("state not shared", why=str(why))
        self._why = why

    def committed(self, seconds: float) -> None:
        self._metrics.observe(UPDATE_LATENCY, seconds)

    def exchanged(self, standing: SyncStatus, figures: SyncCounters, *, rebased: int, refused: int) -> None:
        """How things stand after an exchange."""
        if standing.is_away != self._is_away:
            self._turned(standing)
        if figures.losses > self._told.get(ROWS_LOST.name, 0):
            log.warning("store has lost rows: they are restored", rows=figures.losses)
        self._set(STORE_CONNECTED, not standing.is_away)
        self._set(QUEUE_DEPTH, standing.queue)
        self._set(CLOCK_OFFSET, standing.offset_ms / 1000)
        self._set(PEERS, standing.peers)
        self._count(STORE_ERRORS, figures.errors)
        self._count(DELTAS_DROPPED, figures.dropped + refused)
        self._count(BATCHES_DUPLICATE, figures.duplicates)
        self._count(ROWS_LOST, figures.losses)
        self._count(BUCKETS_REBASED, rebased)

    def decided(self, stats: Stats) -> None:
        """How the throttle stands; what it has decided it counts itself."""
        self._set(GAIN, stats.gain)
        self._set(BUCKETS_BLAMED, stats.blamed)

    def _turned(self, standing: SyncStatus) -> None:
        if standing.is_away:
            log.warning("store away: deciding alone", peers=standing.peers, why=str(self._why or ""))
        elif self._is_away is not None:
            log.info("store back")
        self._is_away = standing.is_away

    def _set(self, gauge: Metric, value: float) -> None:
        self._metrics.set(gauge, float(value))

    def _count(self, counter: Metric, total: float) -> None:
        self._metrics.inc(counter, by=max(0.0, total - self._told.get(counter.name, 0.0)))
        self._told[counter.name] = total
