"""Configuration, decision, outcome and statistics of the fair throttle.

Every field of a configuration is validated when it is created, so that the arithmetic need not check it (THR-1).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeAlias

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

    levels: int = 3
    buckets: int = 1000
    failure_step: float = 0.04
    success_step: float = 0.00004
    decay_per_s: float = 0.01  # halves a probability in 69 s; with 0 only the rotation of windows forgives
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
    if failure <= success:
        raise Invalid(f"failure_step ({failure}) must be greater than success_step ({success})")


def _check_range(name: str, value: float, least: float, most: float, *, whole: bool = False) -> None:
    if whole and (not isinstance(value, int) or isinstance(value, bool)):
        raise Invalid(f"{name} must be a whole number, not {value!r}")
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


class Stats(NamedTuple):
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
