"""Shared by the contract tests of ownership: sessions, retries with a deadline, and a watcher that records events."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, cast

from argosy.base.clock import SystemClock
from argosy.base.errors import Fenced, Unavailable
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
    BidResult,
    CloseOutcome,
    CloseResult,
    Lease,
    Member,
    Session,
    SessionRole,
    Space,
    Unit,
)
from argosy.ownership.ports import OwnershipStore

T = TypeVar("T")

CLOCK = SystemClock()
AUCTIONED = Space("repos", is_auctioned=True)
CLAIMED = Space("shards", is_auctioned=False)

TTL_S = 60.0  # outlives the test
SHORT_TTL_S = 1.0  # expires within the test; etcd's minimum
WINDOW_S = 60.0  # an auction that ends within the test only when it is full
SHORT_WINDOW_S = 0.2
PATIENCE_S = 20.0
POLL_S = 0.02


class OpenStore(Protocol):
    """Opens one more client of this test's store, as a second node does."""

    async def __call__(self, space: Space, grace_s: float = 0.0) -> OwnershipStore: ...


async def eventually(poll: Callable[[], Awaitable[T]], *, condition: Callable[[T], bool] = bool) -> T:
    """Poll until the condition holds, within PATIENCE_S; an unreachable store is retried."""
    last_result: object = None
    deadline = CLOCK.now() + PATIENCE_S
    while CLOCK.now() < deadline:
        try:
            last_result = await poll()
            if condition(last_result):
                return last_result
        except Fenced:
            raise
        except Unavailable as error:
            last_result = error
        await CLOCK.sleep(POLL_S)
    raise AssertionError(f"condition not reached within {PATIENCE_S} s; last result: {last_result}")


async def member(store: OwnershipStore, node: str, *, is_bidding: bool = True, ttl_s: float = TTL_S) -> Session:
    return await store.open_session(SessionRole.MEMBER, Member(node, f"http://{node}", is_bidding), ttl_s=ttl_s)


async def holder(store: OwnershipStore, node: str, *, ttl_s: float = TTL_S) -> Session:
    return await store.open_session(SessionRole.HOLDER, Member(node, f"http://{node}"), ttl_s=ttl_s)


async def bid(
    store: OwnershipStore,
    session: Session,
    unit: Unit,
    free_bytes: int = 100,
    *,
    min_bytes: int = 0,
    max_bids: int | None = None,
    window_s: float = WINDOW_S,
) -> BidResult:
    return await store.place_bid(
        session, unit, free_bytes=free_bytes, min_bytes=min_bytes, max_bids=max_bids, window_s=window_s
    )


async def close_when_due(store: OwnershipStore, unit: Unit) -> CloseResult:
    """Close an auction as soon as it is due."""
    return await eventually(
        lambda: store.close_auction(unit), condition=lambda closing: closing.outcome is not CloseOutcome.NOT_DUE
    )


async def win_lease(store: OwnershipStore, session: Session, unit: Unit) -> Lease:
    """A lease won at an auction with one bidder, the only way to a first lease."""
    await bid(store, session, unit, max_bids=1)
    closing = await close_when_due(store, unit)
    assert closing.lease is not None
    return closing.lease


async def snapshot(store: OwnershipStore) -> Snapshot:
    async with aclosing(cast("ClosableWatch", store.watch())) as stream:
        first = await anext(stream)
    assert isinstance(first, Snapshot)
    return first


async def holders(store: OwnershipStore) -> dict[Unit, str]:
    return {lease.unit: lease.node for lease in (await snapshot(store)).leases}


async def live_nodes(store: OwnershipStore) -> set[tuple[SessionRole, str]]:
    return {(info.role, info.node) for info in await store.sessions()}


class ClosableWatch(Protocol):
    """`watch` promises an iterator; all stores return a generator, which a test can close."""

    def __aiter__(self) -> AsyncIterator[WatchEvent]: ...
    async def __anext__(self) -> WatchEvent: ...
    async def aclose(self) -> None: ...


@dataclass
class View:
    """The state known to a watcher: the fold of all events, without times."""

    leases: dict[Unit, Lease] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    auctions: dict[Unit, tuple[int, int]] = field(default_factory=dict)
    max_bids: int | None = None

    def apply(self, event: WatchEvent) -> None:
        match event:
            case Snapshot(leases, members, auctions, max_bids):
                self.leases = {lease.unit: lease for lease in leases}
                self.members = {each.node: each for each in members}
                self.auctions = {auction.unit: (auction.id, auction.max_bids) for auction in auctions}
                self.max_bids = max_bids
            case LeaseChanged(lease):
                self.leases[lease.unit] = lease
            case LeaseGone(unit, epoch):
                assert self.leases.pop(unit).epoch == epoch
            case MemberChanged(each):
                self.members[each.node] = each
            case MemberGone(node):
                del self.members[node]
            case AuctionOpened(auction):
                self.auctions[auction.unit] = (auction.id, auction.max_bids)
            case AuctionClosed(unit, number, _):
                assert self.auctions.pop(unit)[0] == number
            case MaxBidsChanged(max_bids):
                self.max_bids = max_bids


class Watcher:
    """Watches a store in the background and records every event."""

    def __init__(self) -> None:
        self.events: list[WatchEvent] = []
        self.view = View()
        self._arrived = asyncio.Event()

    async def listen(self, store: OwnershipStore) -> None:
        async with aclosing(cast("ClosableWatch", store.watch())) as stream:
            async for event in stream:
                self.events.append(event)
                self.view.apply(event)
                self._arrived.set()

    async def wait_until(self, condition: Callable[[View], bool]) -> None:
        """Wait until the known state satisfies the condition."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition(self.view):
                self._arrived.clear()
                await self._arrived.wait()

    async def wait_caught_up(self, store: OwnershipStore, mark: int) -> None:
        """Wait until everything up to now has been received: a pushed number goes through the same queue."""
        await eventually(lambda: _push_mark(store, mark))
        await self.wait_until(lambda view: view.max_bids == mark)


async def _push_mark(store: OwnershipStore, mark: int) -> bool:
    await store.push_max_bids(mark)
    return True


@asynccontextmanager
async def watch_store(store: OwnershipStore) -> AsyncIterator[Watcher]:
    """A watcher that has received its first snapshot."""
    watcher = Watcher()
    task = asyncio.create_task(watcher.listen(store))
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not watcher.events and not task.done():
                await CLOCK.sleep(POLL_S)
        yield watcher
    finally:
        task.cancel()
        failures = await asyncio.gather(task, return_exceptions=True)
    # Without this check a crashed watcher would let its test pass.
    assert all(isinstance(failure, asyncio.CancelledError) for failure in failures), failures
