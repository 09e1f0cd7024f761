"""What a node of the job broker says of itself: metrics and log lines, in one place."""

from argosy.base import logs
from argosy.base.errors import ArgosyError, Fenced
from argosy.base.metrics import Metrics
from argosy.jobs import metrics as m
from argosy.jobs.cluster.model import Split


class Teller:
    """Speaks for one node."""

    def __init__(self, metrics: Metrics, *, node: str) -> None:
        self.log = logs.get("jobs").bind(node=node)
        self._metrics = metrics

    def opened(self, shard_id: str, epoch: int, took_s: float, *, count: int) -> None:
        self._metrics.observe(m.OPEN_SECONDS, took_s)
        self._metrics.set(m.SHARDS_OPEN, count)
        self.log.info("shard open", shard=shard_id, epoch=epoch, took_s=round(took_s, 3))

    def closed(self, shard_id: str, *, count: int) -> None:
        self._metrics.set(m.SHARDS_OPEN, count)
        self.log.info("shard closed", shard=shard_id)

    def lost(self, shard_id: str, why: ArgosyError | None) -> None:
        self._metrics.inc(m.SHARDS_LOST, reason="fenced" if isinstance(why, Fenced) else "storage")
        self.log.warning("shard given up", shard=shard_id, why=str(why))

    def map(self, *, known: int, unowned: int) -> None:
        self._metrics.set(m.SHARDS_KNOWN, known)
        self._metrics.set(m.SHARDS_UNOWNED, unowned)

    def split(self, split: Split) -> None:
        self.log.info("split", shard=split.shard_id, phase=split.phase.value, point=split.point)

    def split_done(self, split: Split, away_s: float) -> None:
        self._metrics.inc(m.SPLITS, outcome="done")
        self._metrics.observe(m.SPLIT_SECONDS, away_s)
        self.log.info("split done", shard=split.shard_id, left=split.left, right=split.right, away_s=round(away_s, 3))

    def split_failed(self, split: Split, why: Exception) -> None:
        self._metrics.inc(m.SPLITS, outcome="failed")
        self.log.warning("split failed", shard=split.shard_id, phase=split.phase.value, why=str(why))

    def cleaned(self, shard_id: str, rows: int) -> None:
        self._metrics.inc(m.CLEANED_ROWS, by=rows)
        self.log.info("shard cleaned", shard=shard_id, rows=rows)

    def cleaning_failed(self, shard_id: str, why: Exception) -> None:
        self.log.warning("cleaning interrupted", shard=shard_id, why=str(why))

    def map_away(self, why: Exception) -> None:
        self.log.warning("map of shards away", why=str(why))

    def poll(self, tasks: int) -> None:
        self._metrics.inc(m.POLLS, outcome="tasks" if tasks else "none")
        self._metrics.inc(m.TASKS_LEASED, by=tasks)
