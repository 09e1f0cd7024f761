"""Tells people how sharing goes: figures after every exchange, and a log line when something turns."""

from argosy.base import logs
from argosy.base.errors import ArgosyError, Conflict
from argosy.base.metrics import Metric, Metrics
from argosy.throttle import metrics as m
from argosy.throttle.exchange import SyncCounters, SyncStatus
from argosy.throttle.model import Stats

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
        self._metrics.observe(m.UPDATE_LATENCY, seconds)

    def exchanged(self, standing: SyncStatus, figures: SyncCounters, *, rebased: int, refused: int) -> None:
        """How things stand after an exchange."""
        if standing.is_away != self._is_away:
            self._turned(standing)
        if figures.losses > self._told.get(m.ROWS_LOST.name, 0):
            log.warning("store has lost rows: they are restored", rows=figures.losses)
        self._set(m.STORE_CONNECTED, not standing.is_away)
        self._set(m.QUEUE_DEPTH, standing.queue)
        self._set(m.CLOCK_OFFSET, standing.offset_ms / 1000)
        self._set(m.PEERS, standing.peers)
        self._count(m.STORE_ERRORS, figures.errors)
        self._count(m.DELTAS_DROPPED, figures.dropped + refused)
        self._count(m.BATCHES_DUPLICATE, figures.duplicates)
        self._count(m.ROWS_LOST, figures.losses)
        self._count(m.BUCKETS_REBASED, rebased)

    def decided(self, stats: Stats) -> None:
        """How the throttle stands; what it has decided it counts itself."""
        self._set(m.GAIN, stats.gain)
        self._set(m.BUCKETS_BLAMED, stats.blamed)

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
