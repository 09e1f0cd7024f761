"""Sessions, on every backend: registrations with a time to live."""

import pytest

from argosy.base.errors import Conflict, Fenced
from argosy.ownership.model import Member, SessionRole, Unit
from argosy.ownership.ports import OwnershipStore
from tests.contracts.stage import (
    AUCTIONED,
    CLAIMED,
    SHORT_TTL_S,
    TTL_S,
    OpenStore,
    bid,
    eventually,
    holder,
    holders,
    live_nodes,
    member,
    snapshot,
    watch_store,
    win_lease,
)

UNIT = Unit("example/repo")


async def test_an_open_session_is_listed_with_its_remaining_time(open_store: OpenStore) -> None:
    store = await open_store(CLAIMED)
    session = await holder(store, "n1")
    assert (session.role, session.node, session.address, session.ttl_s) == (
        SessionRole.HOLDER,
        "n1",
        "http://n1",
        TTL_S,
    )
    [info] = await store.sessions()
    assert (info.role, info.node, info.address) == (SessionRole.HOLDER, "n1", "http://n1")
    assert 0 < info.expires_in_s <= TTL_S


async def test_a_second_process_of_a_live_node_is_rejected(open_store: OpenStore) -> None:
    first, second = await open_store(CLAIMED), await open_store(CLAIMED)
    session = await holder(first, "n1")
    with pytest.raises(Conflict, match="'n1' is in use at 'http://n1'"):
        await holder(second, "n1")
    await first.renew(session)


async def test_each_run_of_a_node_has_its_own_token(open_store: OpenStore) -> None:
    store = await open_store(CLAIMED)
    first = await holder(store, "n1")
    await store.end_session(first)
    second = await holder(store, "n1")
    assert first.token != second.token
    with pytest.raises(Fenced):
        await store.renew(first)
    await store.renew(second)


async def test_a_member_and_a_holder_session_of_one_node_are_independent(open_store: OpenStore) -> None:
    store = await open_store(CLAIMED)
    as_member, as_holder = await member(store, "n1"), await holder(store, "n1")
    await store.claim(as_holder, UNIT)
    await store.end_session(as_member)
    assert await live_nodes(store) == {(SessionRole.HOLDER, "n1")}
    assert await holders(store) == {UNIT: "n1"}
    again = await member(store, "n1")
    await store.end_session(as_holder)
    assert await live_nodes(store) == {(SessionRole.MEMBER, "n1")}
    assert await holders(store) == {}
    await store.renew(again)


async def test_a_renewed_session_outlives_its_first_time_to_live(open_store: OpenStore) -> None:
    """ "Heartbeat: owner renews lease periodically (interval << TTL)." """
    store = await open_store(CLAIMED)
    other = await holder(store, "idle", ttl_s=SHORT_TTL_S)
    session = await holder(store, "n1", ttl_s=SHORT_TTL_S)
    lease = await store.claim(session, UNIT)

    async def only_the_other_has_ended() -> bool:
        await store.renew(session)
        return (SessionRole.HOLDER, other.node) not in await live_nodes(store)

    await eventually(only_the_other_has_ended)
    held = await store.renew(session)
    assert held is None or held == {(UNIT, lease.epoch)}
    assert await holders(store) == {UNIT: "n1"}


async def test_a_renewal_returns_the_stored_leases(open_store: OpenStore) -> None:
    store = await open_store(CLAIMED)
    session, other = await holder(store, "n1"), await holder(store, "n11")
    leases = [await store.claim(session, Unit(f"u{n}")) for n in range(5)]
    await store.claim(other, Unit("of another"))
    await store.release(session, leases[0].unit, leases[0].epoch)
    held = await store.renew(session)
    assert held is None or held == {(lease.unit, lease.epoch) for lease in leases[1:]}


async def test_all_leases_of_an_expired_session_end(open_store: OpenStore) -> None:
    """ "If lease expires the repo becomes claimable by others." """
    store, other = await open_store(CLAIMED), await open_store(CLAIMED)
    dying, ready_successor = await holder(store, "n1", ttl_s=SHORT_TTL_S), await holder(store, "n2")
    units = [Unit(f"u{n}") for n in range(5)]
    before = [await store.claim(dying, unit) for unit in units]
    async with watch_store(other) as watcher:
        await eventually(lambda: _is_gone(store, dying.node))
        await watcher.wait_until(lambda view: not view.leases)
    after = [await other.claim(ready_successor, unit) for unit in units]
    assert all(new.epoch > old.epoch for old, new in zip(before, after, strict=True))


async def test_an_expired_session_is_fenced_from_every_operation(open_store: OpenStore) -> None:
    """ "Split-brain: atomic CAS claims in the catalog prevent dual-ownership; keep TTLs small and require owner_id
    checks for operations." """
    store, auctions = await open_store(CLAIMED), await open_store(AUCTIONED)
    session = await holder(store, "n1", ttl_s=SHORT_TTL_S)
    lease = await store.claim(session, UNIT)
    as_member = await member(store, "n1", ttl_s=SHORT_TTL_S)
    bidder = await holder(auctions, "n1", ttl_s=SHORT_TTL_S)
    await eventually(lambda: _is_gone(store, "n1"))
    await eventually(lambda: _is_gone(auctions, "n1"))
    with pytest.raises(Fenced):
        await store.renew(session)
    with pytest.raises(Fenced):
        await store.claim(session, UNIT)
    with pytest.raises(Fenced):
        await store.set_state(session, UNIT, lease.epoch, lease.state)
    with pytest.raises(Fenced):
        await store.announce(as_member, Member("n1", "http://n1"))
    with pytest.raises(Fenced):
        await bid(auctions, bidder, UNIT)
    assert not await store.release(session, UNIT, lease.epoch)
    assert await store.hand_off(session, UNIT, lease.epoch, Unit(UNIT.name, 1)) is None


async def test_a_node_can_rejoin_under_its_name_after_its_session_expires(open_store: OpenStore) -> None:
    store = await open_store(CLAIMED)
    first = await holder(store, "n1", ttl_s=SHORT_TTL_S)
    await store.claim(first, UNIT)
    await eventually(lambda: _is_gone(store, "n1"))
    second = await holder(store, "n1")
    held = await store.renew(second)
    assert not held
    with pytest.raises(Fenced):
        await store.renew(first)


async def test_ending_a_session_ends_its_leases_bids_and_pending_marker(open_store: OpenStore) -> None:
    store = await open_store(AUCTIONED)
    session = await holder(store, "n1")
    await win_lease(store, session, UNIT)
    await bid(store, session, Unit("another"))
    await store.end_session(session)
    assert await holders(store) == {}
    again = await holder(store, "n1")
    receipt = await bid(store, again, Unit("a third"))
    assert receipt.outcome == "placed"


async def test_ending_a_session_twice_is_harmless_for_a_later_run(open_store: OpenStore) -> None:
    store = await open_store(CLAIMED)
    first = await holder(store, "n1")
    await store.end_session(first)
    await store.end_session(first)
    second = await holder(store, "n1")
    await store.claim(second, UNIT)
    await store.end_session(first)
    assert await holders(store) == {UNIT: "n1"}


async def test_a_member_announces_a_new_record(open_store: OpenStore) -> None:
    store = await open_store(CLAIMED)
    record = Member("n1", "http://n1", is_bidding=True, started_at=1763212345.678901, capabilities=())
    session = await store.open_session(SessionRole.MEMBER, record, ttl_s=TTL_S)
    assert (await snapshot(store)).members == (record,)
    news = Member("n1", "http://n1", is_bidding=False, started_at=1763212345.678901, capabilities=("gpu", "s3"))
    await store.announce(session, news)
    assert (await snapshot(store)).members == (news,)
    await store.end_session(session)
    assert (await snapshot(store)).members == ()
    with pytest.raises(Fenced):
        await store.announce(session, record)


async def test_spaces_are_independent(open_store: OpenStore) -> None:
    one, other = await open_store(CLAIMED), await open_store(AUCTIONED)
    await holder(one, "n1")
    await holder(other, "n1")
    assert await live_nodes(one) == await live_nodes(other) == {(SessionRole.HOLDER, "n1")}


async def _is_gone(store: OwnershipStore, node: str) -> bool:
    await store.sweep()
    return not any(name == node for _, name in await live_nodes(store))
