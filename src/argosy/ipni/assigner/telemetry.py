"""What the assigner says of itself: metrics and log lines, in one place, so that no other module is about them."""

from argosy.base import logs
from argosy.base.metrics import Metrics
from argosy.ipni.assigner import metrics as m
from argosy.ipni.assigner.pool_state import AssignmentStep, PoolState


class AssignerTelemetry:
    """Speaks for one assigner."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self._log = logs.get("ipni.assigner")
        self._shown: set[str] = set()

    def announced(self, outcome: str, publisher: str) -> None:
        self.metrics.inc(m.ANNOUNCES, outcome=outcome)
        self._log.debug("announced", publisher=publisher, outcome=outcome)

    def accepted(self, step: AssignmentStep) -> None:
        self._count(step, "accepted")
        self._log.info("publisher taken", publisher=step.publisher, indexer=step.target, continues=step.source)

    def refused(self, step: AssignmentStep, why: Exception) -> None:
        self._count(step, "refused")
        self._log.warning("publisher refused", publisher=step.publisher, indexer=step.target, why=str(why))

    def lost(self, step: AssignmentStep, why: Exception) -> None:
        self._count(step, "lost")
        self._log.warning("no answer to request", publisher=step.publisher, indexer=step.target, why=str(why))

    def came_to_nothing(self, step: AssignmentStep) -> None:
        self._log.info("nothing to hand on", publisher=step.publisher, frozen=step.source, indexer=step.target)

    def short(self, publisher: str) -> None:
        self._log.warning("too few indexers hold publisher", publisher=publisher)

    def delivered(self) -> None:
        self.metrics.inc(m.DELIVERIES, outcome="sent")

    def not_delivered(self, url: str, publisher: str, why: Exception) -> None:
        self.metrics.inc(m.DELIVERIES, outcome="failed")
        self._log.warning("announcement not passed on", url=url, publisher=publisher, why=str(why))

    def missed(self, url: str, why: Exception) -> None:
        self._log.warning("indexer does not answer", indexer=url, why=str(why))

    def preferred_missed(self, url: str, why: Exception) -> None:
        self._log.info("preferred publishers unknown", indexer=url, why=str(why))

    def changed_state(self, url: str, *, is_frozen: bool) -> None:
        self._log.info("indexer frozen" if is_frozen else "indexer active", indexer=url)

    def reloaded(self, picture: PoolState) -> None:
        self.metrics.inc(m.RELOADS, outcome="taken")
        self._log.info("pool configured", indexers=len(picture.urls()))

    def reload_refused(self, why: Exception) -> None:
        self.metrics.inc(m.RELOADS, outcome="refused")
        self._log.error("pool file refused, the former configuration holds", why=str(why))

    def polled(self, picture: PoolState, waiting: int) -> None:
        self.metrics.inc(m.POLLS)
        self.show(picture, waiting)
        for url, first in picture.doubles().items():
            self._log.error("indexer is in the pool twice", indexer=url, counted=first)

    def show(self, picture: PoolState, waiting: int) -> None:
        """Sets the gauges; those of indexers that have left the pool are taken away."""
        states = picture.pool()
        frozen = sum(state.is_frozen for state in states)
        unknown = sum(not state.is_known for state in states)
        self.metrics.set(m.INDEXERS, len(states) - frozen - unknown, state="active")
        self.metrics.set(m.INDEXERS, frozen, state="frozen")
        self.metrics.set(m.INDEXERS, unknown, state="unknown")
        self.metrics.set(m.OWED, sum(len(publishers) for publishers in picture.owed().values()))
        self.metrics.set(m.WAITING, waiting)
        for state in states:
            self.metrics.set(m.ASSIGNMENTS, len(state.assigned), indexer=state.id)
        for gone in self._shown - {state.id for state in states}:
            self.metrics.remove(m.ASSIGNMENTS, indexer=gone)
        self._shown = {state.id for state in states}

    def _count(self, step: AssignmentStep, outcome: str) -> None:
        self.metrics.inc(m.REQUESTS, kind="assign" if step.source is None else "handoff", outcome=outcome)
