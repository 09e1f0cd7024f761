"""Admission decisions, shared by the ASGI and the WSGI middleware.

`FairAdmitter` decides at once and never waits (THR-2). `QuotaAdmitter` leaves the call to the limiter to its caller,
which may have to wait for a remote limiter, and turns the result into headers or a response. While the limiter is
unreachable, requests do not wait for it.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from starlette.responses import Response

from argosy.base import logs
from argosy.base.clock import Clock
from argosy.base.errors import ArgosyError, Invalid, Throttled, Unavailable
from argosy.base.http import error_response
from argosy.throttle.fair_throttle import FairThrottle
from argosy.throttle.limits.model import NUMBER_MAX, Algorithm, RateLimitRequest, RateLimitResponse, Status
from argosy.throttle.middleware import headers
from argosy.throttle.middleware.extractors import as_text, log_digest
from argosy.throttle.middleware.rules import AdmissionRequest
from argosy.throttle.model import Decision

WINDOW_S_MIN = 0.001
WINDOW_S_MAX = 366 * 86_400.0
RETRY_AFTER_S_MIN = 1.0
AWAY_S = 1.0  # how long a limiter that has failed is not asked again

log = logs.get("throttle.front")


class FairAdmitter:
    """Admission by a fair throttle."""

    def __init__(self, throttle: FairThrottle, name: str) -> None:
        self.throttle = throttle
        self._name = headers.check_name(name)
        # With the fleet's secret a client is log_digest alike by all instances; without one, by this process alone.
        self._shown_key = throttle.config.secret or secrets.token_bytes(16)

    def decide(self, asked: AdmissionRequest) -> tuple[Decision, Response | None]:
        """The decision, and the answer to who is turned away."""
        decision = self.throttle.register(asked.client, asked.cost)
        if not decision.throttled:
            return decision, None
        log.debug("request refused", client=log_digest(asked.client, self._shown_key), probability=decision.probability)
        wait_s = self.throttle.retry_after_s(decision)
        why = f"capacity is short and many of your requests have failed: come back in {ceil(wait_s)} s"
        item = headers.limit_item(self._name, remaining=0, reset_s=wait_s)
        return decision, refusal(Throttled(why, retry_after_s=wait_s), self._name, {headers.LIMIT: item})


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


class QuotaAdmitter:
    """Admission by a quota, and what happens while nobody can count it."""

    def __init__(self, quota: Quota, *, clock: Clock, admits_when_away: bool, is_shadow: bool) -> None:
        self.quota = quota
        self._clock = clock
        self._admits_when_away = admits_when_away
        self._is_shadow = is_shadow
        self._away_until = float("-inf")

    @property
    def is_away(self) -> bool:
        """Whether the limiter has failed so lately that it is not worth asking."""
        return self._clock.now() < self._away_until

    def answered(self, asked: AdmissionRequest, answer: RateLimitResponse) -> tuple[dict[str, str], Response | None]:
        """The headers for whoever passes, and the answer to who does not."""
        verdict = self.quota.verdict(asked, answer, self._clock.wall() * 1000)
        if verdict.retry_after_s is None:
            return verdict.headers, None
        if self._is_shadow:
            return verdict.headers | {headers.THROTTLED: headers.SHADOW}, None
        wait_s = verdict.retry_after_s
        why = f"the quota of {self.quota.limit} per {self.quota.window_s:g} s is used up: come back in {ceil(wait_s)} s"
        return verdict.headers, refusal(Throttled(why, retry_after_s=wait_s), self.quota.name, verdict.headers)

    def failed(self, error: Exception) -> Response | None:
        """The limiter could not be asked: what to answer, if the door is to be shut meanwhile."""
        if not self.is_away:  # one line for each time it is tried, not for each request under way
            log.warning("limiter away", quota=self.quota.name, is_admitting=self._admits_when_away, why=str(error))
        self._away_until = self._clock.now() + AWAY_S
        return self.away()

    def away(self) -> Response | None:
        if self._admits_when_away:
            return None
        return refusal(Unavailable("quotas cannot be counted just now: come back in a moment"), self.quota.name, {})


def refusal(error: ArgosyError, name: str, fields: Mapping[str, str]) -> Response:
    """An answer in the form of all our errors, and who gives it."""
    response = error_response(error)
    response.headers.update({headers.THROTTLED: name, **fields})
    return response
