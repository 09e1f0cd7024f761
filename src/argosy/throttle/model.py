"""The nouns of the fair throttle: its configuration, a decision and why it fell, an outcome.

A configuration is checked when it is made, every field of it, so that the arithmetic need not look again (THR-1).
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

LEVELS_MAX = 64  # a request looks at all of them, so more would cost more than they tell
BUCKETS_MAX = 1 << 20  # of all levels together: about 100 MB in memory and in the shared store
WINDOW_S_MIN = 0.1
WINDOW_S_MAX = 30 * 86_400.0
CLIENTS_MAX = 10_000_000
COST_MAX = 1000.0  # of one request; a batch beyond this is better cut up
HASHINGS = ("slices", "double")


class Outcome(Enum):
    """What became of a request that was let through.

    Failure means that the resource ran short: a wrong request or a broken upstream is no failure, and is not reported.
    """

    SUCCESS = "success"
    FAILURE = "failure"


def smallest(probabilities: Sequence[float]) -> float:
    """The usual final probability: one bucket without blame clears a client."""
    _check_some(probabilities)
    return min(1.0, *probabilities)


def mean(probabilities: Sequence[float]) -> float:
    """The arithmetic mean: blames sooner, and forgives collisions less."""
    _check_some(probabilities)
    return sum(probabilities) / len(probabilities)


def _check_some(probabilities: Sequence[float]) -> None:
    if not probabilities:
        raise Invalid("a final probability needs the probability of at least one level")


FINALS: dict[str, FinalProbability] = {"min": smallest, "mean": mean}


@dataclass(frozen=True)
class Config:
    """What a throttle is like. All instances that share state must have the same, but for `final` and for
    `admitted_min` and what follows it.

    The names of the literature: `levels` L, `buckets` M (of each level), `failure_step` Pi, `success_step` Pd,
    `decay_per_s` lambda. The defaults are those of `tune_config()`.
    """

    levels: int = 3
    buckets: int = 1000
    failure_step: float = 0.04
    success_step: float = 0.00004
    decay_per_s: float = 0.01  # half of a probability is forgiven in 69 s; 0 forgives at rotation only
    window_s: float = 300.0  # shorter than 3 / decay_per_s, and the next window is not yet warm
    final: FinalProbability = smallest
    hashing: str = "slices"  # "double" is compatible with the Go original, and collides more
    secret: bytes | None = field(default=None, repr=False)  # without it, clients who choose their ids can collide
    admitted_min: float = 0.0  # part of a blocked client's requests that passes all the same
    is_shadow: bool = False  # decide and count, but let everybody pass
    is_explaining: bool = False  # every decision carries its explanation; costs about a microsecond
    clients_max: int = 65_536  # clients whose buckets are remembered: 300 bytes each

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
            raise Invalid("secret must not be empty: leave it out, or give some bytes that only the fleet knows")

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
    if not least <= value <= most:  # NaN is neither
        raise Invalid(f"{name} must be {least} to {most}, not {value}")


class BucketStats(NamedTuple):
    """One bucket as it stands now."""

    level: int
    bucket: int
    probability: float


class Explanation(NamedTuple):
    """Why a client's decision falls as it does: its bucket on each level, and what follows from them."""

    window_seed: int
    probability: float  # for a request of cost 1
    buckets: tuple[BucketStats, ...]


class Decision(msgspec.Struct, frozen=True, gc=False):
    """What to do with a request: turn it away if it is `throttled`."""

    throttled: bool
    probability: float
    shadowed: bool = False  # would have been throttled, were the throttle not in shadow mode
    explanation: Explanation | None = None
    burden: float = 1.0  # of a throttled request: its cost divided by its client's weight


class Stats(NamedTuple):
    """A throttle at a glance."""

    window_seed: int
    next_seed: int
    rotates_in_s: float
    buckets: int  # that somebody has fallen into, of this window
    blamed: int  # of these, with a probability above zero
    hottest: float
    clients: int  # remembered
    throttled: int  # since the start, as are the following
    shadowed: int
    failures: int
    gain: float  # what the steps are multiplied by, while the shared store is away


ADMITTED = Decision(throttled=False, probability=0.0)
