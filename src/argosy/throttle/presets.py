"""From what an operator knows (how many clients, how much patience) to a throttle's numbers; and named presets.

The formula is that of Feng et al., "Stochastic Fair Blue" (2001): an innocent client is blamed when it shares its
bucket with a bad one on every level, and there are enough levels for that to be rare.
"""

import math
from types import MappingProxyType
from typing import Any

from argosy.base.errors import Invalid
from argosy.throttle.model import LEVELS_MAX, Config

BAD_FLOWS_PER_FLOW = 0.001  # part of all clients that is assumed to be bad at a time
BLAMED_IN_ERROR_MAX = 0.0001  # probability that an innocent client collides on every level
LEVELS_MIN = 3
SUCCESSES_PER_FAILURE = 1000  # successes that make up for one failure: in practice time forgives, not success

RETRY_AFTER_S_MIN = 1.0
RETRY_AFTER_S_MAX = 60.0  # who is told to wait longer does not come back, or comes back at once

EXPECTED_CLIENTS = 1000
BUCKETS = 1000
TOLERABLE_FAILURES = 25


def levels_for(clients: int, buckets: int, *, blamed_in_error_max: float = BLAMED_IN_ERROR_MAX) -> int:
    """How many levels keep the probability of blaming an innocent client at or below the wanted one."""
    if clients < 0:
        raise Invalid(f"the number of expected clients must be 0 or more, not {clients}")
    if buckets < 2:
        raise Invalid(f"a level needs at least 2 buckets, not {buckets}: in a single one everybody collides")
    if not 0 < blamed_in_error_max < 1:
        raise Invalid(f"blamed_in_error_max must be between 0 and 1, not {blamed_in_error_max}")
    bad = math.ceil(clients * BAD_FLOWS_PER_FLOW)
    collides = 1 - (1 - 1 / buckets) ** bad  # with some bad client, on one level
    if collides <= 0:
        return LEVELS_MIN
    if collides >= 1:
        raise Invalid(f"{buckets} buckets are too few for {clients} clients: every one of them would be hit")
    return max(LEVELS_MIN, math.ceil(math.log(blamed_in_error_max) / math.log(collides)))


def tune_config(
    clients: int = EXPECTED_CLIENTS,
    *,
    buckets: int = BUCKETS,
    tolerable_failures: int = TOLERABLE_FAILURES,
    **others: Any,
) -> Config:
    """A configuration for so many clients; a bad one is blocked after `tolerable_failures`, if they come at once.

    `others` are further fields of `Config`, and outrank what is computed here.
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


# "strict" never forgives within a window; the rotation of windows is the only pardon. Between clients that all want
# more than their share it is the fairest (Jain's index 0.85 against 0.67), and it gives up a little of the capacity for
# that.
PRESETS = MappingProxyType(
    {
        "standard": tune_config(),
        "strict": tune_config(buckets=1500, tolerable_failures=60, decay_per_s=0.0),
    }
)


def preset(name: str) -> Config:
    """The configuration of this name."""
    if name not in PRESETS:
        raise Invalid(f"there is no preset {name!r}: choose one of {', '.join(PRESETS)}")
    return PRESETS[name]


def retry_after_s(probability: float, decay_per_s: float, *, burden: float = 1.0) -> float:
    """How long a client should keep quiet until the chances of the same request are even, within sensible bounds.

    Time forgives the buckets, and of these a request with a burden b makes `1 - (1 - p) ** b`: so the wait is that from
    where the buckets stand to where they make one half of it.
    """
    if probability <= 0.5:
        return RETRY_AFTER_S_MIN
    if not decay_per_s:
        return RETRY_AFTER_S_MAX
    standing, even = (-math.expm1(math.log1p(-each) / burden) if each < 1 else 1.0 for each in (probability, 0.5))
    return min(max(math.log(standing / even) / decay_per_s, RETRY_AFTER_S_MIN), RETRY_AFTER_S_MAX)
