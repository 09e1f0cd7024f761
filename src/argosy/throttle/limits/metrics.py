"""What the limiters measure."""

from collections.abc import Sequence

from argosy.base.metrics import Metrics, counter, gauge
from argosy.throttle.limits.model import RateLimitResponse, Status
from argosy.throttle.limits.table import BucketTable

CHECKS = counter("argosy_limit_checks", "rate limit requests answered: under, over or error", ("outcome",))
KEYS = gauge("argosy_limit_keys", "buckets this process holds")
EVICTED = counter("argosy_limit_evicted", "live buckets dropped for want of room: raise keys_max if this grows")


def count(metrics: Metrics | None, responses: Sequence[RateLimitResponse]) -> None:
    """Counts a batch of answers."""
    if metrics is None:
        return
    errors = sum(1 for response in responses if response.error)
    over = sum(1 for response in responses if response.status == Status.OVER_LIMIT)
    for outcome, number in (("error", errors), ("over", over), ("under", len(responses) - errors - over)):
        if number:
            metrics.inc(CHECKS, number, outcome=outcome)


def count_table(metrics: Metrics | None, table: BucketTable) -> None:
    """Shows how full a table is."""
    if metrics is None:
        return
    metrics.set(KEYS, len(table))
    if evicted := table.take_evicted():
        metrics.inc(EVICTED, evicted)
