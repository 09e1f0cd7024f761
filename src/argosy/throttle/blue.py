"""Stochastic Fair BLUE: the buckets of one window, and the arithmetic on them.

A bucket holds a probability as of an instant. It decays as time passes, rises when a request that fell into it failed
for want of the resource, and falls a little when one succeeded. Decay is multiplicative, so reading it needs no
writing: a value is brought up to date when somebody changes it. Time never runs backwards here: a bucket from the
future (a skewed peer, a clock set back) is taken as it is (THR-1).

Times are whole milliseconds since 1970, as in the shared store: a fraction kept here and lost there would let instances
drift apart. They are kept as floats, exact to the year 287 000: arithmetic on one kind of number is faster, and this is
where a congested request spends its time. Writers hold the throttle's lock. Readers hold none: they may see a new
probability with the time before it, which decays it too far for the one decision.
"""

from collections.abc import Iterable
from math import exp

from argosy.throttle.levels import Levels
from argosy.throttle.model import Config


class Bucket:
    """A probability as of `at_ms`. `unsent`, as of the same instant, is what this instance alone has changed of it."""

    __slots__ = ("at_ms", "col", "is_dirty", "probability", "row", "seed", "unsent")

    def __init__(self, seed: int, row: int, col: int) -> None:
        self.seed = seed
        self.row = row
        self.col = col
        self.probability = 0.0
        self.at_ms = 0.0
        self.unsent = 0.0
        self.is_dirty = False


class Window:
    """The buckets of one rotation period. They are made when the first client falls into them."""

    __slots__ = ("_buckets", "_columns", "_levels", "seed")

    def __init__(self, seed: int, config: Config, levels: Levels) -> None:
        self.seed = seed
        self._columns = config.buckets
        self._levels = levels
        self._buckets: list[Bucket | None] = [None] * (config.levels * config.buckets)

    def of(self, client: bytes) -> tuple[Bucket, ...]:
        """The client's bucket on each level."""
        return tuple([self.at(row, col) for row, col in enumerate(self._levels(client))])

    def at(self, row: int, col: int) -> Bucket:
        place = row * self._columns + col
        bucket = self._buckets[place]
        if bucket is None:
            bucket = self._buckets[place] = Bucket(self.seed, row, col)
        return bucket

    def find(self, row: int, col: int) -> Bucket | None:
        """The bucket at a place that somebody else names; None if we have no such place."""
        if 0 <= col < self._columns and 0 <= row * self._columns + col < len(self._buckets):
            return self.at(row, col)
        return None

    def used(self) -> list[Bucket]:
        """Every bucket that somebody has fallen into."""
        return [bucket for bucket in self._buckets if bucket is not None]


def decay(value: float, from_ms: float, to_ms: float, per_ms: float) -> float:
    """`value` after the time that has passed, if any has."""
    return value * exp(-per_ms * (to_ms - from_ms)) if to_ms > from_ms else value


def clamp(probability: float) -> float:
    """The nearest probability there is; no number at all counts as no blame."""
    if probability >= 1.0:
        return 1.0
    return probability if probability > 0.0 else 0.0


def probabilities(buckets: Iterable[Bucket], now_ms: float, per_ms: float) -> list[float]:
    """What the buckets stand at now."""
    return [decay(bucket.probability, bucket.at_ms, now_ms, per_ms) for bucket in buckets]


def least(buckets: Iterable[Bucket], now_ms: float, per_ms: float) -> float:
    """The smallest of `probabilities`. A client's buckets mostly share one time, so the exponential is kept."""
    found, at_ms, factor = 1.0, -1.0, 1.0
    for bucket in buckets:
        if bucket.at_ms != at_ms:
            at_ms = bucket.at_ms
            factor = exp(-per_ms * (now_ms - at_ms)) if now_ms > at_ms else 1.0
        probability = bucket.probability * factor
        if probability < found:
            found = probability
    return found


def move(buckets: Iterable[Bucket], step: float, now_ms: float, per_ms: float) -> None:
    """Brings the buckets up to date and adds `step` to each, within [0, 1]."""
    seen_ms, to_ms, factor = -1.0, 0.0, 1.0
    for bucket in buckets:
        if bucket.at_ms != seen_ms:
            seen_ms = to_ms = bucket.at_ms
            factor = 1.0
            if now_ms > seen_ms:
                to_ms, factor = now_ms, exp(-per_ms * (now_ms - seen_ms))
        moved = bucket.probability * factor + step
        bucket.probability = 0.0 if moved < 0.0 else 1.0 if moved > 1.0 else moved
        bucket.at_ms = to_ms


def move_shared(buckets: Iterable[Bucket], step: float, now_ms: float, per_ms: float, dirty: list[Bucket]) -> None:
    """As `move`, and keeps account of what was really changed, which is what the other instances are told.

    A change that the limits swallowed is none: told, it would be corrected by every instance once more.
    """
    seen_ms, to_ms, factor = -1.0, 0.0, 1.0
    for bucket in buckets:
        if bucket.at_ms != seen_ms:
            seen_ms = to_ms = bucket.at_ms
            factor = 1.0
            if now_ms > seen_ms:
                to_ms, factor = now_ms, exp(-per_ms * (now_ms - seen_ms))
        before = bucket.probability * factor
        moved = before + step
        bucket.probability = after = 0.0 if moved < 0.0 else 1.0 if moved > 1.0 else moved
        bucket.at_ms = to_ms
        bucket.unsent = bucket.unsent * factor + (after - before)
        if not bucket.is_dirty and after != before:
            bucket.is_dirty = True
            dirty.append(bucket)
