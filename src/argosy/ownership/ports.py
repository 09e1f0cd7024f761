"""Ports of ownership: the store, in three parts, and what a node needs from the package above it.

All backends (memory, Redis, etcd) behave the same; the contract suite in tests/contracts checks this. A call that
cannot reach the store raises `Unavailable` and may or may not have taken effect. A call under a session that has ended
raises `Fenced`.
"""

from collections.abc import AsyncIterator
from typing import Protocol

from argosy.ownership.events import WatchEvent
from argosy.ownership.model import (
    BidResult,
    CloseResult,
    Lease,
    LeaseState,
    Member,
    Session,
    SessionInfo,
    SessionRole,
    Space,
    Unit,
    UnitSpec,
)


class SessionStore(Protocol):
    """Sessions with a TTL. A node has at most one of each role; the two are independent."""

    async def open_session(self, role: SessionRole, member: Member, *, ttl_s: float) -> Session:
        """Opens a session. Raises `Conflict` while another process with this node id has a session of this role."""
        ...

    async def renew(self, session: Session) -> frozenset[tuple[Unit, int]] | None:
        """Extends a session by its TTL from now.

        Returns the (unit, epoch) pairs that the store has for this session, so that a holder notices leases that the
        store has lost; None from a store that never loses acknowledged writes.
        """
        ...

    async def announce(self, session: Session, member: Member) -> None:
        """Replaces the node's member record under its member session."""
        ...

    async def end_session(self, session: Session) -> None:
        """Ends a session at once, with its leases, bids and pending mark. No error if it has already ended."""
        ...

    async def sessions(self) -> list[SessionInfo]: ...

    async def sweep(self) -> None:
        """Ends expired sessions. Any node may call it; a store that expires sessions by itself does nothing here."""
        ...


class LeaseStore(Protocol):
    """Leases of units."""

    async def claim(self, session: Session, unit: Unit) -> Lease:
        """Creates the lease of an unowned unit. Raises `Conflict` if it has a holder, `Invalid` if the space is
        auctioned (OWN-2)."""
        ...

    async def set_state(self, session: Session, unit: Unit, epoch: int, state: LeaseState) -> Lease:
        """Changes a lease's state. Raises `Fenced` unless this session holds the unit at this epoch."""
        ...

    async def release(self, session: Session, unit: Unit, epoch: int) -> bool:
        """Ends a lease. Returns False and changes nothing unless this session holds the unit at this epoch."""
        ...

    async def hand_off(self, session: Session, unit: Unit, epoch: int, to: Unit) -> Lease | None:
        """Hands a unit off to the holder of the sibling slot `to`, atomically: that node gets the unit at a new epoch,
        and its slot becomes unowned. Returns None and changes nothing unless this session holds the unit at this epoch
        and `to` is ready. Watchers receive the new lease before the end of the slot's lease."""
        ...

    def watch(self) -> AsyncIterator[WatchEvent]:
        """All events of the space; see `events`. Ends only by raising `Unavailable`, when the store is unreachable."""
        ...


class AuctionStore(Protocol):
    """Auctions: the only way to a first lease in an auctioned space (OWN-2)."""

    async def place_bid(
        self,
        session: Session,
        unit: Unit,
        *,
        free_bytes: int,
        min_bytes: int,
        max_bids: int | None,
        window_s: float,
    ) -> BidResult:
        """Places a bid. The first bid opens the auction and fixes its window and its threshold: `max_bids`, or the
        number of members that are bidding now if `max_bids` is None."""
        ...

    async def close_auction(self, unit: Unit) -> CloseResult:
        """Closes a due auction atomically: ranks the bids, grants the lease to the best bidder that is alive, and
        deletes bids and pending marks."""
        ...

    async def push_max_bids(self, max_bids: int | None) -> None:
        """Sets the threshold of future auctions for nodes whose `max_bids` setting is "pushed"."""
        ...


class OwnershipStore(SessionStore, LeaseStore, AuctionStore, Protocol):
    """One backend, opened for one space."""

    @property
    def space(self) -> Space: ...

    async def close(self) -> None:
        """Closes connections. Sessions remain until they are ended or expire."""
        ...


class Workload(Protocol):
    """What a node does with the units it holds; implemented by the package above."""

    async def warm(self, lease: Lease) -> int:
        """Prepares the unit for serving and returns the bytes it uses. Cancelled when the lease is lost."""
        ...

    async def drop(self, unit: Unit) -> None:
        """Frees the unit's resources. Called after serving has stopped."""
        ...


class UnitCatalog(Protocol):
    """Desired state: the units that the fleet should hold."""

    async def units(self) -> list[UnitSpec]: ...


class MemoryProbe(Protocol):
    """Memory that this process may still allocate."""

    def free_bytes(self) -> int: ...
