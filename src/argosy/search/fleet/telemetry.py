"""Metrics and log events of a search node.

Series with the label `repository` exist while this node holds the repository, so their number is bounded by the
repositories of one node.
"""

from argosy.base import logs
from argosy.base.metrics import Metrics, counter, gauge, histogram
from argosy.search.fleet.events import IndexStats
from argosy.search.fleet.index_controller import IndexController

_TIME_BUCKETS_S = (0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 900)

INDEX_TIME_MS = gauge("argosy_index_time_ms", "Duration of the latest index build", ("repository",))
FETCH_TIME_MS = gauge("argosy_fetch_time_ms", "Duration of the latest fetch", ("repository",))
MEMORY_BYTES = gauge("argosy_index_memory_bytes", "Memory of the index", ("repository",))
LAST_SERVED_AT = gauge("argosy_last_served_at", "Unix time of the last search of the repository", ("repository",))
CLAIM_LATENCY = gauge(
    "argosy_repository_claim_latency_seconds", "Time from unowned to owned by this node", ("repository",)
)
PER_REPOSITORY = (INDEX_TIME_MS, FETCH_TIME_MS, MEMORY_BYTES, LAST_SERVED_AT, CLAIM_LATENCY)

INDEXES_PROVISIONED = counter(
    "argosy_indexes_provisioned", "Finished indexes: built, incremental, received, restored", ("how",)
)
PROVISION_TIME = histogram(
    "argosy_index_provision_seconds",
    "Time from the start of the fetch to the finished index",
    _TIME_BUCKETS_S,
    ("how",),
)
FAILURES = counter("argosy_index_failures", "Failed fetches, builds, origin checks and snapshots", ("step",))
EVICTIONS = counter("argosy_evictions", "Indexes evicted for lack of memory")
DAMAGED = counter("argosy_indexes_damaged", "Indexes that failed checksum verification and were rebuilt")
BUDGET_BYTES = gauge("argosy_search_budget_bytes", "Memory budget of all indexes")
HELD_BYTES = gauge("argosy_search_held_bytes", "Memory of all indexes")
REPOSITORIES_READY = gauge("argosy_repositories_ready", "Repositories with a loaded index on this node")
INDEX_QUEUE_DEPTH = gauge("argosy_index_queue_depth", "Index jobs waiting for a slot")


class SearchTelemetry:
    """Metrics and log of one node."""

    def __init__(self, metrics: Metrics, *, node: str) -> None:
        self.log = logs.get("search").bind(node=node)
        self._metrics = metrics

    def record_index(self, name: str, how: str, stats: IndexStats, seconds: float) -> None:
        self._metrics.inc(INDEXES_PROVISIONED, how=how)
        self._metrics.observe(PROVISION_TIME, seconds, how=how)
        self._metrics.set(INDEX_TIME_MS, stats.index_time_ms, repository=name)
        self._metrics.set(FETCH_TIME_MS, stats.fetch_time_ms, repository=name)
        self.log.info(
            "index provisioned",
            repository=name,
            how=how,
            documents=stats.documents,
            memory_bytes=stats.memory_bytes,
            seconds=round(seconds, 3),
        )

    def record_failure(self, name: str, step: str, reason: str, bug: BaseException | None = None) -> None:
        """`bug`: an unexpected exception, logged with its traceback."""
        self._metrics.inc(FAILURES, step=step)
        self.log.warning("index job failed", repository=name, step=step, why=reason, exc_info=bug or False)

    def record_claim(self, name: str, claim_latency_s: float) -> None:
        self._metrics.set(CLAIM_LATENCY, claim_latency_s, repository=name)

    def record_damage(self, name: str, places: str) -> None:
        self._metrics.inc(DAMAGED)
        self.log.error("index damaged", repository=name, places=places)

    def record_release(self, name: str, reason: str, *, is_eviction: bool) -> None:
        self._metrics.inc(EVICTIONS, by=float(is_eviction))
        self.log.info("unit released", repository=name, why=reason)

    def remove(self, name: str) -> None:
        for metric in PER_REPOSITORY:
            self._metrics.remove(metric, repository=name)

    def set_gauges(self, controller: IndexController, wall_offset_s: float) -> None:
        self._metrics.set(BUDGET_BYTES, controller.memory.budget_bytes)
        self._metrics.set(HELD_BYTES, controller.memory.held_bytes)
        self._metrics.set(INDEX_QUEUE_DEPTH, controller.queue.waiting)
        ready = [repo for repo in controller.repos.values() if repo.loaded is not None]
        self._metrics.set(REPOSITORIES_READY, len(ready))
        for repo in ready:
            self._metrics.set(MEMORY_BYTES, repo.memory_bytes, repository=repo.name)
            if (last_at := controller.traffic.last_at(repo.name)) is not None:
                self._metrics.set(LAST_SERVED_AT, last_at + wall_offset_s, repository=repo.name)
