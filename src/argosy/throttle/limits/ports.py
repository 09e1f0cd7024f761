"""The one port: what anything that counts hits must do, be it a table in this process, a Redis or a Gubernator."""

from collections.abc import Sequence
from typing import Protocol

from argosy.throttle.limits.model import RateLimitRequest, RateLimitResponse


class RateLimiter(Protocol):
    """Counts hits against limits. Each request is atomic by itself; a batch as a whole is not."""

    async def check(self, requests: Sequence[RateLimitRequest]) -> list[RateLimitResponse]:
        """One answer per request, in order.

        A wrong request has its `error` set in its own answer. Raises Invalid for more than BATCH_MAX requests, and
        Unavailable when the store is away: the hits may or may not have been counted, so trying again may count twice.
        """
        ...

    async def ping(self) -> None:
        """Returns if hits can be counted just now, and raises Unavailable if not."""
        ...

    async def close(self) -> None: ...
