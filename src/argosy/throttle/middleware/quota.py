"""A quota for every client, counted by any `RateLimiter`: what is asked of it, and what its answer means."""

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from argosy.base.errors import Invalid, Unavailable
from argosy.throttle.limits.model import NUMBER_MAX, Algorithm, RateLimitRequest, RateLimitResponse, Status
from argosy.throttle.middleware import headers
from argosy.throttle.middleware.extractors import as_text
from argosy.throttle.middleware.rules import AdmissionRequest

WINDOW_S_MIN = 0.001
WINDOW_S_MAX = 366 * 86_400.0
RETRY_AFTER_S_MIN = 1.0


@dataclass(frozen=True)
class Quota:
    """So many requests per window and client. A leaky bucket spreads them; a token bucket lets them come at once."""

    limit: int
    window_s: float
    name: str = "requests"  # buckets of the same name are the same buckets, wherever they are asked for
    algorithm: Algorithm = Algorithm.TOKEN_BUCKET
    burst: int = 0  # of a leaky bucket; 0 is as much as `limit`

    def __post_init__(self) -> None:
        headers.check_name(self.name)
        if not 1 <= self.limit <= NUMBER_MAX:
            raise Invalid(f"the limit of a quota must be 1 to {NUMBER_MAX}, not {self.limit}")
        if not 0 <= self.burst <= NUMBER_MAX:
            raise Invalid(f"the burst of a quota must be 0 to {NUMBER_MAX}, not {self.burst}")
        if not WINDOW_S_MIN <= self.window_s <= WINDOW_S_MAX:
            raise Invalid(f"window_s must be {WINDOW_S_MIN} to {WINDOW_S_MAX}, not {self.window_s}")

    def request(self, asked: AdmissionRequest) -> RateLimitRequest:
        """The question to the limiter. Hits are whole, so a part of one counts as one."""
        return RateLimitRequest(
            self.name,
            as_text(asked.client),
            hits=ceil(asked.cost),
            limit=self.limit,
            duration=ceil(self.window_s * 1000),
            algorithm=self.algorithm,
            burst=self.burst,
        )

    def verdict(self, asked: AdmissionRequest, answer: RateLimitResponse, now_ms: float) -> "QuotaResult":
        """What the limiter's answer means, at this time of day."""
        if answer.error:
            raise Unavailable(f"the limiter did not count {self.name!r}: {answer.error}")
        # The limiter may go by another machine's clock.
        reset_s = min(max((answer.reset_time - now_ms) / 1000, 0.0), self.window_s)
        most = self.limit if self.algorithm == Algorithm.TOKEN_BUCKET else self.burst or self.limit
        told = {
            headers.POLICY: headers.policy_item(self.name, quota=most, window_s=self.window_s),
            headers.LIMIT: headers.limit_item(self.name, remaining=answer.remaining, reset_s=reset_s),
        }
        if answer.status != Status.OVER_LIMIT:
            return QuotaResult(told, None)
        if self.algorithm == Algorithm.LEAKY_BUCKET:  # room comes back drop by drop, not at the reset alone
            missing = max(ceil(asked.cost) - answer.remaining, 1)
            reset_s = min(missing * self.window_s / self.limit, self.window_s)
        return QuotaResult(told, max(reset_s, RETRY_AFTER_S_MIN))


class QuotaResult(NamedTuple):
    """What to tell a client, and for how long it is turned away; None if it is not."""

    headers: dict[str, str]
    retry_after_s: float | None
