"""What the assigner says of itself: metrics and log lines, in one place, so that no other module is about them."""

from argosy.base import logs
from argosy.base.metrics import Metrics, counter, gauge
from argosy.ipni.assigner.pool_state import AssignmentStep, PoolState

ANNOUNCES = counter(
    "argosy_assigner_announces",
    "announcements received, by outcome: taken, repeated, forbidden, turned away",
    ("outcome",),
)
REQUESTS = counter(
    "argosy_assigner_requests",
    "requests to take a publisher, by kind (assign, handoff) and outcome (accepted, refused, lost)",
    ("kind", "outcome"),
)
DELIVERIES = counter("argosy_assigner_deliveries", "announcements passed on, by outcome: sent, failed", ("outcome",))
INDEXERS = gauge("argosy_assigner_indexers", "indexers of the pool by state: active, frozen, unknown", ("state",))
ASSIGNMENTS = gauge("argosy_assigner_assignments", "publishers that one indexer follows", ("indexer",))
OWED = gauge("argosy_assigner_handoffs_owed", "publishers of frozen indexers that are still to be handed on")
WAITING = gauge("argosy_assigner_publishers_waiting", "announced publishers that too few indexers hold so far")
POLLS = counter("argosy_assigner_polls", "rounds of questions to the pool")
RELOADS = counter(
    "argosy_assigner_reloads", "changes of the pool's configuration, by outcome: taken, refused", ("outcome",)
)


class AssignerTelemetry:
    """Speaks for one assigner."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self._log = logs.get("ipni.assigner")
        self._shown: set[str] = set()

    def record_announcement(self, outcome: str, publisher: str) -> None:
        self.metrics.inc(ANNOUNCES, outcome=outcome)
        self._log.debug("announced", publisher=publisher, outcome=outcome)

    def record_accept(self, step: AssignmentStep) -> None:
        self._count(step, "accepted")
        self._log.info("publisher taken", publisher=step.publisher, indexer=step.target, continues=step.source)

    def record_refusal(self, step: AssignmentStep, why: Exception) -> None:
        self._count(step, "refused")
        self._log.warning("publisher refused", publisher=step.publisher, indexer=step.target, why=str(why))

    def record_unknown_outcome(self, step: AssignmentStep, why: Exception) -> None:
        self._count(step, "lost")
        self._log.warning("no answer to request", publisher=step.publisher, indexer=step.target, why=str(why))

    def record_moot_handoff(self, step: AssignmentStep) -> None:
        self._log.info("nothing to hand on", publisher=step.publisher, frozen=step.source, indexer=step.target)

    def record_short(self, publisher: str) -> None:
        self._log.warning("too few indexers hold publisher", publisher=publisher)

    def record_delivery(self) -> None:
        self.metrics.inc(DELIVERIES, outcome="sent")

    def record_delivery_failure(self, url: str, publisher: str, why: Exception) -> None:
        self.metrics.inc(DELIVERIES, outcome="failed")
        self._log.warning("announcement not passed on", url=url, publisher=publisher, why=str(why))

    def record_poll_failure(self, url: str, why: Exception) -> None:
        self._log.warning("indexer does not answer", indexer=url, why=str(why))

    def record_preferred_failure(self, url: str, why: Exception) -> None:
        self._log.info("preferred publishers unknown", indexer=url, why=str(why))

    def record_state(self, url: str, *, is_frozen: bool) -> None:
        self._log.info("indexer frozen" if is_frozen else "indexer active", indexer=url)

    def record_reload(self, pool_state: PoolState) -> None:
        self.metrics.inc(RELOADS, outcome="taken")
        self._log.info("pool configured", indexers=len(pool_state.urls()))

    def record_reload_failure(self, why: Exception) -> None:
        self.metrics.inc(RELOADS, outcome="refused")
        self._log.error("pool file refused, the former configuration holds", why=str(why))

    def record_poll(self, pool_state: PoolState, waiting: int) -> None:
        self.metrics.inc(POLLS)
        self.set_gauges(pool_state, waiting)
        for url, first in pool_state.doubles().items():
            self._log.error("indexer is in the pool twice", indexer=url, counted=first)

    def set_gauges(self, pool_state: PoolState, waiting: int) -> None:
        """Sets the gauges; those of indexers that have left the pool are taken away."""
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
        for gone in self._shown - {state.id for state in states}:
            self.metrics.remove(ASSIGNMENTS, indexer=gone)
        self._shown = {state.id for state in states}

    def _count(self, step: AssignmentStep, outcome: str) -> None:
        self.metrics.inc(REQUESTS, kind="assign" if step.source is None else "handoff", outcome=outcome)
