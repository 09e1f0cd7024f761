"""What a store tells its watchers: facts about one space, in the order in which they became true.

A watch begins with a `Snapshot`. Whenever the store cannot tell what happened in between (it was away, its log was cut,
the watcher was too slow) another `Snapshot` follows, and replaces all that was known.
"""

from dataclasses import dataclass

from argosy.ownership.model import Auction, BidReceipt, Closing, Lease, Member, Role, Session, Unit, UnitSpec


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


Fact = Snapshot | LeaseChanged | LeaseGone | MemberChanged | MemberGone | AuctionOpened | AuctionClosed | MaxBidsChanged


# What a node's own effects led to. `Missed` means that the store could not be reached: the call may have taken effect.


@dataclass(frozen=True)
class SessionOpened:
    session: Session
    sent_at: float  # local time before the request left: the store's promise cannot have begun earlier


@dataclass(frozen=True)
class SessionRenewed:
    session: Session
    sent_at: float
    held: frozenset[tuple[Unit, int]] | None


@dataclass(frozen=True)
class SessionEnded:
    """The store no longer knows this session: whoever ran under it has been replaced."""

    session: Session


@dataclass(frozen=True)
class SessionMissed:
    role: Role


@dataclass(frozen=True)
class SessionRefused:
    """Another run of a node with this id is alive."""

    role: Role
    why: str


@dataclass(frozen=True)
class BidAnswered:
    unit: Unit
    receipt: BidReceipt


@dataclass(frozen=True)
class BidMissed:
    unit: Unit


@dataclass(frozen=True)
class ClosingAnswered:
    unit: Unit
    closing: Closing


@dataclass(frozen=True)
class ClosingMissed:
    unit: Unit


@dataclass(frozen=True)
class ClaimAnswered:
    unit: Unit
    retry_after_s: float | None  # None: granted, or held by another; the watch tells which


@dataclass(frozen=True)
class Warmed:
    unit: Unit
    epoch: int


@dataclass(frozen=True)
class WarmingFailed:
    unit: Unit
    epoch: int


@dataclass(frozen=True)
class LetGoAnswered:
    """A release or a hand-over was answered; if it did not take, it has to be tried again."""

    unit: Unit
    epoch: int
    is_done: bool


@dataclass(frozen=True)
class StateMissed:
    unit: Unit
    epoch: int


@dataclass(frozen=True)
class CatalogRead:
    specs: tuple[UnitSpec, ...]


@dataclass(frozen=True)
class CatalogChanged:
    """Somebody has written to the catalog: read it now rather than at the next turn."""


@dataclass(frozen=True)
class MemoryMeasured:
    free_bytes: int


@dataclass(frozen=True)
class ReleaseRequested:
    """The plane above gives a unit up, for want of memory: others may have it, and this node not soon again."""

    unit: Unit


@dataclass(frozen=True)
class DrainRequested:
    """Somebody wants this node empty: leave membership, find successors, then let go."""


Event = (
    Fact
    | SessionOpened
    | SessionRenewed
    | SessionEnded
    | SessionMissed
    | SessionRefused
    | BidAnswered
    | BidMissed
    | ClosingAnswered
    | ClosingMissed
    | ClaimAnswered
    | Warmed
    | WarmingFailed
    | LetGoAnswered
    | StateMissed
    | CatalogRead
    | CatalogChanged
    | MemoryMeasured
    | ReleaseRequested
    | DrainRequested
)
