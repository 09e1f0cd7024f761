"""Configuration, decision, outcome and statistics of the fair throttle, and tuning.

Every field of a configuration is validated when it is created, so that the arithmetic need not check it (THR-1).

`tune_config` computes a configuration by the formula of Feng et al., "Stochastic Fair Blue" (2001): an innocent client
is blamed when it shares its bucket with a bad one on every level, and there are enough levels for that to be rare.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import msgspec

from argosy.base.errors import Invalid

ClientId: TypeAlias = str | bytes
FinalProbability: TypeAlias = Callable[[Sequence[float]], float]

LEVELS_MAX = 64  # a request reads all of them; more cost time and hardly lower the collision rate
BUCKETS_MAX = 1 << 20  # of all levels together: about 100 MB in memory and in the shared store
WINDOW_S_MIN = 0.1
WINDOW_S_MAX = 30 * 86_400.0
CLIENTS_MAX = 10_000_000
COST_MAX = 1000.0  # of one request; a larger batch is split by the caller
HASHINGS = ("slices", "double")


class Outcome(Enum):
    """The result of an admitted request.

    FAILURE means that the resource was short. A bad request or a broken upstream is no failure and is not reported.
    """

    SUCCESS = "success"
    FAILURE = "failure"


def smallest(probabilities: Sequence[float]) -> float:
    """The default final probability: one bucket without blame clears a client."""
    _check_some(probabilities)
    return min(1.0, *probabilities)


def mean(probabilities: Sequence[float]) -> float:
    """The arithmetic mean: blames sooner and tolerates collisions less."""
    _check_some(probabilities)
    return sum(probabilities) / len(probabilities)


def _check_some(probabilities: Sequence[float]) -> None:
    if not probabilities:
        raise Invalid("the final probability needs the probability of at least one level")


FINALS: dict[str, FinalProbability] = {"min": smallest, "mean": mean}


@dataclass(frozen=True)
class Config:
    """The configuration of a throttle. Instances that share state must have the same one, except for `final` and the
    fields from `admitted_min` on.

    In the literature `levels` is L, `buckets` M (of each level), `failure_step` Pi, `success_step` Pd, and
    `decay_per_s` lambda. The defaults are those of `tune_config()`.
    """

    # L = 3 and M = 1000 are what the formula of `tune_config` gives for 1000 clients. Steps and decay are those of the
    # Go original (decision 0016): its published fairness of 0.66 (Jain's index) is reproduced to the last request.
    levels: int = 3
    buckets: int = 1000
    failure_step: float = 0.04
    success_step: float = 0.00004
    decay_per_s: float = 0.01  # halves a probability in 69 s; with 0 only the rotation of windows forgives
    # A window shorter than 3 / decay_per_s starts before its buckets have learnt what the old one knew, and lets more
    # failures through: 60 s windows cost a third more in the noisy-neighbour run, 30 s windows nearly twice as many.
    window_s: float = 300.0  # at least 3 / decay_per_s, so that the next window is warm
    final: FinalProbability = smallest
    hashing: str = "slices"  # "double" is compatible with the Go original, and collides more
    secret: bytes | None = field(
        default=None, repr=False
    )  # without it, clients that choose their ids can collide on purpose
    admitted_min: float = 0.0  # fraction of a blocked client's requests that passes
    is_shadow: bool = False  # decide and count, but admit every request
    is_explaining: bool = False  # every decision has its explanation; costs about 1 µs
    clients_max: int = 65_536  # clients whose buckets are cached: 300 bytes each

    def __post_init__(self) -> None:
        _check_range("levels", self.levels, 1, LEVELS_MAX, whole=True)
        _check_range("buckets", self.buckets, 1, BUCKETS_MAX, whole=True)
        if self.levels * self.buckets > BUCKETS_MAX:
            raise Invalid(f"levels times buckets must be at most {BUCKETS_MAX}, not {self.levels * self.buckets}")
        _check_steps(self.failure_step, self.success_step)
        _check_range("decay_per_s", self.decay_per_s, 0.0, 1e6)
        _check_range("window_s", self.window_s, WINDOW_S_MIN, WINDOW_S_MAX)
        _check_range("admitted_min", self.admitted_min, 0.0, 1.0)
        _check_range("clients_max", self.clients_max, 2, CLIENTS_MAX, whole=True)
        if not callable(self.final):
            raise Invalid(f"final must be a function of the levels' probabilities, not {self.final!r}")
        if self.hashing not in HASHINGS:
            raise Invalid(f"hashing must be one of {', '.join(HASHINGS)}, not {self.hashing!r}")
        if self.secret is not None and not self.secret:
            raise Invalid("secret must not be empty: omit it, or set bytes that only the fleet knows")

    @property
    def window_ms(self) -> int:
        return round(self.window_s * 1000)

    @property
    def decay_per_ms(self) -> float:
        return self.decay_per_s / 1000


def _check_steps(failure: float, success: float) -> None:
    if not (math.isfinite(failure) and 0 < failure < 1):
        raise Invalid(f"failure_step must be more than 0 and less than 1, not {failure}")
    if not (math.isfinite(success) and 0 < success <= 1):
        raise Invalid(f"success_step must be more than 0 and at most 1, not {success}")
    # A success step as large as the failure step would let a client that fails half of the time never be blamed.
    if failure <= success:
        raise Invalid(f"failure_step ({failure}) must be greater than success_step ({success})")


def _check_range(name: str, value: float, least: float, most: float, *, whole: bool = False) -> None:
    if whole and (not isinstance(value, int) or isinstance(value, bool)):
        raise Invalid(f"{name} must be a whole number, not {value!r}")
    # The arithmetic relies on these ranges: a negative decay would let probabilities grow past 1 (THR-1).
    if not least <= value <= most:  # NaN fails both comparisons
        raise Invalid(f"{name} must be {least} to {most}, not {value}")


class BucketStats(NamedTuple):
    """The current state of one bucket."""

    level: int
    bucket: int
    probability: float


class Explanation(NamedTuple):
    """Why a client is throttled or not: its bucket on each level, and the probability that follows."""

    window_seed: int
    probability: float  # for a request of cost 1
    buckets: tuple[BucketStats, ...]


class Decision(msgspec.Struct, frozen=True, gc=False):
    """The decision on a request: reject it if `throttled`."""

    throttled: bool
    probability: float
    shadowed: bool = False  # would have been throttled outside shadow mode
    explanation: Explanation | None = None
    burden: float = 1.0  # of a throttled request: its cost divided by the weight of its client


class ThrottleStats(NamedTuple):
    """Statistics of a throttle."""

    window_seed: int
    next_seed: int
    rotates_in_s: float
    buckets: int  # of this window, that have clients
    blamed: int  # buckets with a probability above 0
    hottest: float
    clients: int  # cached
    throttled: int  # since the start, like the following two
    shadowed: int
    failures: int
    gain: float  # factor of all steps; above 1 while the shared store is unreachable


ADMITTED = Decision(throttled=False, probability=0.0)


# These four are the constants of the original's tuning function, so that both give the same configuration.
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
    # At least one: the formula is about the collisions of innocent clients with bad ones.
    bad = math.ceil(clients * BAD_FLOWS_PER_FLOW)
    collides = 1 - (1 - 1 / buckets) ** bad  # with some bad client, on one level
    # Rounding: with very many buckets the probability of a collision is below the precision of a double.
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
    # Without decay only the next window forgives, and its beginning is not known here.
    if not decay_per_s:
        return RETRY_AFTER_S_MAX
    standing, even = (-math.expm1(math.log1p(-each) / burden) if each < 1 else 1.0 for each in (probability, 0.5))
    return min(max(math.log(standing / even) / decay_per_s, RETRY_AFTER_S_MIN), RETRY_AFTER_S_MAX)
