"""Token and leaky buckets, exactly as Gubernator counts them, behind one port.

    limiter = await open_limiter("sqlite:///limits.db", clock=SystemClock())
    (answer,) = await limiter.check([RateLimitRequest("sends", "account:7", hits=1, limit=100, duration=60_000)])
    if answer.error: ...
    if answer.status == Status.OVER_LIMIT: ...          # retry at answer.reset_time

Reading order: `model` (request and response), `buckets` (the arithmetic, and calendar intervals), `table` (a bounded
number of buckets, and the metrics), `ports` (the port `RateLimiter`), then `backends/` with `factory.open_limiter`.
`http` (with the JSON of `wire`) and `gubernator/server` serve any limiter to Gubernator's clients; `backends/http` and
`gubernator/client` call a Gubernator.
"""

from argosy.throttle.limits.model import (
    BATCH_MAX,
    Algorithm,
    Behavior,
    RateLimitRequest,
    RateLimitResponse,
    Status,
)
from argosy.throttle.limits.ports import RateLimiter

__all__ = [
    "BATCH_MAX",
    "Algorithm",
    "Behavior",
    "RateLimitRequest",
    "RateLimitResponse",
    "RateLimiter",
    "Status",
]
