"""The etcd store against a real server: what only etcd does its own way. The rest is in tests/contracts."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from argosy.base.clock import SystemClock, system_random
from argosy.base.errors import Conflict, Fenced, Throttled, Unavailable
from argosy.ownership.backends.etcd import EtcdStore
from argosy.ownership.backends.etcd_client.channel import CALL_DEADLINE_S
from argosy.ownership.model import (
    BIDS_MAX,
    SUCCESSOR,
    BidOutcome,
    BidResult,
    CloseOutcome,
    CloseResult,
    LeaseState,
    Member,
    Session,
    SessionRole,
    Space,
    Unit,
)
from tests.servers.etcd import Etcd, free_ports

AUCTIONED = Space("repos", is_auctioned=True)
CLAIMED = Space("shards", is_auctioned=False)
UNIT = Unit("https://forge/a/b")
TTL_S = 60.0
PATIENCE_S = 20.0
POLL_S = 0.02
CLOCK = SystemClock()

Opening = Callable[..., Awaitable[EtcdStore]]


@pytest.fixture(scope="module")
def etcd() -> Iterator[Etcd]:
    with Etcd() as server:
        yield server


@pytest.fixture
async def opening(etcd: Etcd) -> AsyncIterator[Opening]:
    namespace, stores = secrets.token_hex(4), list[EtcdStore]()

    async def open_one(space: Space = AUCTIONED, grace_s: float = 0.0, url: str = "") -> EtcdStore:
        store = await EtcdStore.open(
            url or etcd.url,
            space,
            clock=CLOCK,
            random=system_random(),
            grace_s=grace_s,
            namespace=namespace,
            connect_timeout_s=2.0,
        )
        stores.append(store)
        return store

    yield open_one
    for store in stores:
        await store.close()


async def holder(store: EtcdStore, node: str, ttl_s: float = TTL_S) -> Session:
    return await store.open_session(SessionRole.HOLDER, Member(node, f"http://{node}"), ttl_s=ttl_s)


async def bid(
    store: EtcdStore,
    session: Session,
    unit: Unit = UNIT,
    *,
    free_bytes: int = 1,
    max_bids: int = 100,
    window_s: float = 60.0,
) -> BidResult:
    return await store.place_bid(
        session, unit, free_bytes=free_bytes, min_bytes=0, max_bids=max_bids, window_s=window_s
    )


async def kinds(store: EtcdStore) -> set[str]:
    """The kinds of keys that are in the space just now."""
    kvs, _ = await store._client.list(store._keys.root)
    return {store._keys.split(kv.key)[0] for kv in kvs}


async def eventually(probe: Callable[[], Awaitable[Any]], is_so: Callable[[Any], bool]) -> Any:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so(seen := await probe()):
            await CLOCK.sleep(POLL_S)
    return seen


# -- sessions ---------------------------------------------------------------------------------------------------------


async def test_the_end_of_a_session_by_time_takes_leases_bids_and_pending_mark_along(opening: Opening) -> None:
    store = await opening()
    mortal, other = await holder(store, "mortal", ttl_s=1.0), await holder(store, "other")
    await bid(store, mortal, Unit("won"), max_bids=1)
    assert (await store.close_auction(Unit("won"))).outcome is CloseOutcome.WON
    await bid(store, mortal)
    assert await kinds(store) == {"meta", "holders", "leases", "auctions", "bids", "pending"}
    await eventually(lambda: kinds(store), lambda seen: seen == {"meta", "holders", "auctions"})
    with pytest.raises(Fenced):
        await store.renew(mortal)
    assert (await bid(store, other, max_bids=100)).outcome is BidOutcome.PLACED


async def test_a_session_that_is_rejected_leaves_no_etcd_lease_behind(etcd: Etcd, opening: Opening) -> None:
    store = await opening()
    await holder(store, "n")
    before = etcd.ctl("lease", "list")
    with pytest.raises(Conflict, match=r"'n' is in use at 'http://n'; .* wait [0-9.]+ s"):
        await holder(store, "n")
    assert etcd.ctl("lease", "list") == before


async def test_a_ttl_is_rounded_up_in_etcd_and_kept_as_it_is_by_the_node(opening: Opening) -> None:
    store = await opening()
    session = await holder(store, "n", ttl_s=2.5)
    assert session.ttl_s == 2.5
    assert [info.expires_in_s for info in await store.sessions()] in ([2.0], [3.0])


# -- leases -----------------------------------------------------------------------------------------------------------


async def test_a_handoff_is_one_revision_and_no_other_node_gets_in_between(opening: Opening) -> None:
    store = await opening(CLAIMED)
    successor_slot = Unit(UNIT.name, SUCCESSOR)
    nodes = [await holder(store, f"n{n}") for n in range(2)]
    thieves = [await holder(store, f"thief{n}") for n in range(4)]
    lease = await store.claim(nodes[0], UNIT)
    stolen, is_over = list[str](), False

    async def steal(thief: Session) -> None:
        while not is_over:
            try:
                stolen.append((await store.claim(thief, UNIT)).node)
            except Conflict:
                pass

    thefts = [asyncio.create_task(steal(thief)) for thief in thieves]
    for turn in range(50):
        old, ready_successor = nodes[turn % 2], nodes[(turn + 1) % 2]
        slot = await store.claim(ready_successor, successor_slot)
        assert await store.hand_off(old, UNIT, lease.epoch, successor_slot) is None, "the successor is not ready"
        await store.set_state(ready_successor, successor_slot, slot.epoch, LeaseState.READY)
        handed = await store.hand_off(old, UNIT, lease.epoch, successor_slot)
        assert handed is not None
        assert (handed.node, handed.state) == (ready_successor.node, LeaseState.READY)
        assert handed.epoch > max(lease.epoch, slot.epoch)
        assert not await store.release(old, UNIT, lease.epoch)
        lease = await store.set_state(ready_successor, UNIT, handed.epoch, LeaseState.DRAINING)
        assert lease.epoch == handed.epoch
    is_over = True
    await asyncio.gather(*thefts)
    assert not stolen


async def test_a_lease_that_was_handed_over_falls_with_its_new_holder_only(opening: Opening) -> None:
    store = await opening(CLAIMED)
    slot = Unit(UNIT.name, 1)
    old, ready_successor = await holder(store, "old"), await holder(store, "successor")
    lease, replica = await store.claim(old, UNIT), await store.claim(ready_successor, slot)
    await store.set_state(ready_successor, slot, replica.epoch, LeaseState.READY)
    assert await store.hand_off(old, UNIT, lease.epoch, slot) is not None
    await store.end_session(old)
    assert "leases" in await kinds(store)
    await store.end_session(ready_successor)
    assert "leases" not in await kinds(store)


# -- auctions ---------------------------------------------------------------------------------------------------------


async def test_of_many_closers_exactly_one_gets_the_winner(opening: Opening) -> None:
    stores = [await opening() for _ in range(8)]
    for n in range(5):
        await bid(stores[0], await holder(stores[0], f"n{n}"), free_bytes=n, max_bids=5)
    closings: list[CloseResult] = await asyncio.gather(*(store.close_auction(UNIT) for store in stores))
    won = [closing for closing in closings if closing.outcome is CloseOutcome.WON]
    assert len(won) == 1
    assert {closing.outcome for closing in closings if closing not in won} == {CloseOutcome.ALREADY_CLOSED}
    assert won[0].lease is not None
    assert (won[0].lease.node, won[0].bids, won[0].is_short_circuit) == ("n4", 5, True)
    assert await kinds(stores[0]) == {"meta", "holders", "leases"}


async def test_bids_placed_while_an_auction_closes_leave_no_pending_markers(opening: Opening) -> None:
    store = await opening()
    sessions = [await holder(store, f"n{n}") for n in range(40)]
    for turn in range(3):
        unit = Unit(f"u{turn}")
        await bid(store, sessions[0], unit, max_bids=1)
        results = await asyncio.gather(
            *(bid(store, session, unit, max_bids=1) for session in sessions[1:]),
            *(store.close_auction(unit) for _ in range(3)),
        )
        assert sum(isinstance(r, CloseResult) and r.outcome is CloseOutcome.WON for r in results) == 1
        # A pending marker exists only for a bid that is in some auction.
        kvs, _ = await store._client.list(store._keys.root)
        parts = [store._keys.split(kv.key) for kv in kvs]
        marks = {p[1] for p in parts if p[0] == "pending"}
        assert marks == {p[2] for p in parts if p[0] == "bids"}
        assert not marks


async def test_one_node_bidding_many_times_at_once_has_one_bid(opening: Opening) -> None:
    store = await opening()
    session = await holder(store, "n")
    receipts = await asyncio.gather(*(bid(store, session, Unit(f"u{n}")) for n in range(20)))
    outcomes = sorted(receipt.outcome for receipt in receipts)
    assert outcomes == [BidOutcome.ALREADY_PENDING] * 19 + [BidOutcome.PLACED]  # OWN-3


async def test_more_bids_than_one_transaction_deletes_are_all_deleted(opening: Opening) -> None:
    store = await opening()
    sessions = [await holder(store, f"n{n}") for n in range(BIDS_MAX + 40)]
    receipts = await asyncio.gather(*(bid(store, s, free_bytes=n) for n, s in enumerate(sessions)))
    assert sum(receipt.has_opened for receipt in receipts) == 1
    closing = await store.close_auction(UNIT)
    assert closing.lease is not None
    assert (closing.lease.node, closing.bids) == (f"n{BIDS_MAX + 39}", BIDS_MAX + 40)
    assert await kinds(store) == {"meta", "holders", "leases"}


async def test_each_closer_counts_the_window_from_when_it_first_saw_the_auction(opening: Opening) -> None:
    first, late = await opening(), await opening()
    await bid(first, await holder(first, "n"), window_s=0.4)
    await eventually(lambda: _wait_s(first), lambda wait_s: wait_s < 0.2)
    assert await _wait_s(late) == pytest.approx(0.4, abs=0.01)
    closing = await eventually(lambda: first.close_auction(UNIT), lambda c: c.outcome is not CloseOutcome.NOT_DUE)
    assert closing.outcome is CloseOutcome.WON
    assert closing.open_for_s >= 0.4
    assert not closing.is_short_circuit
    assert len(first._auction_clock) == 0


async def _wait_s(store: EtcdStore) -> float:
    return (await store.close_auction(UNIT)).wait_s


async def test_the_next_best_wins_when_the_winner_dies_while_the_auction_is_closed(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opening()
    best = await holder(store, "best")
    await bid(store, best, free_bytes=9, max_bids=2)
    for node, free_bytes in (("next", 5), ("third", 1)):  # one more than it takes, so it stays full
        await bid(store, await holder(store, node), free_bytes=free_bytes)
    settle = store._auctions._settle

    async def settle_too_late(*arguments: Any) -> Any:
        monkeypatch.undo()
        await store.end_session(best)
        return await settle(*arguments)

    monkeypatch.setattr(store._auctions, "_settle", settle_too_late)
    closing = await store.close_auction(UNIT)
    assert closing.lease is not None
    assert closing.lease.node == "next"
    assert await kinds(store) == {"meta", "holders", "leases"}


# -- a store without memory -------------------------------------------------------------------------------------------


async def test_a_new_store_grants_nothing_until_the_grace_is_over(opening: Opening) -> None:
    store = await opening(CLAIMED, grace_s=0.7)
    session = await holder(store, "n")
    with pytest.raises(Throttled) as caught:
        await store.claim(session, UNIT)
    assert 0 < caught.value.retry_after_s <= 2.0
    again = await opening(CLAIMED, grace_s=0.7)  # remembers, and starts no grace of its own

    async def claimed() -> bool:
        try:
            await again.claim(session, UNIT)
        except Throttled:
            return False
        return True

    await eventually(claimed, bool)
    assert "grace" not in await kinds(await opening(CLAIMED, grace_s=0.7))


async def test_a_wiped_store_is_noticed_by_the_next_grant_and_epochs_go_on_growing() -> None:
    with Etcd() as etcd:
        stores = [
            await EtcdStore.open(etcd.url, space, clock=CLOCK, random=system_random(), grace_s=grace_s)
            for space, grace_s in ((CLAIMED, 0.0), (AUCTIONED, 0.0))
        ]
        claimed, auctioned = stores
        epoch = (await claimed.claim(await holder(claimed, "n"), UNIT)).epoch
        await bid(auctioned, await holder(auctioned, "n"), max_bids=1)
        before = await auctioned.close_auction(UNIT)
        etcd.wipe()
        session = await eventually(lambda: _reopened(claimed), lambda found: found is not None)
        assert (await claimed.claim(session, UNIT)).epoch > epoch
        session = await holder(auctioned, "n")
        await bid(auctioned, session, max_bids=1)
        after = await auctioned.close_auction(UNIT)
        assert before.lease is not None
        assert after.lease is not None
        assert after.lease.epoch > before.lease.epoch
        for store in stores:
            await store.close()


async def _reopened(store: EtcdStore) -> Session | None:
    try:
        return await holder(store, "n")
    except Unavailable:
        return None


async def test_without_the_durability_marker_grants_wait(opening: Opening) -> None:
    claimed, auctioned = await opening(CLAIMED, grace_s=5.0), await opening(AUCTIONED, grace_s=5.0)
    for store in (claimed, auctioned):
        await store._client.delete(store._keys.grace)
        await store._client.delete(store._keys.meta)
    with pytest.raises(Throttled):
        await claimed.claim(await holder(claimed, "n"), UNIT)
    await bid(auctioned, await holder(auctioned, "n"), max_bids=1)
    closing = await auctioned.close_auction(UNIT)
    assert closing.outcome is CloseOutcome.NOT_DUE
    assert closing.wait_s > 3.0


# -- trouble ----------------------------------------------------------------------------------------------------------


async def test_an_unreachable_store_is_named_without_its_password(opening: Opening) -> None:
    one, two = free_ports(2)
    with pytest.raises(Unavailable) as caught:
        await opening(url=f"etcd://root:hunter2@127.0.0.1:{one},127.0.0.1:{two}")
    text = str(caught.value)
    assert f"etcd://root:***@127.0.0.1:{one},127.0.0.1:{two}" in text
    assert "refused the connection; check that etcd runs there" in text
    assert "hunter2" not in text


async def test_a_silent_server_is_unavailable_within_the_deadline(etcd: Etcd, opening: Opening) -> None:
    store = await opening(CLAIMED)
    session = await holder(store, "n", ttl_s=600)
    etcd.pause()
    try:
        began = time.monotonic()
        calls = (store.renew(session), store.claim(session, UNIT), store.sessions())
        failures = await asyncio.gather(*calls, return_exceptions=True)
        assert time.monotonic() - began < CALL_DEADLINE_S + 2.0
    finally:
        etcd.resume()
    for failure in failures:
        assert isinstance(failure, Unavailable)
        assert "timed out" in str(failure)
    assert await eventually(lambda: _renews(store, session), bool)


async def _renews(store: EtcdStore, session: Session) -> bool:
    try:
        await store.renew(session)
    except Unavailable:
        return False
    return True


async def test_a_closed_store_rejects_calls(opening: Opening) -> None:
    store = await opening()
    session = await holder(store, "n")
    await store.close()
    with pytest.raises(Unavailable, match="is closed"):
        await store.renew(session)
