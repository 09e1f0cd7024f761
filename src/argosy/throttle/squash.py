"""Merging ("squash"): the new value of a bucket from the store's value and ours.

The document overwrites, and names the price: an update in flight is undone until the next pull. The default here
rebases instead: the store's value plus all our changes that it cannot contain yet. A single instance then decides
exactly as without a store, however late its writes arrive.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from argosy.base.errors import Invalid

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
