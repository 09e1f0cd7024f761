"""Stochastic Fair BLUE: the buckets of one window and the arithmetic on them.

A bucket holds a probability at an instant. It decays with time, rises when a request of the bucket fails because the
resource is short, and falls a little when one succeeds. Decay is multiplicative, so that reading needs no writing: a
value is brought up to date when it is changed. Time never runs backwards: a bucket from the future (a skewed peer, a
clock that was set back) is taken as it is (THR-1).

Times are whole milliseconds since 1970, as in the shared store: fractions that one side drops would let instances drift
apart. They are floats, exact until the year 287 000, because arithmetic on one kind of number is faster, and this is
where a request under congestion spends its time. Writers hold the throttle's lock. Readers hold none: they may read a
new probability with the old time, which decays it too far for that one decision.
"""

from collections.abc import Iterable
from math import exp

from argosy.throttle.levels import Levels
from argosy.throttle.model import Config


class Bucket:
    """A probability at `at_ms`. `unsent` is the part of it that this instance changed and has not pushed yet."""

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
    """The buckets of one rotation period, created when their first client appears."""

    __slots__ = ("_buckets", "_columns", "_levels", "seed")

    def __init__(self, seed: int, config: Config, levels: Levels) -> None:
        self.seed = seed
        self._columns = config.buckets
        self._levels = levels
        # A list with all places, because a lookup by number is the fastest; a bucket is created only for a client.
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
        """The bucket at a position that another instance names; None if it is out of range."""
        if 0 <= col < self._columns and 0 <= row * self._columns + col < len(self._buckets):
            return self.at(row, col)
        return None

    def existing_buckets(self) -> list[Bucket]:
        """Every bucket that has had a client."""
        return [bucket for bucket in self._buckets if bucket is not None]


def decay(value: float, from_ms: float, to_ms: float, per_ms: float) -> float:
    """`value` after the time between two instants, if it is positive."""
    # The original subtracts unsigned times, so that a clock that steps back by a millisecond wipes a bucket to 0. With
    # shared state and 5 s of skew that is worse than no sharing at all, hence the guard.
    return value * exp(-per_ms * (to_ms - from_ms)) if to_ms > from_ms else value


def clamp(probability: float) -> float:
    """The nearest value in [0, 1]; NaN becomes 0."""
    if probability >= 1.0:
        return 1.0
    return probability if probability > 0.0 else 0.0


def probabilities(buckets: Iterable[Bucket], now_ms: float, per_ms: float) -> list[float]:
    """The current probabilities of buckets."""
    return [decay(bucket.probability, bucket.at_ms, now_ms, per_ms) for bucket in buckets]


def least(buckets: Iterable[Bucket], now_ms: float, per_ms: float) -> float:
    """The smallest of `probabilities`. The buckets of a client mostly share one time, so the exponential is reused."""
    # Buckets of one client have nearly always the same time, because they are changed together.
    found, at_ms, factor = 1.0, -1.0, 1.0
    for bucket in buckets:
        # The exponential is the expensive part of a decision under congestion.
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
    """As `move`, and records the effective change for the other instances.

    What the limits of [0, 1] cut off is not part of it: every instance would cut it off once more.
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
        # The unsent change decays like the value that it is part of, so one timestamp serves both.
        bucket.unsent = bucket.unsent * factor + (after - before)
        # A bucket that stays at 0 or 1 has nothing to send.
        if not bucket.is_dirty and after != before:
            bucket.is_dirty = True
            dirty.append(bucket)
