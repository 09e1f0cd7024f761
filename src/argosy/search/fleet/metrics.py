"""What a search node measures. Series of a repository exist as long as this node holds it, so there are never more of
them than it has repositories."""

from argosy.base.metrics import counter, gauge, histogram

_TIME_BUCKETS_S = (0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 900)

INDEX_TIME_MS = gauge("argosy_index_time_ms", "how long the latest index took to build", ("repository",))
FETCH_TIME_MS = gauge("argosy_fetch_time_ms", "how long the latest fetch took", ("repository",))
MEMORY_BYTES = gauge("argosy_index_memory_bytes", "memory the index takes", ("repository",))
LAST_SERVED_AT = gauge(
    "argosy_last_served_at", "when the repository was last searched, in seconds since 1970", ("repository",)
)
CLAIM_LATENCY = gauge(
    "argosy_repository_claim_latency_seconds", "from the repository's being open to its being held", ("repository",)
)
OF_A_REPOSITORY = (INDEX_TIME_MS, FETCH_TIME_MS, MEMORY_BYTES, LAST_SERVED_AT, CLAIM_LATENCY)

INDEXES_MADE = counter(
    "argosy_indexes_made", "indexes finished: built, renewed, received from a node or restored from disk", ("how",)
)
MAKING_TIME = histogram(
    "argosy_index_making_seconds", "from the start of the fetch to the finished index", _TIME_BUCKETS_S, ("how",)
)
FAILURES = counter("argosy_index_failures", "fetches and builds that failed, and looks for new commits", ("step",))
EVICTIONS = counter("argosy_evictions", "indexes given up for want of memory")
DAMAGED = counter("argosy_indexes_damaged", "indexes that did not agree with their checksums, and were made anew")
BUDGET_BYTES = gauge("argosy_search_budget_bytes", "memory all indexes together may take")
HELD_BYTES = gauge("argosy_search_held_bytes", "memory all indexes together take")
REPOSITORIES_READY = gauge("argosy_repositories_ready", "repositories this node has an index of")
MAKINGS_WAITING = gauge("argosy_makings_waiting", "indexes to be made that wait for a place")
