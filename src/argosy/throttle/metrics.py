"""What the fair throttle measures: connectivity, update latency and queue depth, as the document asks, and more."""

from argosy.base.metrics import counter, gauge, histogram

_LATENCY_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

STORE_CONNECTED = gauge("argosy_throttle_store_connected", "1 while the shared store answers, 0 while it is away")
STORE_ERRORS = counter("argosy_throttle_store_errors", "exchanges with the shared store that failed")
UPDATE_LATENCY = histogram(
    "argosy_throttle_update_latency_seconds", "how long the shared store took to commit a batch", _LATENCY_BUCKETS_S
)
QUEUE_DEPTH = gauge("argosy_throttle_queue_depth", "buckets with changes on their way to the shared store")
DELTAS_DROPPED = counter("argosy_throttle_deltas_dropped", "changes given up because the shared store was away or full")
BATCHES_DUPLICATE = counter("argosy_throttle_batches_duplicate", "batches the shared store had already applied")
ROWS_LOST = counter("argosy_throttle_rows_lost", "rows that the shared store had forgotten and was told again")
BUCKETS_REBASED = counter("argosy_throttle_buckets_rebased", "buckets changed by what other instances have learnt")
CLOCK_OFFSET = gauge("argosy_throttle_clock_offset_seconds", "the shared store's clock less this machine's")
PEERS = gauge("argosy_throttle_peers", "instances that share their state, this one included")
GAIN = gauge("argosy_throttle_gain", "factor of every step: above 1 while the store is away and one stands for all")

REQUESTS_THROTTLED = counter("argosy_throttle_requests_throttled", "requests turned away")
REQUESTS_SHADOWED = counter("argosy_throttle_requests_shadowed", "requests that shadow mode let pass")
FAILURES_REPORTED = counter("argosy_throttle_failures_reported", "requests that failed for want of the resource")
BUCKETS_BLAMED = gauge("argosy_throttle_buckets_blamed", "buckets of the deciding window above zero")
