"""Ownership in one process: the embedded default, the twin that tests trust, and the server of the simulator.

All nodes of the process share one `MemoryStore`. Its methods never wait, so each is one atomic step, as a script is in
Redis and a transaction in etcd.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace

from argosy.base.clock import Clock, Random
from argosy.base.errors import Conflict, Fenced, Invalid, Throttled
from argosy.ownership.auction import PENDING_BUFFER_S, rank, rivals, threshold
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
)

WATCH_BACKLOG_MAX = 10_000  # facts a slow watcher may lag behind before it is given a new snapshot instead


@dataclass
class _Promise:
    session: Session
    member: Member
    expires_at: float


@dataclass
class _AuctionState:
    """An auction as the store keeps it."""

    unit: Unit
    id: int
    max_bids: int
    opened_at: float
    closes_at: float
    bids: dict[str, Bid] = field(default_factory=dict)


class MemoryStore:
    """Implements `OwnershipStore` for the nodes of one process."""

    def __init__(self, space: Space, *, clock: Clock, random: Random, grace_s: float = 0.0) -> None:
        """`grace_s` is how long a store that may have forgotten leases grants no new ones; a store that lives and dies
        with its nodes needs none."""
        self.space = space
        self._clock = clock
        self._random = random
        self._grace_s = grace_s
        self._watchers: list[_Watcher] = []
        self.observers: list[
            Callable[[WatchEvent], None]
        ] = []  # called in the same instant: for the simulator's checkers
        self._forget_all()
        self._grants_from = clock.now() + grace_s

    def _forget_all(self) -> None:
        self._promises: dict[tuple[SessionRole, str], _Promise] = {}
        self._leases: dict[Unit, Lease] = {}
        self._epochs: dict[Unit, int] = {}
        self._sales: dict[Unit, _AuctionState] = {}
        self._pending: dict[str, Unit] = {}
        self._max_bids: int | None = None
        self._sequence = 0

    def lose_everything(self) -> None:
        """What a Redis without persistence does when it restarts; grants then wait for `grace_s`."""
        epochs = self._epochs
        self._forget_all()
        # Real stores draw epochs from a clock-like sequence; what matters here is that they stay greater.
        self._epochs = epochs
        self._grants_from = self._clock.now() + self._grace_s
        for watcher in self._watchers:
            watcher.replace(self.snapshot())

    # -- sessions ---------------------------------------------------------------------------------------------------

    async def open_session(self, role: SessionRole, member: Member, *, ttl_s: float) -> Session:
        self._sweep()
        if (living := self._promises.get((role, member.node))) is not None:
            wait_s = living.expires_at - self._clock.now()
            raise Conflict(
                f"node id {member.node!r} is in use at {living.member.address!r}: give this node another id, or wait "
                f"{wait_s:.1f} s if it is a restart"
            )
        token = f"{self._random.randrange(0, 1 << 63):016x}"
        session = Session(role, member.node, member.address, token, ttl_s)
        self._promises[role, member.node] = _Promise(session, member, self._clock.now() + ttl_s)
        if role is SessionRole.MEMBER:
            self._tell(MemberChanged(member))
        return session

    async def renew(self, session: Session) -> frozenset[tuple[Unit, int]]:
        promise = self._living(session)
        promise.expires_at = self._clock.now() + session.ttl_s
        return frozenset((lease.unit, lease.epoch) for lease in self._leases.values() if lease.is_of(session))

    async def announce(self, session: Session, member: Member) -> None:
        promise = self._living(session)
        if promise.member != member:
            promise.member = member
            self._tell(MemberChanged(member))

    async def end_session(self, session: Session) -> None:
        self._sweep()
        promise = self._promises.get((session.role, session.node))
        if promise is not None and promise.session == session:
            self._end(promise)

    async def sessions(self) -> list[SessionInfo]:
        self._sweep()
        now = self._clock.now()
        return [
            SessionInfo(role, node, promise.member.address, promise.expires_at - now)
            for (role, node), promise in sorted(self._promises.items())
        ]

    async def sweep(self) -> None:
        self._sweep()

    def _sweep(self) -> None:
        now = self._clock.now()
        for promise in [p for p in self._promises.values() if p.expires_at <= now]:
            self._end(promise)

    def _living(self, session: Session) -> _Promise:
        self._sweep()
        promise = self._promises.get((session.role, session.node))
        if promise is None or promise.session != session:
            raise Fenced(f"the {session.role} session of node {session.node!r} has ended: open a new one")
        return promise

    def _end(self, promise: _Promise) -> None:
        session = promise.session
        del self._promises[session.role, session.node]
        if session.role is SessionRole.MEMBER:
            self._tell(MemberGone(session.node))
            return
        for lease in [lease for lease in self._leases.values() if lease.is_of(session)]:
            self._drop(lease)
        self._withdraw(session.node)

    # -- leases -----------------------------------------------------------------------------------------------------

    async def claim(self, session: Session, unit: Unit) -> Lease:
        if self.space.is_auctioned:  # OWN-2
            raise Invalid(f"units of {self.space.name!r} are won at auction: place a bid for {str(unit)!r} instead")
        self._living(session)
        if (held := self._leases.get(unit)) is not None:
            raise Conflict(f"{str(unit)!r} is held by {held.node!r}")
        if (wait_s := self._grants_from - self._clock.now()) > 0:
            raise Throttled("the store may have forgotten leases that still stand", retry_after_s=wait_s)
        return self._grant(unit, session)

    async def set_state(self, session: Session, unit: Unit, epoch: int, state: LeaseState) -> Lease:
        self._living(session)
        if (lease := self._held(session, unit, epoch)) is None:
            raise Fenced(f"{str(unit)!r} is not held by {session.node!r} at epoch {epoch}")
        if lease.state is not state:
            lease = self._leases[unit] = replace(lease, state=state)
            self._tell(LeaseChanged(lease))
        return lease

    async def release(self, session: Session, unit: Unit, epoch: int) -> bool:
        self._sweep()
        if (lease := self._held(session, unit, epoch)) is None:
            return False
        self._drop(lease)
        return True

    async def hand_off(self, session: Session, unit: Unit, epoch: int, to: Unit) -> Lease | None:
        self._sweep()
        lease, ready_successor = self._held(session, unit, epoch), self._leases.get(to)
        if (
            lease is None
            or ready_successor is None
            or ready_successor.state is not LeaseState.READY
            or to not in unit.siblings()
        ):
            return None
        self._drop(lease)
        granted = self._grant(unit, self._promises[SessionRole.HOLDER, ready_successor.node].session, LeaseState.READY)
        self._drop(
            ready_successor
        )  # told last: at no point does the ready_successor think that it holds nothing of the unit
        return granted

    def _held(self, session: Session, unit: Unit, epoch: int) -> Lease | None:
        lease = self._leases.get(unit)
        return lease if lease is not None and lease.is_of(session) and lease.epoch == epoch else None

    def _grant(self, unit: Unit, session: Session, state: LeaseState = LeaseState.WARMING) -> Lease:
        assert unit not in self._leases  # OWN-1
        epoch = self._epochs[unit] = self._epochs.get(unit, 0) + 1
        lease = Lease(unit, session.node, session.address, session.token, epoch, state)
        self._leases[unit] = lease
        self._tell(LeaseChanged(lease))
        return lease

    def _drop(self, lease: Lease) -> None:
        del self._leases[lease.unit]
        self._tell(LeaseGone(lease.unit, lease.epoch))

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
        self._living(session)
        if self._is_bound(session.node):  # OWN-3
            return BidResult(BidOutcome.ALREADY_PENDING)
        if free_bytes < min_bytes:
            return BidResult(BidOutcome.BELOW_MINIMUM)
        if unit in self._leases or self._holds_rival(session.node, unit):
            return BidResult(BidOutcome.NOT_OPEN)
        self._withdraw(session.node)
        has_opened = unit not in self._sales
        sale = self._open_sale(unit, max_bids, window_s) if has_opened else self._sales[unit]
        self._sequence += 1
        sale.bids[session.node] = Bid(session.node, session.address, session.token, free_bytes, self._sequence)
        self._pending[session.node] = unit
        return BidResult(BidOutcome.PLACED, has_opened, len(sale.bids) >= sale.max_bids, sale.max_bids)

    async def close_auction(self, unit: Unit) -> CloseResult:
        self._sweep()
        now = self._clock.now()
        if (sale := self._sales.get(unit)) is None:
            return CloseResult(CloseOutcome.ALREADY_CLOSED)
        is_full = len(sale.bids) >= sale.max_bids
        due_at = max(now if is_full else sale.closes_at, self._grants_from)
        if now < due_at:
            return CloseResult(CloseOutcome.NOT_DUE, wait_s=due_at - now)
        winner = next((bid for bid in rank(sale.bids.values()) if self._may_win(bid, unit)), None)
        self._clear(sale)
        lease = None if winner is None else self._grant(unit, self._promises[SessionRole.HOLDER, winner.node].session)
        self._tell(AuctionClosed(unit, sale.id, None if winner is None else winner.node))
        outcome = CloseOutcome.NO_WINNER if lease is None else CloseOutcome.WON
        return CloseResult(outcome, lease, len(sale.bids), is_full and now < sale.closes_at, now - sale.opened_at)

    async def push_max_bids(self, max_bids: int | None) -> None:
        if max_bids is not None:
            max_bids = threshold(max_bids, 0)
        self._max_bids = max_bids
        self._tell(MaxBidsChanged(max_bids))

    def _open_sale(self, unit: Unit, max_bids: int | None, window_s: float) -> _AuctionState:
        # A crashed node's two sessions end at different times: whose leases have fallen will not bid either.
        bidding = sum(
            promise.member.is_bidding and (SessionRole.HOLDER, node) in self._promises
            for (role, node), promise in self._promises.items()
            if role is SessionRole.MEMBER
        )
        now = self._clock.now()
        self._sequence += 1
        sale = _AuctionState(unit, self._sequence, threshold(max_bids, bidding), now, now + window_s)
        self._sales[unit] = sale
        self._tell(AuctionOpened(self._auction(sale)))
        return sale

    def _is_bound(self, node: str) -> bool:
        unit = self._pending.get(node)
        return unit is not None and self._clock.now() < self._sales[unit].closes_at + PENDING_BUFFER_S

    def _withdraw(self, node: str) -> None:
        """Takes a bid back with its mark: a node that bid twice could win twice."""
        if (unit := self._pending.pop(node, None)) is not None:
            del self._sales[unit].bids[node]

    def _auction(self, sale: _AuctionState) -> Auction:
        return Auction(sale.unit, sale.id, sale.max_bids, max(0.0, sale.closes_at - self._clock.now()))

    def _may_win(self, bid: Bid, unit: Unit) -> bool:
        promise = self._promises.get((SessionRole.HOLDER, bid.node))
        is_alive = promise is not None and promise.session.token == bid.token
        return is_alive and unit not in self._leases and not self._holds_rival(bid.node, unit)

    def _holds_rival(self, node: str, unit: Unit) -> bool:
        return any((held := self._leases.get(rival)) is not None and held.node == node for rival in rivals(unit))

    def _clear(self, sale: _AuctionState) -> None:
        """OWN-6: with the auction go its bids and every pending mark."""
        del self._sales[sale.unit]
        for node in sale.bids:
            del self._pending[node]

    # -- watching ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        self._sweep()
        members = (p.member for (role, _), p in sorted(self._promises.items()) if role is SessionRole.MEMBER)
        auctions = (self._auction(sale) for sale in self._sales.values())
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
        """Nothing to let go of: the store lives in this process."""

    def pending_marks(self) -> dict[str, Unit]:
        """Which node waits for which auction's end: for tests and checkers."""
        return dict(self._pending)

    def expiry(self, role: SessionRole, node: str) -> float | None:
        """When a node's promise runs out, in this store's time: for checkers."""
        promise = self._promises.get((role, node))
        return None if promise is None else promise.expires_at

    def _tell(self, fact: WatchEvent) -> None:
        for observer in self.observers:
            observer(fact)
        for watcher in self._watchers:
            watcher.put(fact)


class _Watcher:
    """One watcher's backlog, which is bounded."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._facts: deque[WatchEvent] = deque([snapshot])
        self._arrived = asyncio.Event()
        self.has_fallen_behind = False

    def put(self, fact: WatchEvent) -> None:
        if len(self._facts) >= WATCH_BACKLOG_MAX:
            self._facts.clear()
            self.has_fallen_behind = True
        if not self.has_fallen_behind:
            self._facts.append(fact)
        self._arrived.set()

    def replace(self, snapshot: Snapshot) -> None:
        self._facts = deque([snapshot])
        self.has_fallen_behind = False
        self._arrived.set()

    async def wait(self) -> None:
        while not self._facts and not self.has_fallen_behind:
            self._arrived.clear()
            await self._arrived.wait()

    def take(self) -> WatchEvent:
        return self._facts.popleft()
