"""Ownership store in memory: for one process, for tests, and as the server of the simulator.

All nodes of the process share one `MemoryOwnershipStore`. Its methods never await, so each is one atomic step, like a
script in Redis and a transaction in etcd. It is also the readable form of what those two do: the contract suite
requires that all three answer the same.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace

from argosy.base.clock import Clock, Random
from argosy.base.errors import Conflict, Fenced, Invalid, Throttled
from argosy.ownership.events import (
    AuctionClosed,
    AuctionOpened,
    LeaseChanged,
    LeaseGone,
    MaxBidsChanged,
    MemberChanged,
    MemberGone,
    Snapshot,
    WatchEvent,
)
from argosy.ownership.model import (
    PENDING_BUFFER_S,
    Auction,
    Bid,
    BidOutcome,
    BidResult,
    CloseOutcome,
    CloseResult,
    Lease,
    LeaseState,
    Member,
    Session,
    SessionInfo,
    SessionRole,
    Space,
    Unit,
    rank,
    rivals,
    threshold,
)

WATCH_BACKLOG_MAX = 10_000  # events a slow watcher may be behind before it gets a new snapshot instead


@dataclass
class _LiveSession:
    session: Session
    member: Member
    expires_at: float


@dataclass
class _OpenAuction:
    """An open auction with its bids."""

    unit: Unit
    id: int
    max_bids: int
    opened_at: float
    closes_at: float
    bids: dict[str, Bid] = field(default_factory=dict)


class MemoryOwnershipStore:
    """Implements `OwnershipStore` for the nodes of one process."""

    def __init__(self, space: Space, *, clock: Clock, random: Random, grace_s: float = 0.0) -> None:
        """`grace_s`: time for which a store that may have lost leases grants none. A store in the process of its nodes
        cannot lose any and needs no grace period."""
        self.space = space
        self._clock = clock
        self._random = random
        self._grace_s = grace_s
        self._watchers: list[_Watcher] = []
        # Called synchronously with each event: the simulator's checkers must see it at the instant it happens.
        self.observers: list[Callable[[WatchEvent], None]] = []
        self._reset()
        self._grants_from = clock.now() + grace_s

    def _reset(self) -> None:
        self._sessions: dict[tuple[SessionRole, str], _LiveSession] = {}
        self._leases: dict[Unit, Lease] = {}
        self._epochs: dict[Unit, int] = {}
        self._auctions: dict[Unit, _OpenAuction] = {}
        self._pending: dict[str, Unit] = {}
        self._max_bids: int | None = None
        self._sequence = 0

    def lose_everything(self) -> None:
        """Simulates the restart of a Redis without persistence; grants then wait for `grace_s`."""
        epochs = self._epochs
        self._reset()
        # Real stores derive epochs from their clock, so they keep growing after a loss; here they are kept.
        self._epochs = epochs
        self._grants_from = self._clock.now() + self._grace_s
        for watcher in self._watchers:
            watcher.replace(self.snapshot())

    # -- sessions ---------------------------------------------------------------------------------------------------

    async def open_session(self, role: SessionRole, member: Member, *, ttl_s: float) -> Session:
        # Expired sessions end here, on access and before anything is decided, so that no timer is needed.
        self._sweep()
        if (live := self._sessions.get((role, member.node))) is not None:
            wait_s = live.expires_at - self._clock.now()
            raise Conflict(
                f"node id {member.node!r} is in use at {live.member.address!r}; use another id, or wait "
                f"{wait_s:.1f} s after a restart"
            )
        token = f"{self._random.randrange(0, 1 << 63):016x}"
        session = Session(role, member.node, member.address, token, ttl_s)
        self._sessions[role, member.node] = _LiveSession(session, member, self._clock.now() + ttl_s)
        if role is SessionRole.MEMBER:
            self._publish(MemberChanged(member))
        return session

    async def renew(self, session: Session) -> frozenset[tuple[Unit, int]]:
        live = self._require_session(session)
        live.expires_at = self._clock.now() + session.ttl_s
        return frozenset((lease.unit, lease.epoch) for lease in self._leases.values() if lease.is_of(session))

    async def announce(self, session: Session, member: Member) -> None:
        live = self._require_session(session)
        # An unchanged record is no event, as in the other stores.
        if live.member != member:
            live.member = member
            self._publish(MemberChanged(member))

    async def end_session(self, session: Session) -> None:
        self._sweep()
        live = self._sessions.get((session.role, session.node))
        if live is not None and live.session == session:
            self._end(live)

    async def sessions(self) -> list[SessionInfo]:
        self._sweep()
        now = self._clock.now()
        return [
            SessionInfo(role, node, live.member.address, live.expires_at - now)
            for (role, node), live in sorted(self._sessions.items())
        ]

    async def sweep(self) -> None:
        self._sweep()

    def _sweep(self) -> None:
        now = self._clock.now()
        for live in [p for p in self._sessions.values() if p.expires_at <= now]:
            self._end(live)

    def _require_session(self, session: Session) -> _LiveSession:
        self._sweep()
        live = self._sessions.get((session.role, session.node))
        # The whole session is compared: its token distinguishes two runs under one node id.
        if live is None or live.session != session:
            raise Fenced(f"the {session.role} session of node {session.node!r} has ended; open a new one")
        return live

    def _end(self, live: _LiveSession) -> None:
        session = live.session
        del self._sessions[session.role, session.node]
        if session.role is SessionRole.MEMBER:
            self._publish(MemberGone(session.node))
            return
        for lease in [lease for lease in self._leases.values() if lease.is_of(session)]:
            self._drop(lease)
        # Bid and mark end with the holder session: a dead node must neither win nor count as pending.
        self._withdraw(session.node)

    # -- leases -----------------------------------------------------------------------------------------------------

    async def claim(self, session: Session, unit: Unit) -> Lease:
        if self.space.is_auctioned:  # OWN-2
            raise Invalid(f"units of {self.space.name!r} are acquired by auction: place a bid for {str(unit)!r}")
        self._require_session(session)
        if (held := self._leases.get(unit)) is not None:
            raise Conflict(f"{str(unit)!r} is held by {held.node!r}")
        if (wait_s := self._grants_from - self._clock.now()) > 0:
            raise Throttled("store in its grace period: it may have lost leases", retry_after_s=wait_s)
        return self._grant(unit, session)

    async def set_state(self, session: Session, unit: Unit, epoch: int, state: LeaseState) -> Lease:
        self._require_session(session)
        if (lease := self._find_lease(session, unit, epoch)) is None:
            raise Fenced(f"{str(unit)!r} is not held by {session.node!r} at epoch {epoch}")
        if lease.state is not state:
            lease = self._leases[unit] = replace(lease, state=state)
            self._publish(LeaseChanged(lease))
        return lease

    async def release(self, session: Session, unit: Unit, epoch: int) -> bool:
        self._sweep()
        if (lease := self._find_lease(session, unit, epoch)) is None:
            return False
        self._drop(lease)
        return True

    async def hand_off(self, session: Session, unit: Unit, epoch: int, to: Unit) -> Lease | None:
        self._sweep()
        lease, successor = self._find_lease(session, unit, epoch), self._leases.get(to)
        if lease is None or successor is None or successor.state is not LeaseState.READY or to not in unit.siblings():
            return None
        self._drop(lease)
        granted = self._grant(unit, self._sessions[SessionRole.HOLDER, successor.node].session, LeaseState.READY)
        # The end of the slot's lease is published last, so that the successor never sees itself without any slot.
        self._drop(successor)
        return granted

    def _find_lease(self, session: Session, unit: Unit, epoch: int) -> Lease | None:
        lease = self._leases.get(unit)
        return lease if lease is not None and lease.is_of(session) and lease.epoch == epoch else None

    def _grant(self, unit: Unit, session: Session, state: LeaseState = LeaseState.WARMING) -> Lease:
        assert unit not in self._leases  # OWN-1
        epoch = self._epochs[unit] = self._epochs.get(unit, 0) + 1
        lease = Lease(unit, session.node, session.address, session.token, epoch, state)
        self._leases[unit] = lease
        self._publish(LeaseChanged(lease))
        return lease

    def _drop(self, lease: Lease) -> None:
        del self._leases[lease.unit]
        self._publish(LeaseGone(lease.unit, lease.epoch))

    # -- auctions ---------------------------------------------------------------------------------------------------

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
        self._require_session(session)
        if self._has_pending_bid(session.node):  # OWN-3
            return BidResult(BidOutcome.ALREADY_PENDING)
        if free_bytes < min_bytes:
            return BidResult(BidOutcome.BELOW_MINIMUM)
        if unit in self._leases or self._holds_rival(session.node, unit):
            return BidResult(BidOutcome.NOT_OPEN)
        self._withdraw(session.node)
        has_opened = unit not in self._auctions
        auction = self._open_auction(unit, max_bids, window_s) if has_opened else self._auctions[unit]
        self._sequence += 1
        auction.bids[session.node] = Bid(session.node, session.address, session.token, free_bytes, self._sequence)
        self._pending[session.node] = unit
        return BidResult(BidOutcome.PLACED, has_opened, len(auction.bids) >= auction.max_bids, auction.max_bids)

    async def close_auction(self, unit: Unit) -> CloseResult:
        self._sweep()
        now = self._clock.now()
        if (auction := self._auctions.get(unit)) is None:
            return CloseResult(CloseOutcome.ALREADY_CLOSED)
        is_full = len(auction.bids) >= auction.max_bids
        # A full auction is due at once, but in the grace period nothing is granted (OWN-1).
        due_at = max(now if is_full else auction.closes_at, self._grants_from)
        if now < due_at:
            return CloseResult(CloseOutcome.NOT_DUE, wait_s=due_at - now)
        winner = next((bid for bid in rank(auction.bids.values()) if self._may_win(bid, unit)), None)
        self._clear(auction)
        lease = None if winner is None else self._grant(unit, self._sessions[SessionRole.HOLDER, winner.node].session)
        self._publish(AuctionClosed(unit, auction.id, None if winner is None else winner.node))
        outcome = CloseOutcome.NO_WINNER if lease is None else CloseOutcome.WON
        return CloseResult(
            outcome, lease, len(auction.bids), is_full and now < auction.closes_at, now - auction.opened_at
        )

    async def push_max_bids(self, max_bids: int | None) -> None:
        if max_bids is not None:
            max_bids = threshold(max_bids, 0)
        self._max_bids = max_bids
        self._publish(MaxBidsChanged(max_bids))

    def _open_auction(self, unit: Unit, max_bids: int | None, window_s: float) -> _OpenAuction:
        # A crashed node's two sessions end at different times: without its holder session it cannot bid either.
        bidding = sum(
            live.member.is_bidding and (SessionRole.HOLDER, node) in self._sessions
            for (role, node), live in self._sessions.items()
            if role is SessionRole.MEMBER
        )
        now = self._clock.now()
        self._sequence += 1
        auction = _OpenAuction(unit, self._sequence, threshold(max_bids, bidding), now, now + window_s)
        self._auctions[unit] = auction
        self._publish(AuctionOpened(self._describe_auction(auction)))
        return auction

    def _has_pending_bid(self, node: str) -> bool:
        unit = self._pending.get(node)
        return unit is not None and self._clock.now() < self._auctions[unit].closes_at + PENDING_BUFFER_S

    def _withdraw(self, node: str) -> None:
        """Removes a bid and its pending mark: a node with two bids could win twice."""
        if (unit := self._pending.pop(node, None)) is not None:
            del self._auctions[unit].bids[node]

    def _describe_auction(self, auction: _OpenAuction) -> Auction:
        return Auction(auction.unit, auction.id, auction.max_bids, max(0.0, auction.closes_at - self._clock.now()))

    def _may_win(self, bid: Bid, unit: Unit) -> bool:
        live = self._sessions.get((SessionRole.HOLDER, bid.node))
        is_alive = live is not None and live.session.token == bid.token
        return is_alive and unit not in self._leases and not self._holds_rival(bid.node, unit)

    def _holds_rival(self, node: str, unit: Unit) -> bool:
        return any((held := self._leases.get(rival)) is not None and held.node == node for rival in rivals(unit))

    def _clear(self, auction: _OpenAuction) -> None:
        """Deletes the auction with its bids and all their pending marks (OWN-6)."""
        del self._auctions[auction.unit]
        for node in auction.bids:
            del self._pending[node]

    # -- watching ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        self._sweep()
        members = (p.member for (role, _), p in sorted(self._sessions.items()) if role is SessionRole.MEMBER)
        auctions = (self._describe_auction(auction) for auction in self._auctions.values())
        return Snapshot(tuple(self._leases.values()), tuple(members), tuple(auctions), self._max_bids)

    async def watch(self) -> AsyncIterator[WatchEvent]:
        watcher = _Watcher(self.snapshot())
        self._watchers.append(watcher)
        try:
            while True:
                await watcher.wait()
                if watcher.has_fallen_behind:
                    watcher.replace(self.snapshot())
                yield watcher.take()
        finally:
            self._watchers.remove(watcher)

    async def close(self) -> None:
        """Nothing to close: the store is in this process."""

    def pending_marks(self) -> dict[str, Unit]:
        """The unit of each node's pending bid: for tests and checkers."""
        return dict(self._pending)

    def expiry(self, role: SessionRole, node: str) -> float | None:
        """When a node's session expires, in this store's time: for checkers."""
        live = self._sessions.get((role, node))
        return None if live is None else live.expires_at

    def _publish(self, event: WatchEvent) -> None:
        for observer in self.observers:
            observer(event)
        for watcher in self._watchers:
            watcher.put(event)


class _Watcher:
    """The bounded event backlog of one watcher."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._events: deque[WatchEvent] = deque([snapshot])
        self._arrived = asyncio.Event()
        self.has_fallen_behind = False

    def put(self, event: WatchEvent) -> None:
        # Dropped together: after one lost event the rest is of no use, and a snapshot replaces all of it.
        if len(self._events) >= WATCH_BACKLOG_MAX:
            self._events.clear()
            self.has_fallen_behind = True
        if not self.has_fallen_behind:
            self._events.append(event)
        self._arrived.set()

    def replace(self, snapshot: Snapshot) -> None:
        self._events = deque([snapshot])
        self.has_fallen_behind = False
        self._arrived.set()

    async def wait(self) -> None:
        while not self._events and not self.has_fallen_behind:
            self._arrived.clear()
            await self._arrived.wait()

    def take(self) -> WatchEvent:
        return self._events.popleft()
