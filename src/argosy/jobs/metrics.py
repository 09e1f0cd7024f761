"""What the job broker measures."""

from argosy.base.metrics import counter, gauge, histogram

_OPEN_BUCKETS_S = (0.01, 0.05, 0.1, 0.5, 1, 2, 5, 15, 60)

SHARDS_OPEN = gauge("argosy_jobs_shards_open", "shards that are open on this node")
SHARDS_KNOWN = gauge("argosy_jobs_shards_known", "shards in the map")
SHARDS_UNOWNED = gauge("argosy_jobs_shards_unowned", "shards that nobody is known to hold")
OPEN_SECONDS = histogram("argosy_jobs_shard_open_seconds", "how long shards took to open", _OPEN_BUCKETS_S)
SHARDS_LOST = counter("argosy_jobs_shards_lost", "shards given up: storage failed, or was taken", ("reason",))
SPLITS = counter("argosy_jobs_splits", "splits of shards, by how they ended", ("outcome",))
SPLIT_SECONDS = histogram("argosy_jobs_split_seconds", "how long a shard was away while it was split", _OPEN_BUCKETS_S)
CLEANED_ROWS = counter("argosy_jobs_cleaned_rows", "rows of siblings that shards deleted after a split")
POLLS = counter("argosy_jobs_polls", "polls over all shards of this node, by whether they got tasks", ("outcome",))
TASKS_LEASED = counter("argosy_jobs_tasks_leased", "tasks handed to workers by polls over all shards")
