"""The arithmetic of a row store. The memory store calls it; the scripts in `backends/lua` implement the same.

A change counts at its own time: it is discounted if it comes late, and ages the stored value if it is newer. Added in
any order, the sum is the same; only the limits of [0, 1] depend on the order. No time is further ahead than
`SKEW_MS_MAX`, so that one broken clock cannot freeze a bucket in the future.
"""

from dataclasses import dataclass
from hashlib import blake2b

from argosy.throttle.blue import clamp, decay
from argosy.throttle.model import Config
from argosy.throttle.ports import BucketState, RowPull, RowVersion, RowWrite

SKEW_MS_MAX = 5_000
LIFE_WINDOWS = 3  # a row is created one window ahead and used for one; the third allows for skew
_ZERO = BucketState(0.0, 0)


@dataclass(frozen=True)
class RowRules:
    """The parameters that all instances of shared rows must agree on."""

    decay_per_ms: float
    ttl_ms: int
    buckets: int
    levels: int
    fingerprint: str


def row_rules(config: Config) -> RowRules:
    """The rules of a configuration. The fingerprint covers the secret without revealing it, but readers of the store
    can test guesses against it, so a secret should be long."""
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


def apply_delta(stored: BucketState | None, delta: float, at_ms: int, *, now_ms: int, per_ms: float) -> BucketState:
    """A bucket after a change of `delta` at `at_ms`."""
    prob, stored_ms = stored or _ZERO
    at_ms = min(at_ms, now_ms + SKEW_MS_MAX)
    if at_ms >= stored_ms:
        return BucketState(clamp(decay(prob, stored_ms, at_ms, per_ms) + delta), at_ms)
    return BucketState(clamp(prob + decay(delta, at_ms, stored_ms, per_ms)), stored_ms)


def apply_restore(stored: BucketState | None, prob: float, at_ms: int, *, now_ms: int, per_ms: float) -> BucketState:
    """A bucket after an instance has restored it; the operation is idempotent, also between instances."""
    known, stored_ms = stored or _ZERO
    at_ms = min(at_ms, now_ms + SKEW_MS_MAX)
    latest = max(at_ms, stored_ms)
    greater = max(decay(known, stored_ms, latest, per_ms), decay(prob, at_ms, latest, per_ms))
    return BucketState(clamp(greater), latest)


def is_moved(pull: RowPull, mark: RowVersion, written: list[RowWrite]) -> bool:
    """Whether another instance has written to a row since the pull's version; `written` are our writes of the batch."""
    own = sum(1 for each in written if each.cell == pull.cell and not each.is_duplicate)
    return mark != pull.seen and mark != RowVersion(pull.seen.born_us, pull.seen.version + own)
