"""What a search node says of itself: metrics and log lines, in one place, so that no other module is about them."""

from argosy.base import logs
from argosy.base.metrics import Metrics
from argosy.search.fleet import metrics as m
from argosy.search.fleet.events import IndexStats
from argosy.search.fleet.index_controller import IndexController


class SearchTelemetry:
    """Speaks for one node."""

    def __init__(self, metrics: Metrics, *, node: str) -> None:
        self.log = logs.get("search").bind(node=node)
        self._metrics = metrics

    def made(self, name: str, how: str, figures: IndexStats, seconds: float) -> None:
        self._metrics.inc(m.INDEXES_MADE, how=how)
        self._metrics.observe(m.MAKING_TIME, seconds, how=how)
        self._metrics.set(m.INDEX_TIME_MS, figures.index_time_ms, repository=name)
        self._metrics.set(m.FETCH_TIME_MS, figures.fetch_time_ms, repository=name)
        self.log.info(
            "index made",
            repository=name,
            how=how,
            documents=figures.documents,
            memory_bytes=figures.memory_bytes,
            seconds=round(seconds, 3),
        )

    def failed(self, name: str, step: str, reason: str, bug: BaseException | None = None) -> None:
        """`bug`: nobody foresaw this, so where it came from is told too."""
        self._metrics.inc(m.FAILURES, step=step)
        self.log.warning("failed", repository=name, step=step, why=reason, exc_info=bug or False)

    def claimed(self, name: str, claim_latency_s: float) -> None:
        self._metrics.set(m.CLAIM_LATENCY, claim_latency_s, repository=name)

    def damaged(self, name: str, places: str) -> None:
        self._metrics.inc(m.DAMAGED)
        self.log.error("index damaged", repository=name, places=places)

    def released(self, name: str, reason: str, *, is_eviction: bool) -> None:
        self._metrics.inc(m.EVICTIONS, by=float(is_eviction))
        self.log.info("released", repository=name, why=reason)

    def forgotten(self, name: str) -> None:
        for metric in m.OF_A_REPOSITORY:
            self._metrics.remove(metric, repository=name)

    def figures(self, library: IndexController, wall_offset_s: float) -> None:
        self._metrics.set(m.BUDGET_BYTES, library.memory.budget_bytes)
        self._metrics.set(m.HELD_BYTES, library.memory.held_bytes)
        self._metrics.set(m.MAKINGS_WAITING, library.line.waiting)
        ready = [volume for volume in library.volumes.values() if volume.kept is not None]
        self._metrics.set(m.REPOSITORIES_READY, len(ready))
        for volume in ready:
            self._metrics.set(m.MEMORY_BYTES, volume.memory_bytes, repository=volume.name)
            if (last_at := library.traffic.last_at(volume.name)) is not None:
                self._metrics.set(m.LAST_SERVED_AT, last_at + wall_offset_s, repository=volume.name)
