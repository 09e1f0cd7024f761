"""Rules of an auction as pure functions: who may bid, who wins, how many bids close it.

The memory and etcd backends call them. The Redis backend implements them in Lua; the contract suite checks that both
agree.
"""

from collections.abc import Iterable

from argosy.base.errors import Invalid
from argosy.ownership.model import BIDS_MAX, PRIMARY, Bid, Unit

# The footprint is the size at the last indexing. Repositories grow, and building an index takes more than holding it.
MINIMUM_BID_FACTOR = 1.2

# If an auction is still open this long after its window, pending marks of its bidders expire, so they can bid again.
PENDING_BUFFER_S = 10.0


def rank(bids: Iterable[Bid]) -> list[Bid]:
    """Best bid first: most free memory, then earliest, then node name, so that every closer computes one order."""
    return sorted(bids, key=lambda bid: (-bid.free_bytes, bid.order, bid.node))


def threshold(max_bids: int | None, bidding_now: int) -> int:
    """How many bids close an auction early; fixed when it opens. With None: the number of members bidding now."""
    if max_bids is not None and max_bids < 1:
        raise Invalid(f"max_bids must be at least 1, not {max_bids}")
    return min(BIDS_MAX, max(1, bidding_now if max_bids is None else max_bids))


def minimum_bid(footprint_bytes: int | None) -> int:
    """Free bytes a bidder must have; 0 for a unit that was never held, whose footprint is unknown."""
    return 0 if footprint_bytes is None else int(footprint_bytes * MINIMUM_BID_FACTOR)


def rivals(unit: Unit) -> tuple[Unit, ...]:
    """Slots whose holder may not acquire this one. A replica's holder may win the primary; its replica then becomes
    unowned."""
    return () if unit.replica == PRIMARY else unit.siblings()
