"""The rules of an auction, free of any store: who may bid, who wins, when it is over.

The memory and etcd backends call these; the Redis backend says the same in Lua, and the contract suite holds them
equal.
"""

from collections.abc import Iterable

from argosy.base.errors import Invalid
from argosy.ownership.model import BIDS_MAX, PRIMARY, Bid, Unit

# A footprint is last time's size; a repository grows between two indexings, and building takes more than keeping.
MINIMUM_BID_FACTOR = 1.2

# An auction that nobody has closed this long after its window binds its bidders no longer: their pending marks expire.
PENDING_BUFFER_S = 10.0


def rank(bids: Iterable[Bid]) -> list[Bid]:
    """Best first: most free memory, then earliest, then by name so that every closer sees the same order."""
    return sorted(bids, key=lambda bid: (-bid.free_bytes, bid.order, bid.node))


def threshold(max_bids: int | None, bidding_now: int) -> int:
    """How many bids close an auction early; fixed when it opens. Without a number: everybody who is bidding now."""
    if max_bids is not None and max_bids < 1:
        raise Invalid(f"max_bids must be at least 1, not {max_bids}")
    return min(BIDS_MAX, max(1, bidding_now if max_bids is None else max_bids))


def minimum_bid(footprint_bytes: int | None) -> int:
    """What a node must have free to be worth asking; nothing is known of a unit that was never held."""
    return 0 if footprint_bytes is None else int(footprint_bytes * MINIMUM_BID_FACTOR)


def rivals(unit: Unit) -> tuple[Unit, ...]:
    """The slots whose holder may not take this one. A replica's holder may win the primary: its slot is then free."""
    return () if unit.replica == PRIMARY else unit.siblings()
