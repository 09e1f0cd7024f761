"""What a store of rows does, as arithmetic: the memory twin calls this, and the scripts in `backends/lua` do the same.

A change counts as of its own time, so it is discounted if it comes late, and ages what was there if it comes early:
added in any order, the sum is the same. Only the limits of [0, 1] depend on the order. Nothing lies further ahead than
`skew_ms_max`, so that one broken clock cannot freeze a bucket in the future.
"""

from dataclasses import dataclass
from hashlib import blake2b

from argosy.throttle.blue import clamp, decay
from argosy.throttle.model import Config
from argosy.throttle.ports import BucketState, RowPull, RowVersion, RowWrite

SKEW_MS_MAX = 5_000
LIFE_WINDOWS = 3  # a row is born one window ahead and ends with its own; the third allows for skew
_ZERO = BucketState(0.0, 0)


@dataclass(frozen=True)
class RowRules:
    """What all instances that share rows must agree on."""

    decay_per_ms: float
    ttl_ms: int
    buckets: int
    levels: int
    fingerprint: str


def row_rules(config: Config) -> RowRules:
    """The rules that follow from a configuration. The fingerprint covers the secret: it does not tell it, but whoever
    reads the store can try guesses on it, so a secret should be long."""
    shared = (
        config.levels,
        config.buckets,
        config.failure_step,
        config.success_step,
        config.decay_per_s,
        config.window_ms,
        config.hashing,
    )
    key = blake2b(config.secret or b"").digest()
    fingerprint = blake2b(repr(shared).encode(), digest_size=8, key=key).hexdigest()
    return RowRules(config.decay_per_ms, LIFE_WINDOWS * config.window_ms, config.buckets, config.levels, fingerprint)


def pushed(stored: BucketState | None, delta: float, at_ms: int, *, now_ms: int, per_ms: float) -> BucketState:
    """A bucket after a change of `delta` as of `at_ms`."""
    prob, stored_ms = stored or _ZERO
    at_ms = min(at_ms, now_ms + SKEW_MS_MAX)
    if at_ms >= stored_ms:
        return BucketState(clamp(decay(prob, stored_ms, at_ms, per_ms) + delta), at_ms)
    return BucketState(clamp(prob + decay(delta, at_ms, stored_ms, per_ms)), stored_ms)


def restored(stored: BucketState | None, prob: float, at_ms: int, *, now_ms: int, per_ms: float) -> BucketState:
    """A bucket after an instance has said what it used to be; said by many, or twice, it makes no difference."""
    known, stored_ms = stored or _ZERO
    at_ms = min(at_ms, now_ms + SKEW_MS_MAX)
    latest = max(at_ms, stored_ms)
    greater = max(decay(known, stored_ms, latest, per_ms), decay(prob, at_ms, latest, per_ms))
    return BucketState(clamp(greater), latest)


def is_moved(pull: RowPull, mark: RowVersion, written: list[RowWrite]) -> bool:
    """Whether somebody else has written to a row since the pull's mark; our own writes of this order are `written`."""
    own = sum(1 for each in written if each.cell == pull.cell and not each.is_duplicate)
    return mark != pull.seen and mark != RowVersion(pull.seen.born_us, pull.seen.version + own)
