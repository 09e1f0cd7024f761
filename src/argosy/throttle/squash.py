"""How what the store says of a bucket and what this instance knows become one value.

The document's choice is to overwrite, and it names the price: an update on its way is undone until the next pull. The
default here rebases instead: the store's value plus all changes of our own that it cannot contain yet. With that, one
instance alone decides exactly as if it shared nothing, however late its writes land.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from argosy.base.errors import Invalid

# Of the local value, the fetched one and our own changes that are not in it, all as of one instant.
Squash: TypeAlias = Callable[[float, float, float], float]


def rebase(local: float, fetched: float, outstanding: float) -> float:
    """The store's value plus what it does not contain yet."""
    return fetched + outstanding


def overwrite(local: float, fetched: float, outstanding: float) -> float:
    """The store's value, as the document has it."""
    return fetched


def greater(local: float, fetched: float, outstanding: float) -> float:
    """Whichever blames more: quick to blame, and only time forgives."""
    return max(local, fetched)


def weighted(weight: float, local: float, fetched: float, outstanding: float) -> float:
    """Between the two; `weight` is the store's part."""
    return weight * fetched + (1 - weight) * local


def skip_if_pending(local: float, fetched: float, outstanding: float) -> float:
    """The store's value, but not for a bucket with changes on their way."""
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
            raise Invalid(f"the store's weight must be 0 to 1, not {weight}")
        return partial(weighted, weight)
    if name not in _NAMED:
        raise Invalid(f"there is no strategy {name!r}: choose one of {', '.join(SQUASHES)}")
    return _NAMED[name]
