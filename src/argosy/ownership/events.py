"""What a store tells its watchers: facts about one space, in the order in which they became true.

A watch begins with a `Snapshot`. Whenever the store cannot tell what happened in between (it was away, its log was cut,
the watcher was too slow) another `Snapshot` follows, and replaces all that was known.
"""

from dataclasses import dataclass

from argosy.ownership.model import Auction, Lease, Member, Unit


@dataclass(frozen=True)
class Snapshot:
    leases: tuple[Lease, ...] = ()
    members: tuple[Member, ...] = ()
    auctions: tuple[Auction, ...] = ()
    max_bids: int | None = None


@dataclass(frozen=True)
class LeaseChanged:
    """A lease was granted, or its state changed."""

    lease: Lease


@dataclass(frozen=True)
class LeaseGone:
    """A lease was released or has expired."""

    unit: Unit
    epoch: int


@dataclass(frozen=True)
class MemberChanged:
    """A node joined, or says something new about itself."""

    member: Member


@dataclass(frozen=True)
class MemberGone:
    node: str


@dataclass(frozen=True)
class AuctionOpened:
    auction: Auction


@dataclass(frozen=True)
class AuctionClosed:
    unit: Unit
    id: int
    winner: str | None


@dataclass(frozen=True)
class MaxBidsChanged:
    """A controller pushed a new threshold; None means that none is pushed any more."""

    max_bids: int | None


Fact = (
    Snapshot | LeaseChanged | LeaseGone | MemberChanged | MemberGone | AuctionOpened | AuctionClosed | MaxBidsChanged
)
