"""The ports of ownership: one store behind three views, and what a node brings along.

Every backend (memory, Redis, etcd) answers the same calls the same way; tests/contracts holds them to it. A call that
cannot reach its store raises `Unavailable`, and may or may not have taken effect. A session that no longer lives is
answered with `Fenced`.
"""

from collections.abc import AsyncIterator
from typing import Protocol

from argosy.ownership.events import Fact
from argosy.ownership.model import (
    BidReceipt,
    Closing,
    Lease,
    LeaseState,
    Member,
    Role,
    Session,
    SessionInfo,
    Space,
    Unit,
    UnitSpec,
)


class SessionStore(Protocol):
    """Promises with a time to live: membership and liveness, two independent ones per node."""

    async def open_session(self, role: Role, member: Member, *, ttl_s: float) -> Session:
        """Starts a session; Conflict while another run of a node with this id has one of this role."""
        ...

    async def renew(self, session: Session) -> frozenset[tuple[Unit, int]] | None:
        """Extends a session by its TTL from now.

        Returns the (unit, epoch) pairs that the store knows this session to hold, so that a holder finds out what a
        store that lost its latest writes has forgotten; None from a store that never forgets what it acknowledged.
        """
        ...

    async def announce(self, session: Session, member: Member) -> None:
        """Replaces what a member session says about its node."""
        ...

    async def end_session(self, session: Session) -> None:
        """Ends a session at once, with its leases, bids and pending mark; ending a dead session is no error."""
        ...

    async def sessions(self) -> list[SessionInfo]: ...

    async def sweep(self) -> None:
        """Ends the sessions whose time is up. Any node may; a store that does so by itself does nothing here."""
        ...


class LeaseStore(Protocol):
    """Who holds what."""

    async def claim(self, session: Session, unit: Unit) -> Lease:
        """Creates a lease if there is none: Conflict if there is one, Invalid in an auctioned space (OWN-2)."""
        ...

    async def set_state(self, session: Session, unit: Unit, epoch: int, state: LeaseState) -> Lease:
        """Changes a lease's state; Fenced unless this session holds the unit at this epoch."""
        ...

    async def release(self, session: Session, unit: Unit, epoch: int) -> bool:
        """Ends a lease; False, and nothing done, unless this session holds the unit at this epoch."""
        ...

    async def hand_over(self, session: Session, unit: Unit, epoch: int, to: Unit) -> Lease | None:
        """Gives a unit to the holder of the sibling slot `to` in one step: it has the unit at a new epoch, and its slot
        becomes free. None, and nothing done, unless this session holds the unit at this epoch and `to` is ready.
        Watchers are told of the new lease before they are told that the slot is free."""
        ...

    def watch(self) -> AsyncIterator[Fact]:
        """All facts about the space, for ever; see `events`. Ends only with Unavailable, when the store went away."""
        ...


class AuctionHouse(Protocol):
    """The exclusive way to a first lease in an auctioned space."""

    async def place_bid(
        self,
        session: Session,
        unit: Unit,
        *,
        free_bytes: int,
        min_bytes: int,
        max_bids: int | None,
        window_s: float,
    ) -> BidReceipt:
        """Bids for a unit. The first bid opens the auction and fixes its window and its threshold: `max_bids`, or if
        that is None the number of members that are bidding now."""
        ...

    async def close_auction(self, unit: Unit) -> Closing:
        """Closes a due auction in one step: ranks, leases to the best living bidder, clears bids and marks."""
        ...

    async def push_max_bids(self, max_bids: int | None) -> None:
        """Sets the threshold of coming auctions for every node that follows pushed values."""
        ...


class OwnershipStore(SessionStore, LeaseStore, AuctionHouse, Protocol):
    """One backend, opened for one space."""

    @property
    def space(self) -> Space: ...

    async def close(self) -> None:
        """Lets go of connections; sessions live on until they are ended or expire."""
        ...


class Workload(Protocol):
    """What a node does with the units it holds: the plane above fills this in."""

    async def warm(self, lease: Lease) -> int:
        """Makes the unit ready to be served and returns the bytes it takes; cancelled when the lease is lost."""
        ...

    async def drop(self, unit: Unit) -> None:
        """Forgets the unit; called after serving has stopped."""
        ...


class Catalog(Protocol):
    """What should be held: desire, which outlives every node."""

    async def units(self) -> list[UnitSpec]: ...


class MemoryProbe(Protocol):
    """How many bytes this process may still take."""

    def free_bytes(self) -> int: ...
