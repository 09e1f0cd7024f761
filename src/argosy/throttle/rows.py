"""Arithmetic on shared rows: in the store, and when an instance merges ("squashes") what it has fetched.

In the store a change counts at its own time: it is discounted if it arrives late, and decays the stored value if it is
newer. Added in any order the sum is the same; only the limits of [0, 1] depend on the order. The memory store calls
these functions; the scripts in `backends/lua` implement the same, and a contract suite compares them.

In the instance `squash` computes the new value of a bucket from the store's value and ours. The design document
overwrites ours, and names the price: an update in flight is undone until the next pull. The default here rebases: the
store's value plus all our changes that it cannot contain yet. A single instance then decides exactly as without a
store, however late its writes arrive (decision 0015).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import TypeAlias

from argosy.base.errors import Invalid
from argosy.throttle.blue import clamp, decay
from argosy.throttle.model import Config
from argosy.throttle.ports import BucketState, RowPull, RowVersion, RowWrite

# Hosts with NTP agree to milliseconds; 5 s covers a machine whose clock has not been corrected yet.
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
    # Not `final` and the fields after it: they affect decisions of one instance, not the state that is shared.
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
    # Without this bound a clock an hour ahead would keep its bucket from decaying for an hour.
    at_ms = min(at_ms, now_ms + SKEW_MS_MAX)
    # The later time wins and the earlier value is decayed to it, so that the order of arrival does not matter.
    if at_ms >= stored_ms:
        return BucketState(clamp(decay(prob, stored_ms, at_ms, per_ms) + delta), at_ms)
    return BucketState(clamp(prob + decay(delta, at_ms, stored_ms, per_ms)), stored_ms)


def apply_restore(stored: BucketState | None, prob: float, at_ms: int, *, now_ms: int, per_ms: float) -> BucketState:
    """A bucket after an instance has restored it; the operation is idempotent, also between instances."""
    known, stored_ms = stored or _ZERO
    at_ms = min(at_ms, now_ms + SKEW_MS_MAX)
    latest = max(at_ms, stored_ms)
    # The greater value, so that instances may restore in any order and any number of times.
    greater = max(decay(known, stored_ms, latest, per_ms), decay(prob, at_ms, latest, per_ms))
    return BucketState(clamp(greater), latest)


def is_moved(pull: RowPull, mark: RowVersion, written: list[RowWrite]) -> bool:
    """Whether another instance has written to a row since the pull's version; `written` are our writes of the batch."""
    # Our own writes of the same batch have raised the version too; they are no news.
    own = sum(1 for each in written if each.cell == pull.cell and not each.is_duplicate)
    return mark != pull.seen and mark != RowVersion(pull.seen.born_us, pull.seen.version + own)


# Of the local value, the fetched value and our changes that the fetched one lacks, all at one instant.
Squash: TypeAlias = Callable[[float, float, float], float]


def rebase(local: float, fetched: float, outstanding: float) -> float:
    """The store's value plus our changes that it does not contain yet."""
    return fetched + outstanding


def overwrite(local: float, fetched: float, outstanding: float) -> float:
    """The store's value, as in the document."""
    return fetched


def greater(local: float, fetched: float, outstanding: float) -> float:
    """The greater one: blame spreads fast, and only time forgives."""
    return max(local, fetched)


def weigh(weight: float, local: float, fetched: float, outstanding: float) -> float:
    """A weighted mean; `weight` is the store's share."""
    return weight * fetched + (1 - weight) * local


def skip_if_pending(local: float, fetched: float, outstanding: float) -> float:
    """The store's value, unless the bucket has changes in flight."""
    return local if outstanding else fetched


_NAMED: dict[str, Squash] = {
    "rebase": rebase,
    "overwrite": overwrite,
    "max": greater,
    "skip": skip_if_pending,
}
SQUASHES = (*_NAMED, "weighted")
WEIGHT = 0.5


def squash(name: str, *, weight: float = WEIGHT) -> Squash:
    """The strategy of this name."""
    if name == "weighted":
        if not 0 <= weight <= 1:
            raise Invalid(f"squash_weight must be 0 to 1, not {weight}")
        return partial(weigh, weight)
    if name not in _NAMED:
        raise Invalid(f"squash strategy {name!r} not found: choose one of {', '.join(SQUASHES)}")
    return _NAMED[name]
