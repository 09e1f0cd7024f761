"""Metrics and log events of a node of the job broker."""

from argosy.base import logs
from argosy.base.errors import ArgosyError, Fenced
from argosy.base.metrics import Metrics, counter, gauge, histogram
from argosy.jobs.cluster.ports import Split

# From an empty shard (4 ms) to one that replays its write-ahead log, up to `jobs_store.open_s_max`.
_OPEN_BUCKETS_S = (0.01, 0.05, 0.1, 0.5, 1, 2, 5, 15, 60)

SHARDS_OPEN = gauge("argosy_jobs_shards_open", "Shards open on this node")
SHARDS_KNOWN = gauge("argosy_jobs_shards_known", "Shards in the shard map")
# As one node sees it: right after a start it knows few leases. An alert should wait for longer than a lease's TTL.
SHARDS_UNOWNED = gauge("argosy_jobs_shards_unowned", "Shards without a known owner")
OPEN_SECONDS = histogram("argosy_jobs_shard_open_seconds", "Time to open a shard", _OPEN_BUCKETS_S)
SHARDS_LOST = counter("argosy_jobs_shards_lost", "Shards lost, by reason: failed storage or fencing", ("reason",))
SPLITS = counter("argosy_jobs_splits", "Shard splits by outcome", ("outcome",))
SPLIT_SECONDS = histogram("argosy_jobs_split_seconds", "Time a shard was unavailable during its split", _OPEN_BUCKETS_S)
CLEANED_ROWS = counter("argosy_jobs_cleaned_rows", "Rows of sibling shards deleted after splits")
POLLS = counter("argosy_jobs_polls", "Polls over all shards of this node, by outcome", ("outcome",))
TASKS_LEASED = counter("argosy_jobs_tasks_leased", "Tasks leased to workers by polls over all shards")


class JobsTelemetry:
    """Records the events of one node."""

    def __init__(self, metrics: Metrics, *, node: str) -> None:
        self.log = logs.get("jobs").bind(node=node)
        self._metrics = metrics

    def record_open(self, shard_id: str, epoch: int, took_s: float, *, count: int) -> None:
        self._metrics.observe(OPEN_SECONDS, took_s)
        self._metrics.set(SHARDS_OPEN, count)
        self.log.info("shard opened", shard=shard_id, epoch=epoch, took_s=round(took_s, 3))

    def record_closed(self, shard_id: str, *, count: int) -> None:
        self._metrics.set(SHARDS_OPEN, count)
        self.log.info("shard closed", shard=shard_id)

    def record_lost(self, shard_id: str, why: ArgosyError | None) -> None:
        self._metrics.inc(SHARDS_LOST, reason="fenced" if isinstance(why, Fenced) else "storage")
        self.log.warning("shard lost", shard=shard_id, why=str(why))

    def record_map(self, *, known: int, unowned: int) -> None:
        self._metrics.set(SHARDS_KNOWN, known)
        self._metrics.set(SHARDS_UNOWNED, unowned)

    def record_split_phase(self, split: Split) -> None:
        self.log.info("split phase changed", shard=split.shard_id, phase=split.phase.value, point=split.point)

    def record_split(self, split: Split, unavailable_s: float) -> None:
        self._metrics.inc(SPLITS, outcome="done")
        self._metrics.observe(SPLIT_SECONDS, unavailable_s)
        self.log.info(
            "split done",
            shard=split.shard_id,
            left=split.left,
            right=split.right,
            unavailable_s=round(unavailable_s, 3),
        )

    def record_split_failure(self, split: Split, why: Exception) -> None:
        self._metrics.inc(SPLITS, outcome="failed")
        self.log.warning("split failed", shard=split.shard_id, phase=split.phase.value, why=str(why))

    def record_cleaned(self, shard_id: str, rows: int) -> None:
        self._metrics.inc(CLEANED_ROWS, by=rows)
        self.log.info("shard cleaned", shard=shard_id, rows=rows)

    def record_cleanup_failure(self, shard_id: str, why: Exception) -> None:
        self.log.warning("cleanup interrupted", shard=shard_id, why=str(why))

    def record_map_failure(self, why: Exception) -> None:
        self.log.warning("shard map unreachable", why=str(why))

    def record_poll(self, tasks: int) -> None:
        self._metrics.inc(POLLS, outcome="tasks" if tasks else "none")
        self._metrics.inc(TASKS_LEASED, by=tasks)
