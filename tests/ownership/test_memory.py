"""Behaviour of the memory store alone: grace after data loss, lagging watchers, observers, and pending markers."""

from contextlib import aclosing
from typing import Any

import pytest

from argosy.base.clock import seeded_random
from argosy.base.errors import Conflict, Fenced, Throttled
from argosy.ownership.backends.memory import WATCH_BACKLOG_MAX, MemoryOwnershipStore
from argosy.ownership.events import AuctionOpened, LeaseChanged, LeaseGone, MaxBidsChanged, MemberChanged, Snapshot
from argosy.ownership.model import (
    PENDING_BUFFER_S,
    BidOutcome,
    CloseOutcome,
    LeaseState,
    Session,
    SessionRole,
    Space,
    Unit,
)
from tests.ownership.builders import member

A = Unit("a")


class Hand:
    """A clock turned by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def wall(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds


@pytest.fixture
def clock() -> Hand:
    return Hand()


def store_of(clock: Hand, *, is_auctioned: bool = False, grace_s: float = 0.0) -> MemoryOwnershipStore:
    return MemoryOwnershipStore(Space("repos", is_auctioned), clock=clock, random=seeded_random(1), grace_s=grace_s)


async def holder(store: MemoryOwnershipStore, node: str = "n1", ttl_s: float = 30.0) -> Session:
    return await store.open_session(SessionRole.HOLDER, member(node), ttl_s=ttl_s)


async def test_a_session_ends_at_the_instant_its_time_is_up(clock: Hand) -> None:
    store = store_of(clock)
    session = await holder(store)
    await store.claim(session, A)
    clock.at = 29.999
    await store.sweep()
    assert store.expiry(SessionRole.HOLDER, "n1") == 30.0
    assert store.snapshot().leases
    clock.at = 30.0
    assert store.snapshot().leases == ()
    assert store.expiry(SessionRole.HOLDER, "n1") is None
    with pytest.raises(Fenced, match="has ended"):
        await store.renew(session)


async def test_a_namesake_learns_where_the_other_is_and_how_long_to_wait(clock: Hand) -> None:
    store = store_of(clock)
    await holder(store)
    clock.at = 10.0
    with pytest.raises(Conflict, match=r"'n1' is in use at 'http://n1'.* another id, or wait 20\.0 s"):
        await holder(store)


async def test_after_data_loss_a_store_grants_nothing_during_the_grace_period(clock: Hand) -> None:
    store = store_of(clock, grace_s=30.0)
    clock.at = 100.0
    first = (await store.claim(await holder(store), A)).epoch
    store.lose_everything()
    session = await holder(store)
    with pytest.raises(Throttled) as refused:
        await store.claim(session, A)
    assert refused.value.retry_after_s == 30.0
    clock.at = 129.0
    await store.renew(session)
    clock.at = 130.0
    assert (await store.claim(session, A)).epoch > first


async def test_after_data_loss_a_store_resets_its_watchers(clock: Hand) -> None:
    store = store_of(clock)
    await store.claim(await holder(store), A)
    async with aclosing(store.watch()) as stream:  # type: ignore[type-var]
        assert len((await anext(stream)).leases) == 1  # type: ignore[union-attr]
        store.lose_everything()
        assert await anext(stream) == Snapshot()


async def test_an_auction_full_within_the_grace_is_closed_after_it(clock: Hand) -> None:
    store = store_of(clock, is_auctioned=True, grace_s=10.0)
    session = await holder(store)
    await store.place_bid(session, A, free_bytes=1, min_bytes=0, max_bids=1, window_s=60.0)
    closing = await store.close_auction(A)
    assert (closing.outcome, closing.wait_s) == (CloseOutcome.NOT_DUE, 10.0)
    clock.at = 10.0
    assert (await store.close_auction(A)).outcome is CloseOutcome.WON


async def test_a_lagging_watcher_gets_a_snapshot_instead(clock: Hand) -> None:
    store = store_of(clock)
    async with aclosing(store.watch()) as stream:  # type: ignore[type-var]
        assert isinstance(await anext(stream), Snapshot)
        for number in range(WATCH_BACKLOG_MAX + 5):
            await store.push_max_bids(number % 7 + 1)
        assert await anext(stream) == store.snapshot()
        await store.push_max_bids(3)
        assert await anext(stream) == MaxBidsChanged(3)


async def test_a_watcher_that_ended_is_removed(clock: Hand) -> None:
    store = store_of(clock)
    async with aclosing(store.watch()) as stream:  # type: ignore[type-var]
        await anext(stream)
        assert len(store._watchers) == 1
    assert store._watchers == []


async def test_observers_see_each_event_in_the_same_instant(clock: Hand) -> None:
    store, received = store_of(clock), []
    store.observers.append(lambda event: received.append((clock.at, event)))
    clock.at = 5.0
    lease = await store.claim(await holder(store), A)
    clock.at = 6.0
    await store.open_session(SessionRole.MEMBER, member("n2"), ttl_s=30.0)
    assert received == [(5.0, LeaseChanged(lease)), (6.0, MemberChanged(member("n2")))]


async def test_a_handoff_is_published_so_that_the_successor_always_holds_something(clock: Hand) -> None:
    store, received = store_of(clock), []
    old, ready_successor = await holder(store, "n1"), await holder(store, "n2")
    slot = Unit("a", -1)
    lease = await store.claim(old, A)
    standby = await store.claim(ready_successor, slot)
    await store.set_state(ready_successor, slot, standby.epoch, LeaseState.READY)
    store.observers.append(received.append)
    granted = await store.hand_off(old, A, lease.epoch, slot)
    assert granted is not None
    assert (granted.node, granted.state, granted.epoch > lease.epoch) == ("n2", LeaseState.READY, True)
    assert received == [LeaseGone(A, lease.epoch), LeaseChanged(granted), LeaseGone(slot, standby.epoch)]


async def test_pending_marks_are_those_of_running_auctions(clock: Hand) -> None:
    store, received = store_of(clock, is_auctioned=True), []
    store.observers.append(received.append)
    session = await holder(store)
    how: dict[str, Any] = {"min_bytes": 0, "max_bids": 2, "window_s": 60.0}
    await store.place_bid(session, A, free_bytes=1, **how)
    assert store.pending_marks() == {"n1": A}
    assert [event.auction.closes_in_s for event in received if isinstance(event, AuctionOpened)] == [60.0]
    await store.end_session(session)
    assert store.pending_marks() == {}


async def test_a_pending_marker_expires_with_its_bid_although_no_node_closes_the_auction(clock: Hand) -> None:
    store = store_of(clock, is_auctioned=True)
    session = await holder(store, ttl_s=600.0)
    how: dict[str, Any] = {"min_bytes": 0, "max_bids": 2, "window_s": 60.0}
    await store.place_bid(session, A, free_bytes=1, **how)
    clock.at = 60.0 + PENDING_BUFFER_S - 0.1
    assert (await store.place_bid(session, Unit("b"), free_bytes=1, **how)).outcome is BidOutcome.ALREADY_PENDING
    clock.at = 60.0 + PENDING_BUFFER_S
    assert (await store.place_bid(session, Unit("b"), free_bytes=1, **how)).outcome is BidOutcome.PLACED
    assert store.pending_marks() == {"n1": Unit("b")}
    assert (await store.close_auction(A)).outcome is CloseOutcome.NO_WINNER
