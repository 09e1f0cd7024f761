"""Token and leaky buckets, exactly as Gubernator counts them, behind one port.

    limiter = await open_limiter("sqlite:///limits.db", clock=SystemClock())
    (answer,) = await limiter.check([RateLimitRequest("sends", "account:7", hits=1, limit=100, duration=60_000)])
    if answer.error: ...
    if answer.status == Status.OVER_LIMIT: ...          # come back at answer.reset_time

Reading order: `model` (request and answer), `buckets` (the arithmetic), `gregorian` (calendar intervals), `table` (many
buckets, bounded), `ports` (what a limiter must do), then `backends/` with `opening.open_limiter`; `http` and
`gubernator/grpc` serve any limiter to Gubernator's clients, `client` and `gubernator/client` ask a Gubernator.
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
