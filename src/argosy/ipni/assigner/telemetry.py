"""Telemetry of the assigner: its metrics and log lines."""

from argosy.base import logs
from argosy.base.metrics import Metrics, counter, gauge
from argosy.ipni.assigner.pool_state import AssignmentStep, PoolState

ANNOUNCES = counter(
    "argosy_assigner_announces",
    "Announcements received, by outcome: accepted, repeated, forbidden, rejected",
    ("outcome",),
)
REQUESTS = counter(
    "argosy_assigner_requests",
    "Assignment requests by kind (assign, handoff) and outcome (accepted, refused, lost)",
    ("kind", "outcome"),
)
DELIVERIES = counter(
    "argosy_assigner_deliveries",
    "Announcements delivered to indexers and forward URLs by outcome: sent, failed",
    ("outcome",),
)
INDEXERS = gauge("argosy_assigner_indexers", "Indexers of the pool by state: active, frozen, unknown", ("state",))
ASSIGNMENTS = gauge("argosy_assigner_assignments", "Publishers assigned to the indexer", ("indexer",))
OWED = gauge("argosy_assigner_handoffs_owed", "Publishers of frozen indexers with a pending handoff")
WAITING = gauge("argosy_assigner_publishers_waiting", "Announced publishers held by too few indexers")
POLLS = counter("argosy_assigner_polls", "Polls of the pool")
RELOADS = counter(
    "argosy_assigner_reloads", "Changes of the pool's configuration, by outcome: accepted, rejected", ("outcome",)
)


class AssignerTelemetry:
    """Emits the metrics and log lines of one assigner."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self._log = logs.get("ipni.assigner")
        self._shown: set[str] = set()

    def record_announcement(self, outcome: str, publisher: str) -> None:
        self.metrics.inc(ANNOUNCES, outcome=outcome)
        self._log.debug("announced", publisher=publisher, outcome=outcome)

    def record_accept(self, step: AssignmentStep) -> None:
        self._count(step, "accepted")
        self._log.info("publisher assigned", publisher=step.publisher, indexer=step.target, continues=step.source)

    def record_refusal(self, step: AssignmentStep, why: Exception) -> None:
        self._count(step, "refused")
        self._log.warning("publisher refused", publisher=step.publisher, indexer=step.target, why=str(why))

    def record_unknown_outcome(self, step: AssignmentStep, why: Exception) -> None:
        self._count(step, "lost")
        self._log.warning("assignment request timed out", publisher=step.publisher, indexer=step.target, why=str(why))

    def record_moot_handoff(self, step: AssignmentStep) -> None:
        self._log.info("nothing to hand off", publisher=step.publisher, frozen=step.source, indexer=step.target)

    def record_short(self, publisher: str) -> None:
        self._log.warning("too few indexers hold publisher", publisher=publisher)

    def record_delivery(self) -> None:
        self.metrics.inc(DELIVERIES, outcome="sent")

    def record_delivery_failure(self, url: str, publisher: str, why: Exception) -> None:
        self.metrics.inc(DELIVERIES, outcome="failed")
        self._log.warning("announcement not delivered", url=url, publisher=publisher, why=str(why))

    def record_poll_failure(self, url: str, why: Exception) -> None:
        self._log.warning("indexer unreachable", indexer=url, why=str(why))

    def record_preferred_failure(self, url: str, why: Exception) -> None:
        self._log.info("preferred publishers unknown", indexer=url, why=str(why))

    def record_state(self, url: str, *, is_frozen: bool) -> None:
        self._log.info("indexer frozen" if is_frozen else "indexer active", indexer=url)

    def record_reload(self, pool_state: PoolState) -> None:
        self.metrics.inc(RELOADS, outcome="accepted")
        self._log.info("pool configured", indexers=len(pool_state.urls()))

    def record_reload_failure(self, why: Exception) -> None:
        self.metrics.inc(RELOADS, outcome="rejected")
        self._log.error("pool file rejected, keeping the previous configuration", why=str(why))

    def record_poll(self, pool_state: PoolState, waiting: int) -> None:
        self.metrics.inc(POLLS)
        self.set_gauges(pool_state, waiting)
        for url, first in pool_state.doubles().items():
            self._log.error("indexer is in the pool twice", indexer=url, counted=first)

    def set_gauges(self, pool_state: PoolState, waiting: int) -> None:
        """Sets the gauges; those of removed indexers are deleted."""
        states = pool_state.pool()
        frozen = sum(state.is_frozen for state in states)
        unknown = sum(not state.is_known for state in states)
        self.metrics.set(INDEXERS, len(states) - frozen - unknown, state="active")
        self.metrics.set(INDEXERS, frozen, state="frozen")
        self.metrics.set(INDEXERS, unknown, state="unknown")
        self.metrics.set(OWED, sum(len(publishers) for publishers in pool_state.pending_handoffs().values()))
        self.metrics.set(WAITING, waiting)
        for state in states:
            self.metrics.set(ASSIGNMENTS, len(state.assigned), indexer=state.id)
        for removed in self._shown - {state.id for state in states}:
            self.metrics.remove(ASSIGNMENTS, indexer=removed)
        self._shown = {state.id for state in states}

    def _count(self, step: AssignmentStep, outcome: str) -> None:
        self.metrics.inc(REQUESTS, kind="assign" if step.source is None else "handoff", outcome=outcome)
