"""Admission decisions and response headers, shared by the ASGI and the WSGI middleware.

`FairAdmitter` decides at once and never waits (THR-2). `QuotaAdmitter` leaves the call to the limiter to its caller,
which may have to wait for a remote limiter, and turns the result into headers or a response. While the limiter is
unreachable, requests do not wait for it.

`RateLimit` and `RateLimit-Policy` follow draft-ietf-httpapi-ratelimit-headers-09 (the form since draft 08): lists of
named items, a policy with its quota `q` and window `w`, a limit with the remaining `r` and the seconds `t` until there
is more. A fair throttle has no quota to promise, so it sends no policy, and a limit only with a rejection.
"""

import secrets
from collections.abc import Callable, Mapping
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
from argosy.throttle.middleware.extractors import as_text, log_digest
from argosy.throttle.middleware.rules import AdmissionRequest
from argosy.throttle.model import Decision

POLICY = "ratelimit-policy"
LIMIT = "ratelimit"
THROTTLED = "x-argosy-throttled"  # marks refusals of the middleware as opposed to the application's, and shadow mode
SHADOW = "shadow"

NAME_LENGTH_MAX = 64
_INTEGER_MAX = 10**15 - 1  # of a structured field (RFC 9651)


def policy_item(name: str, *, quota: int, window_s: float) -> str:
    """The policy of a client: the same in every response."""
    return f"{_string(name)};q={_integer(quota)};w={_integer(window_s)}"


def limit_item(name: str, *, remaining: int, reset_s: float) -> str:
    """What a client may do at the moment."""
    return f"{_string(name)};r={_integer(remaining)};t={_integer(reset_s)}"


def check_name(name: str) -> str:
    """Validates the name of a policy: a string of a structured field."""
    if not 0 < len(name) <= NAME_LENGTH_MAX or not (name.isascii() and name.isprintable()):
        raise Invalid(f"the name of a policy is 1 to {NAME_LENGTH_MAX} printable ASCII characters, not {name!r}")
    return name


def _string(name: str) -> str:
    escaped = check_name(name).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _integer(value: float) -> int:
    # Rounded up: a client that waits a fraction too short is rejected again.
    return min(max(ceil(value), 0), _INTEGER_MAX)


WINDOW_S_MIN = 0.001
WINDOW_S_MAX = 366 * 86_400.0
RETRY_AFTER_S_MIN = 1.0
# While the limiter is down every request would otherwise wait for its timeout before it is decided.
UNREACHABLE_S = 1.0  # how long a failed limiter is not called again

log = logs.get("throttle.middleware")


class FairAdmitter:
    """Admission by a fair throttle."""

    def __init__(self, throttle: FairThrottle, name: str) -> None:
        self.throttle = throttle
        self._name = check_name(name)
        # With the fleet's secret all instances log a client alike; without one only this process does.
        # Client ids may be addresses or names, so the log has a keyed digest of them.
        self._log_key = throttle.config.secret or secrets.token_bytes(16)

    def decide(
        self, admission: AdmissionRequest, respond: Callable[[ArgosyError], Response] = error_response
    ) -> tuple[Decision, Response | None]:
        """The decision, and the response if the request is rejected; `respond` converts the error."""
        decision = self.throttle.register(admission.client, admission.cost)
        # Debug level: under overload this is thousands of lines per second, and the metric counts them.
        if not decision.throttled:
            return decision, None
        log.debug(
            "request refused", client=log_digest(admission.client, self._log_key), probability=decision.probability
        )
        wait_s = self.throttle.retry_after_s(decision)
        why = f"rate limited: capacity is low and many of your requests have failed; retry in {ceil(wait_s)} s"
        item = limit_item(self._name, remaining=0, reset_s=wait_s)
        error = Throttled(why, retry_after_s=wait_s)
        return decision, refusal(error, self._name, {LIMIT: item}, respond)


@dataclass(frozen=True)
class Quota:
    """A number of requests per window and client. A leaky bucket spreads them; a token bucket admits bursts."""

    limit: int
    window_s: float
    name: str = "requests"  # limiters share the buckets of one name
    algorithm: Algorithm = Algorithm.TOKEN_BUCKET
    burst: int = 0  # of a leaky bucket; 0 means `limit`

    def __post_init__(self) -> None:
        check_name(self.name)
        if not 1 <= self.limit <= NUMBER_MAX:
            raise Invalid(f"the limit of a quota must be 1 to {NUMBER_MAX}, not {self.limit}")
        if not 0 <= self.burst <= NUMBER_MAX:
            raise Invalid(f"the burst of a quota must be 0 to {NUMBER_MAX}, not {self.burst}")
        if not WINDOW_S_MIN <= self.window_s <= WINDOW_S_MAX:
            raise Invalid(f"window_s must be {WINDOW_S_MIN} to {WINDOW_S_MAX}, not {self.window_s}")

    def request(self, admission: AdmissionRequest) -> RateLimitRequest:
        """The request to the limiter. Hits are whole numbers, so a fraction is rounded up."""
        return RateLimitRequest(
            self.name,
            as_text(admission.client),
            hits=ceil(admission.cost),
            limit=self.limit,
            duration=ceil(self.window_s * 1000),
            algorithm=self.algorithm,
            burst=self.burst,
        )

    def evaluate(self, admission: AdmissionRequest, answer: RateLimitResponse, now_ms: float) -> "QuotaResult":
        """Evaluates the limiter's response at this time of day."""
        # An error is a mistake in the quota or the limiter, never the client's, so the policy for an unreachable
        # limiter applies.
        if answer.error:
            raise Unavailable(f"limiter rejected quota {self.name!r}: {answer.error}")
        # The limiter may use the clock of another machine.
        reset_s = min(max((answer.reset_time - now_ms) / 1000, 0.0), self.window_s)
        most = self.limit if self.algorithm == Algorithm.TOKEN_BUCKET else self.burst or self.limit
        fields = {
            POLICY: policy_item(self.name, quota=most, window_s=self.window_s),
            LIMIT: limit_item(self.name, remaining=answer.remaining, reset_s=reset_s),
        }
        if answer.status != Status.OVER_LIMIT:
            return QuotaResult(fields, None)
        if self.algorithm == Algorithm.LEAKY_BUCKET:  # capacity leaks back continuously, not at the reset
            missing = max(ceil(admission.cost) - answer.remaining, 1)
            reset_s = min(missing * self.window_s / self.limit, self.window_s)
        return QuotaResult(fields, max(reset_s, RETRY_AFTER_S_MIN))


class QuotaResult(NamedTuple):
    """The response headers, and how long the client is rejected; None if it is admitted."""

    headers: dict[str, str]
    retry_after_s: float | None


class QuotaAdmitter:
    """Admission by a quota, and the policy while the limiter is unreachable."""

    def __init__(self, quota: Quota, *, clock: Clock, admits_when_unreachable: bool, is_shadow: bool) -> None:
        self.quota = quota
        self._clock = clock
        self._admits_when_away = admits_when_unreachable
        self._is_shadow = is_shadow
        self._away_until = float("-inf")

    @property
    def is_limiter_unreachable(self) -> bool:
        """Whether the limiter has failed within UNREACHABLE_S, so that it is not called."""
        return self._clock.now() < self._away_until

    def on_response(
        self, admission: AdmissionRequest, answer: RateLimitResponse
    ) -> tuple[dict[str, str], Response | None]:
        """The headers of an admitted request, or the response to a rejected one."""
        verdict = self.quota.evaluate(admission, answer, self._clock.wall() * 1000)
        if verdict.retry_after_s is None:
            return verdict.headers, None
        # The headers are sent as they would be, so that clients can be prepared before the quota is enforced.
        if self._is_shadow:
            return verdict.headers | {THROTTLED: SHADOW}, None
        wait_s = verdict.retry_after_s
        quota = f"quota of {self.quota.limit} per {self.quota.window_s:g} s"
        why = f"rate limited: {quota} is used up; retry in {ceil(wait_s)} s"
        return verdict.headers, refusal(Throttled(why, retry_after_s=wait_s), self.quota.name, verdict.headers)

    def on_limiter_error(self, error: Exception) -> Response | None:
        """The limiter has failed: the response, unless requests are admitted without it."""
        if not self.is_limiter_unreachable:  # one line per attempt, not per request in flight
            log.warning(
                "limiter unreachable", quota=self.quota.name, is_admitting=self._admits_when_away, why=str(error)
            )
        self._away_until = self._clock.now() + UNREACHABLE_S
        return self.unavailable_response()

    def unavailable_response(self) -> Response | None:
        if self._admits_when_away:
            return None
        return refusal(Unavailable("quota unavailable: the limiter is unreachable; retry later"), self.quota.name, {})


def refusal(
    error: ArgosyError,
    name: str,
    fields: Mapping[str, str],
    respond: Callable[[ArgosyError], Response] = error_response,
) -> Response:
    """The response to a rejected request, with the policy that caused it; by default in the form of all our errors."""
    response = respond(error)
    response.headers.update({THROTTLED: name, **fields})
    return response
