"""Events that a node's state machines handle: watch events from the store, and the results of their own effects.

A watch begins with a `Snapshot` and then delivers the changes of one space in the order in which they happened. When
changes were lost (store unreachable, log trimmed, watcher too slow), another `Snapshot` follows and replaces the state
so far.
"""

from dataclasses import dataclass

from argosy.ownership.model import Auction, BidResult, CloseResult, Lease, Member, Session, SessionRole, Unit, UnitSpec


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
    """A node joined, or announced a new member record."""

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
    """An operator or controller pushed a new threshold, or cleared it (None)."""

    max_bids: int | None


WatchEvent = (
    Snapshot | LeaseChanged | LeaseGone | MemberChanged | MemberGone | AuctionOpened | AuctionClosed | MaxBidsChanged
)


# Results of a node's own effects. `…Failed` means that the store was unreachable: the call may or may not have taken
# effect.


@dataclass(frozen=True)
class SessionOpened:
    session: Session
    sent_at: float  # local time before the request was sent: the session's TTL cannot have started earlier


@dataclass(frozen=True)
class SessionRenewed:
    session: Session
    sent_at: float
    held: frozenset[tuple[Unit, int]] | None


@dataclass(frozen=True)
class SessionEnded:
    """The session has ended in the store; another process may run under this node id."""

    session: Session


@dataclass(frozen=True)
class SessionFailed:
    role: SessionRole


@dataclass(frozen=True)
class SessionRejected:
    """Another process with this node id has a session."""

    role: SessionRole
    reason: str


@dataclass(frozen=True)
class BidAnswered:
    unit: Unit
    result: BidResult


@dataclass(frozen=True)
class BidFailed:
    unit: Unit


@dataclass(frozen=True)
class CloseAnswered:
    unit: Unit
    result: CloseResult


@dataclass(frozen=True)
class CloseFailed:
    unit: Unit


@dataclass(frozen=True)
class ClaimAnswered:
    unit: Unit
    retry_after_s: float | None  # None: granted, or held by another node; the watch event says which


@dataclass(frozen=True)
class UnitWarmed:
    unit: Unit
    epoch: int


@dataclass(frozen=True)
class WarmingFailed:
    unit: Unit
    epoch: int


@dataclass(frozen=True)
class ReleaseAnswered:
    """A release or a handoff returned; unless it is done, it must be repeated."""

    unit: Unit
    epoch: int
    is_done: bool


@dataclass(frozen=True)
class SetStateFailed:
    unit: Unit
    epoch: int


@dataclass(frozen=True)
class CatalogRead:
    specs: tuple[UnitSpec, ...]


@dataclass(frozen=True)
class CatalogChanged:
    """The catalog was written: read it now instead of at the next periodic read."""


@dataclass(frozen=True)
class MemoryMeasured:
    free_bytes: int


@dataclass(frozen=True)
class ReleaseRequested:
    """The package above releases a unit, for lack of memory. Other nodes may acquire it; this one pauses first."""

    unit: Unit


@dataclass(frozen=True)
class DrainRequested:
    """An operator or a shutdown drains this node: end membership, wait for successors, release all leases."""


Event = (
    WatchEvent
    | SessionOpened
    | SessionRenewed
    | SessionEnded
    | SessionFailed
    | SessionRejected
    | BidAnswered
    | BidFailed
    | CloseAnswered
    | CloseFailed
    | ClaimAnswered
    | UnitWarmed
    | WarmingFailed
    | ReleaseAnswered
    | SetStateFailed
    | CatalogRead
    | CatalogChanged
    | MemoryMeasured
    | ReleaseRequested
    | DrainRequested
)
