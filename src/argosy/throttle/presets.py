"""A configuration from the number of clients and the tolerated failures; named presets; Retry-After.

The formula is that of Feng et al., "Stochastic Fair Blue" (2001): an innocent client is blamed when it shares its
bucket with a bad one on every level, and there are enough levels for that to be rare.
"""

import math
from types import MappingProxyType
from typing import Any

from argosy.base.errors import Invalid
from argosy.throttle.model import LEVELS_MAX, Config

BAD_FLOWS_PER_FLOW = 0.001  # fraction of all clients assumed to be bad at a time
BLAMED_IN_ERROR_MAX = 0.0001  # probability that an innocent client collides on every level
LEVELS_MIN = 3
SUCCESSES_PER_FAILURE = 1000  # successes that offset one failure: in practice time forgives, not success

RETRY_AFTER_S_MIN = 1.0
RETRY_AFTER_S_MAX = 60.0  # clients ignore a longer Retry-After

EXPECTED_CLIENTS = 1000
BUCKETS = 1000
TOLERABLE_FAILURES = 25


def levels_for(clients: int, buckets: int, *, blamed_in_error_max: float = BLAMED_IN_ERROR_MAX) -> int:
    """The number of levels that keeps the probability of blaming an innocent client at or below the maximum."""
    if clients < 0:
        raise Invalid(f"the number of expected clients must be 0 or more, not {clients}")
    if buckets < 2:
        raise Invalid(f"a level needs at least 2 buckets, not {buckets}: in a single one all clients collide")
    if not 0 < blamed_in_error_max < 1:
        raise Invalid(f"blamed_in_error_max must be between 0 and 1, not {blamed_in_error_max}")
    bad = math.ceil(clients * BAD_FLOWS_PER_FLOW)
    collides = 1 - (1 - 1 / buckets) ** bad  # with some bad client, on one level
    if collides <= 0:
        return LEVELS_MIN
    if collides >= 1:
        raise Invalid(f"{buckets} buckets are too few for {clients} clients: bad clients would fill all of them")
    return max(LEVELS_MIN, math.ceil(math.log(blamed_in_error_max) / math.log(collides)))


def tune_config(
    clients: int = EXPECTED_CLIENTS,
    *,
    buckets: int = BUCKETS,
    tolerable_failures: int = TOLERABLE_FAILURES,
    **others: Any,
) -> Config:
    """A configuration for a number of clients; a bad one is blocked after `tolerable_failures` failures in a row.

    `others` are further fields of `Config`; they override the computed ones.
    """
    if tolerable_failures < 2:
        raise Invalid(f"tolerable_failures must be at least 2, not {tolerable_failures}")
    levels = levels_for(clients, buckets)
    if levels > LEVELS_MAX:
        raise Invalid(f"{clients} clients in {buckets} buckets would need {levels} levels: use more buckets")
    failure_step = 1 / tolerable_failures
    computed = {
        "levels": levels,
        "buckets": buckets,
        "failure_step": failure_step,
        "success_step": failure_step / SUCCESSES_PER_FAILURE,
    }
    return Config(**(computed | others))


# "strict" does not forgive within a window; only the rotation of windows does. Among clients that all want more than
# their share it is the fairest (Jain's index 0.85 against 0.67), at the price of a little capacity.
PRESETS = MappingProxyType(
    {
        "standard": tune_config(),
        "strict": tune_config(buckets=1500, tolerable_failures=60, decay_per_s=0.0),
    }
)


def preset(name: str) -> Config:
    """The configuration of this name."""
    if name not in PRESETS:
        raise Invalid(f"preset {name!r} not found: choose one of {', '.join(PRESETS)}")
    return PRESETS[name]


def retry_after_s(probability: float, decay_per_s: float, *, burden: float = 1.0) -> float:
    """The time without requests after which the same request passes with probability 1/2, within bounds.

    The buckets' probability p decays with time, and a request of burden b is rejected with `1 - (1 - p) ** b`. So the
    wait is the time until the decayed p makes that one half.
    """
    if probability <= 0.5:
        return RETRY_AFTER_S_MIN
    if not decay_per_s:
        return RETRY_AFTER_S_MAX
    standing, even = (-math.expm1(math.log1p(-each) / burden) if each < 1 else 1.0 for each in (probability, 0.5))
    return min(max(math.log(standing / even) / decay_per_s, RETRY_AFTER_S_MIN), RETRY_AFTER_S_MAX)
