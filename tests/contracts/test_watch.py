"""Watching, on every backend: a snapshot, then every event in order, with no silent loss."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from argosy.base.errors import ArgosyError
from argosy.ownership.backends.memory import MemoryOwnershipStore
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
from argosy.ownership.model import Lease, LeaseState, Member, Session, SessionRole, Space, Unit
from argosy.ownership.ports import OwnershipStore
from tests.contracts.conftest import ServerBackend
from tests.contracts.stage import (
    AUCTIONED,
    CLAIMED,
    CLOCK,
    SHORT_TTL_S,
    TTL_S,
    WINDOW_S,
    OpenStore,
    View,
    bid,
    eventually,
    holder,
    member,
    snapshot,
    watch_store,
)

UNIT = Unit("example/repo")
STEPS = 120
SEEDS = range(4)


async def test_a_watch_starts_with_a_snapshot(open_store: OpenStore) -> None:
    store, other = await open_store(AUCTIONED), await open_store(AUCTIONED)
    await member(store, "n1")
    session = await holder(store, "n1")
    await store.push_max_bids(4)
    await bid(store, session, UNIT, max_bids=1)
    lease = (await store.close_auction(UNIT)).lease
    await bid(store, session, Unit("another"), max_bids=9)
    state = await snapshot(other)
    assert state.leases == (lease,)
    assert state.members == (Member("n1", "http://n1"),)
    assert [(auction.unit, auction.max_bids) for auction in state.auctions] == [(Unit("another"), 9)]
    assert state.max_bids == 4


async def test_every_change_is_delivered_in_order(open_store: OpenStore) -> None:
    store, other = await open_store(AUCTIONED), await open_store(AUCTIONED)
    async with watch_store(other) as watcher:
        as_member, session = await member(store, "n1"), await holder(store, "n1")
        quiet = Member("n1", "http://n1", is_bidding=False)
        await store.announce(as_member, quiet)
        await store.announce(as_member, quiet)
        await bid(store, session, UNIT, max_bids=1)
        lease = (await store.close_auction(UNIT)).lease
        assert lease is not None
        ready = await store.set_state(session, UNIT, lease.epoch, LeaseState.READY)
        await store.release(session, UNIT, lease.epoch)
        await store.end_session(as_member)
        await watcher.wait_caught_up(store, 7)
        first, member_joined, stopped_bidding, auction_opened, *rest = watcher.events
    assert first == Snapshot()
    assert (member_joined, stopped_bidding) == (MemberChanged(Member("n1", "http://n1")), MemberChanged(quiet))
    assert isinstance(auction_opened, AuctionOpened)
    assert (auction_opened.auction.unit, auction_opened.auction.max_bids) == (UNIT, 1)
    assert 0 < auction_opened.auction.closes_in_s <= WINDOW_S
    assert rest == [
        LeaseChanged(lease),
        AuctionClosed(UNIT, auction_opened.auction.id, "n1"),
        LeaseChanged(ready),
        LeaseGone(UNIT, lease.epoch),
        MemberGone("n1"),
        MaxBidsChanged(7),
    ]


async def test_an_auction_without_a_winner_is_delivered(open_store: OpenStore) -> None:
    store = await open_store(AUCTIONED)
    async with watch_store(store) as watcher:
        session = await holder(store, "n1")
        await bid(store, session, UNIT, window_s=0.1, max_bids=5)
        await store.end_session(session)
        await eventually(lambda: _is_closed(store))
        await watcher.wait_caught_up(store, 7)
        assert [event.winner for event in watcher.events if isinstance(event, AuctionClosed)] == [None]


async def test_the_expiry_of_a_silent_node_is_delivered(open_store: OpenStore) -> None:
    """ "Node crash: lease expiry allows another node to claim and reindex." """
    store, other = await open_store(CLAIMED), await open_store(CLAIMED)
    async with watch_store(other) as watcher:
        await member(store, "n1", ttl_s=SHORT_TTL_S)
        session = await holder(store, "n1", ttl_s=SHORT_TTL_S)
        leases = [await store.claim(session, Unit(f"u{n}")) for n in range(3)]
        await watcher.wait_until(lambda view: len(view.leases) == 3)
        await eventually(lambda: _is_empty(other))
        await watcher.wait_until(lambda view: not view.leases and not view.members)
        ended = {event for event in watcher.events if isinstance(event, LeaseGone)}
    assert ended == {LeaseGone(lease.unit, lease.epoch) for lease in leases}


async def test_a_handoff_is_delivered_as_one_event(open_store: OpenStore) -> None:
    store = await open_store(CLAIMED)
    old, new = await holder(store, "n1"), await holder(store, "n2")
    slot = Unit(UNIT.name, 1)
    lease, waiting = await store.claim(old, UNIT), await store.claim(new, slot)
    await store.set_state(new, slot, waiting.epoch, LeaseState.READY)
    async with watch_store(store) as watcher:
        given = await store.hand_off(old, UNIT, lease.epoch, slot)
        assert given is not None
        await watcher.wait_caught_up(store, 7)
        assert watcher.view.leases == {UNIT: given}
        # At no point does the successor believe that it holds nothing of the unit.
        assert watcher.events.index(LeaseChanged(given)) < watcher.events.index(LeaseGone(slot, waiting.epoch))


async def test_two_watchers_see_the_same(open_store: OpenStore) -> None:
    store, other = await open_store(AUCTIONED), await open_store(AUCTIONED)
    async with watch_store(store) as one, watch_store(other) as two:
        sessions = [await holder(store, f"n{n}") for n in range(6)]
        await asyncio.gather(*(bid(store, each, Unit(f"u{n % 3}"), max_bids=2) for n, each in enumerate(sessions)))
        await asyncio.gather(*(each.close_auction(Unit(f"u{n}")) for n in range(3) for each in (store, other)))
        await one.wait_caught_up(store, 7)
        await two.wait_until(lambda view: view.max_bids == 7)
        assert len(one.view.leases) == 3
        assert [timeless(event) for event in one.events] == [timeless(event) for event in two.events]


def timeless(event: WatchEvent) -> WatchEvent:
    """An event without the time that remained when it was received."""
    return AuctionOpened(replace(event.auction, closes_in_s=0.0)) if isinstance(event, AuctionOpened) else event


@pytest.mark.parametrize("backend", ["valkey", "etcd"], indirect=True)
async def test_a_watch_resumes_after_a_server_restart(open_store: OpenStore, backend: ServerBackend) -> None:
    """ "robust to indexer restarts", and to restarts of the store."""
    store, other = await open_store(CLAIMED), await open_store(CLAIMED)
    session = await holder(store, "n1")
    before = await store.claim(session, UNIT)
    async with watch_store(other) as watcher:
        await asyncio.to_thread(backend.restart)
        await eventually(lambda: _try_claim(store, session, Unit("later")))
        await store.release(session, UNIT, before.epoch)
        await watcher.wait_caught_up(store, 7)
        assert set(watcher.view.leases) == {Unit("later")}
        fresh = View()
        fresh.apply(await snapshot(store))
        assert watcher.view == fresh


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("space", [AUCTIONED, CLAIMED], ids=lambda space: space.name)
async def test_the_events_add_up_to_the_state(open_store: OpenStore, space: Space, seed: int) -> None:
    store, other = await open_store(space), await open_store(space)
    async with watch_store(other) as watcher:
        actor = Actor(store)
        for step in plan(seed):
            await actor.perform(step)
        await watcher.wait_caught_up(store, 99)
        fresh = View()
        fresh.apply(await snapshot(other))
        assert watcher.view == fresh
        assert [event for event in watcher.events if isinstance(event, Snapshot)] == watcher.events[:1]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("space", [AUCTIONED, CLAIMED], ids=lambda space: space.name)
async def test_a_random_history_has_the_results_of_the_memory_store(
    open_store: OpenStore, space: Space, seed: int
) -> None:
    """ "The implementation supports both a Redis-backed mode […] and an in-memory fallback for tests." """
    actor = Actor(await open_store(space))
    memory_actor = Actor(MemoryOwnershipStore(space, clock=CLOCK, random=Random(seed)))
    for number, step in enumerate(plan(seed)):
        assert await actor.perform(step) == await memory_actor.perform(step), f"step {number}: {step}"


# -- random histories -------------------------------------------------------------------------------------------------

NODES = ("n1", "n2", "n|3", "n4")
UNITS = (Unit("a"), Unit("a", 1), Unit("b"), Unit("b", -1), Unit("c:1"))
Step = tuple[str, str, Unit, int]


def plan(seed: int) -> list[Step]:
    random = Random(seed)
    kinds = list(STEPS_BY_NAME)
    return [
        (random.choice(kinds), random.choice(NODES), random.choice(UNITS), random.randrange(1, 4)) for _ in range(STEPS)
    ]


@dataclass
class Actor:
    """Runs steps on one store, and describes each result without the store's own numbers."""

    store: OwnershipStore
    sessions: dict[tuple[SessionRole, str], Session] = field(default_factory=dict)
    epochs: dict[Unit, int] = field(default_factory=dict)

    async def perform(self, step: Step) -> object:
        kind, node, unit, number = step
        try:
            return await STEPS_BY_NAME[kind](self, node, unit, number)
        except ArgosyError as error:
            return type(error).__name__

    async def _join(self, node: str, unit: Unit, number: int) -> object:
        return await self._open(SessionRole.MEMBER, node)

    async def _open(self, role: SessionRole, node: str) -> object:
        self.sessions[role, node] = await self.store.open_session(role, Member(node, f"http://{node}"), ttl_s=TTL_S)
        return "opened"

    async def _session(self, role: SessionRole, node: str) -> Session:
        if (role, node) not in self.sessions:
            await self._open(role, node)
        return self.sessions[role, node]

    async def _end(self, node: str, unit: Unit, number: int) -> object:
        role = SessionRole.MEMBER if number > 1 else SessionRole.HOLDER
        if (session := self.sessions.pop((role, node), None)) is not None:
            await self.store.end_session(session)
        return session is not None

    async def _announce(self, node: str, unit: Unit, number: int) -> object:
        session = await self._session(SessionRole.MEMBER, node)
        await self.store.announce(session, Member(node, f"http://{node}", is_bidding=number > 1))
        return "announced"

    async def _claim(self, node: str, unit: Unit, number: int) -> object:
        return self._describe(await self.store.claim(await self._session(SessionRole.HOLDER, node), unit))

    async def _state(self, node: str, unit: Unit, number: int) -> object:
        session = await self._session(SessionRole.HOLDER, node)
        state = list(LeaseState)[number - 1]
        return self._describe(await self.store.set_state(session, unit, self.epochs.get(unit, 0), state))

    async def _release(self, node: str, unit: Unit, number: int) -> object:
        session = await self._session(SessionRole.HOLDER, node)
        return await self.store.release(session, unit, self.epochs.get(unit, 0) + number // 3)

    async def _handoff(self, node: str, unit: Unit, number: int) -> object:
        session, to = await self._session(SessionRole.HOLDER, node), Unit(unit.name, 1 if unit.replica == 0 else 0)
        lease = await self.store.hand_off(session, unit, self.epochs.get(unit, 0), to)
        return lease and self._describe(lease)

    async def _bid(self, node: str, unit: Unit, number: int) -> object:
        session = await self._session(SessionRole.HOLDER, node)
        max_bids = None if number == 3 else number
        return await bid(self.store, session, unit, number * 100, min_bytes=50, max_bids=max_bids)

    async def _close(self, node: str, unit: Unit, number: int) -> object:
        closing = await self.store.close_auction(unit)
        lease = closing.lease and self._describe(closing.lease)
        return closing.outcome, closing.bids, closing.is_short_circuit, lease

    async def _push(self, node: str, unit: Unit, number: int) -> object:
        await self.store.push_max_bids(None if number == 3 else number)
        return "pushed"

    async def _list(self, node: str, unit: Unit, number: int) -> object:
        return [(info.role, info.node, info.address) for info in await self.store.sessions()]

    def _describe(self, lease: Lease) -> object:
        assert lease.epoch >= self.epochs.get(lease.unit, 0)
        self.epochs[lease.unit] = lease.epoch
        return lease.unit, lease.node, lease.address, lease.state


STEPS_BY_NAME: dict[str, Callable[[Actor, str, Unit, int], Awaitable[object]]] = {
    "join": Actor._join,
    "end": Actor._end,
    "announce": Actor._announce,
    "claim": Actor._claim,
    "state": Actor._state,
    "release": Actor._release,
    "hand off": Actor._handoff,
    "bid": Actor._bid,
    "bid again": Actor._bid,
    "close": Actor._close,
    "close again": Actor._close,
    "push": Actor._push,
    "list": Actor._list,
}


async def _is_closed(store: OwnershipStore) -> bool:
    await store.close_auction(UNIT)
    return not (await snapshot(store)).auctions


async def _is_empty(store: OwnershipStore) -> bool:
    await store.sweep()
    return not await store.sessions()


async def _try_claim(store: OwnershipStore, session: Session, unit: Unit) -> bool:
    return (await store.claim(session, unit)).unit == unit
