"""Rate limits as Gubernator's users know them: the request, the answer, and what makes a request wrong.

The names of the fields are those of the wire, because people read them in Gubernator's pages. All times are whole
milliseconds since the epoch. A request that is wrong is answered in its own place with `error` set and everything else
zero, and the other requests of its batch are none the worse; so **whoever asks must look at `error` before `status`**.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag

BATCH_MAX = 1000  # requests in one call
KEY_LENGTH_MAX = 2048  # characters of `name_unique_key`: enough for a long URL
# One bound for every number of a request. Redis computes in doubles, and within this bound each sum of two is exact.
NUMBER_MAX = 2**52

# Clients match on these three, so they are spelled as Gubernator spells them; the second does call a name a namespace.
NO_UNIQUE_KEY = "field 'unique_key' cannot be empty"
NO_NAME = "field 'namespace' cannot be empty"
BATCH_TOO_LARGE = f"Requests.RateLimits list too large; max size is '{BATCH_MAX}'"


class Algorithm(IntEnum):
    """How hits are counted."""

    TOKEN_BUCKET = 0  # `limit` hits in a window that begins with the first
    LEAKY_BUCKET = 1  # room for `burst` hits, which comes back at `limit` per `duration`


class Behavior(IntFlag):
    """Flags of a request.

    Batching, global and multi-region are about how Gubernator's servers share work among themselves. Here one store
    answers for everybody, so the three change nothing.
    """

    BATCHING = 0
    NO_BATCHING = 1
    GLOBAL = 2
    DURATION_IS_GREGORIAN = 4  # `duration` names a calendar interval: 0 minute, 1 hour, 2 day, 4 month, 5 year
    RESET_REMAINING = 8  # forget what was used so far
    MULTI_REGION = 16
    DRAIN_OVER_LIMIT = 32  # a refused request takes what was left


class Status(IntEnum):
    """Whether the hits were within the limit."""

    UNDER_LIMIT = 0
    OVER_LIMIT = 1


@dataclass(frozen=True, slots=True)
class RateLimitRequest:
    """So many hits on one bucket, and the limit that holds for it from now on; 0 hits only ask."""

    name: str
    unique_key: str
    hits: int = 0
    limit: int = 0
    duration: int = 0  # milliseconds, or the number of a calendar interval
    algorithm: int = 0  # an Algorithm
    behavior: int = 0  # Behavior flags
    burst: int = 0  # of a leaky bucket; 0 is as much as `limit`
    metadata: Mapping[str, str] = field(default_factory=dict)
    created_at: int = 0  # 0 is the time at which the store sees it

    @property
    def key(self) -> str:
        """What the bucket is known by. Two pairs may give one key (`a_b` and `c`, `a` and `b_c`), as upstream."""
        return f"{self.name}_{self.unique_key}"


@dataclass(frozen=True, slots=True)
class RateLimitResponse:
    """What became of one request. Where `error` is set nothing else means anything."""

    status: Status = Status.UNDER_LIMIT
    limit: int = 0
    remaining: int = 0
    reset_time: int = 0
    error: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


def complaint(request: RateLimitRequest) -> str:
    """What is wrong with a request, whatever the state of its bucket; empty if nothing is."""
    if not request.unique_key:
        return NO_UNIQUE_KEY
    if not request.name:
        return NO_NAME
    length = len(request.name) + 1 + len(request.unique_key)
    if length > KEY_LENGTH_MAX:
        return f"name and unique_key have {length} characters together: at most {KEY_LENGTH_MAX} are allowed"
    if request.algorithm not in (0, 1):
        return f"there is no algorithm {request.algorithm}: use 0 (token bucket) or 1 (leaky bucket)"
    numbers = (request.hits, request.limit, request.duration, request.burst, request.created_at)
    if max(numbers) > NUMBER_MAX or min(numbers) < -NUMBER_MAX:
        return _out_of_bounds(request)
    return ""


def _out_of_bounds(request: RateLimitRequest) -> str:
    names = ("hits", "limit", "duration", "burst", "created_at")
    wrong = [f"{name}={value}" for name in names if abs(value := getattr(request, name)) > NUMBER_MAX]
    return f"{', '.join(wrong)}: numbers must lie between -{NUMBER_MAX} and {NUMBER_MAX}"
