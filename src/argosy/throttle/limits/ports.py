"""The port of a limiter, which counts hits: a table in this process, Redis, or a Gubernator."""

from collections.abc import Sequence
from typing import Protocol

from argosy.throttle.limits.model import RateLimitRequest, RateLimitResponse


class RateLimiter(Protocol):
    """Counts hits against limits. Each request is atomic by itself; a batch as a whole is not."""

    async def check(self, requests: Sequence[RateLimitRequest]) -> list[RateLimitResponse]:
        """One response per request, in order.

        The response to an invalid request has its `error` set. Raises Invalid for more than BATCH_MAX requests, and
        Unavailable if the store is unreachable: the hits may or may not have been counted, so a retry may count twice.
        """
        ...

    async def ping(self) -> None:
        """Returns if hits can be counted now; raises Unavailable if not."""
        ...

    async def close(self) -> None: ...
