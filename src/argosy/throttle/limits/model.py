"""Rate limits as in Gubernator: the request, the response, and the validation of requests.

The names of the fields are those of the wire, so that Gubernator's documentation applies. All times are whole
milliseconds since the epoch. The response to an invalid request has `error` set and everything else zero, and does not
affect the other requests of its batch; so **a caller must check `error` before `status`**.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag

# Gubernator's own limit.
BATCH_MAX = 1000  # requests in one call
KEY_LENGTH_MAX = 2048  # characters of `name_unique_key`: enough for a long URL
# One bound for every number of a request. Redis computes in doubles, and within this bound each sum of two is exact.
NUMBER_MAX = 2**52

# Clients compare these three texts, so they are Gubernator's own; the second really calls a name a namespace.
NO_UNIQUE_KEY = "field 'unique_key' cannot be empty"
NO_NAME = "field 'namespace' cannot be empty"
BATCH_TOO_LARGE = f"Requests.RateLimits list too large; max size is '{BATCH_MAX}'"


class Algorithm(IntEnum):
    """How hits are counted."""

    TOKEN_BUCKET = 0  # `limit` hits in a window that begins with the first
    LEAKY_BUCKET = 1  # room for `burst` hits, which comes back at `limit` per `duration`


class Behavior(IntFlag):
    """Flags of a request.

    Batching, global and multi-region select how Gubernator's servers share work among themselves. Here one store
    serves all requests, so these three have no effect.
    """

    BATCHING = 0
    NO_BATCHING = 1
    GLOBAL = 2
    DURATION_IS_GREGORIAN = 4  # `duration` names a calendar interval: 0 minute, 1 hour, 2 day, 4 month, 5 year
    RESET_REMAINING = 8  # start with the full limit again
    MULTI_REGION = 16
    DRAIN_OVER_LIMIT = 32  # a rejected request uses up what was left


class Status(IntEnum):
    """Whether the hits were within the limit."""

    UNDER_LIMIT = 0
    OVER_LIMIT = 1


@dataclass(frozen=True, slots=True)
class RateLimitRequest:
    """Hits on one bucket, and the limit that applies to it from now on; with 0 hits it only reads."""

    name: str
    unique_key: str
    hits: int = 0
    limit: int = 0
    duration: int = 0  # milliseconds, or the number of a calendar interval
    algorithm: int = 0  # an Algorithm
    behavior: int = 0  # Behavior flags
    burst: int = 0  # of a leaky bucket; 0 is as much as `limit`
    metadata: Mapping[str, str] = field(default_factory=dict)
    created_at: int = 0  # 0 means the time at which the store processes the request

    @property
    def key(self) -> str:
        """The key of the bucket. Two pairs may have the same key (`a_b` and `c`, `a` and `b_c`), as upstream."""
        return f"{self.name}_{self.unique_key}"


@dataclass(frozen=True, slots=True)
class RateLimitResponse:
    """The result of one request. If `error` is set, the other fields have no meaning."""

    status: Status = Status.UNDER_LIMIT
    limit: int = 0
    remaining: int = 0
    reset_time: int = 0
    error: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


def request_error(request: RateLimitRequest) -> str:
    """Why a request is invalid, whatever the state of its bucket; empty if it is valid."""
    if not request.unique_key:
        return NO_UNIQUE_KEY
    if not request.name:
        return NO_NAME
    length = len(request.name) + 1 + len(request.unique_key)
    if length > KEY_LENGTH_MAX:
        return f"name and unique_key too long: {length} characters; the limit is {KEY_LENGTH_MAX}"
    if request.algorithm not in (0, 1):
        return f"unknown algorithm {request.algorithm}; use 0 (token bucket) or 1 (leaky bucket)"
    numbers = (request.hits, request.limit, request.duration, request.burst, request.created_at)
    if max(numbers) > NUMBER_MAX or min(numbers) < -NUMBER_MAX:
        return _out_of_bounds(request)
    return ""


def _out_of_bounds(request: RateLimitRequest) -> str:
    names = ("hits", "limit", "duration", "burst", "created_at")
    wrong = [f"{name}={value}" for name in names if abs(value := getattr(request, name)) > NUMBER_MAX]
    return f"{', '.join(wrong)}: numbers must be between -{NUMBER_MAX} and {NUMBER_MAX}"
