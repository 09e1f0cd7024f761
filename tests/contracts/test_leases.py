"""Leases, on every backend: at most one holder per unit, and epochs that only grow."""

import asyncio

import pytest

from argosy.base.errors import Conflict, Fenced, Invalid, Throttled
from argosy.ownership.model import SUCCESSOR, LeaseState, Unit
from tests.contracts.stage import AUCTIONED, CLAIMED, OpenStore, eventually, holder, holders, watch_store

UNIT = Unit("example/repo")
RACERS = 20
GRACE_S = 1.0
SLACK_S = 1.0  # etcd has a resolution of one second


async def test_an_unowned_unit_can_be_claimed_and_a_held_one_cannot(open_store: OpenStore) -> None:
    """ "On success the node is owner for a TTL." """
    store = await open_store(CLAIMED)
    first, second = await holder(store, "n1"), await holder(store, "n2")
    lease = await store.claim(first, UNIT)
    assert (lease.unit, lease.node, lease.address, lease.token) == (UNIT, "n1", "http://n1", first.token)
    assert lease.state is LeaseState.WARMING
    for session in (first, second):
        with pytest.raises(Conflict, match="'example/repo' is held by 'n1'"):
            await store.claim(session, UNIT)
    assert await holders(store) == {UNIT: "n1"}


async def test_concurrent_claims_have_one_winner(open_store: OpenStore) -> None:
    """ "Split-brain: atomic CAS claims in the catalog prevent dual-ownership" """
    stores = [await open_store(CLAIMED) for _ in range(4)]
    sessions = [await holder(stores[n % 4], f"n{n}") for n in range(RACERS)]
    claims = [stores[n % 4].claim(session, UNIT) for n, session in enumerate(sessions)]
    results = await asyncio.gather(*claims, return_exceptions=True)
    [lease] = [result for result in results if not isinstance(result, BaseException)]
    assert sum(isinstance(result, Conflict) for result in results) == RACERS - 1
    assert await holders(stores[0]) == {UNIT: lease.node}


async def test_epochs_grow_with_every_lease_of_a_unit(open_store: OpenStore) -> None:
    store = await open_store(CLAIMED)
    epochs = []
    for node in ("n1", "n2", "n1", "n3"):
        session = await holder(store, node)
        lease = await store.claim(session, UNIT)
        epochs.append(lease.epoch)
        if node == "n2":
            await store.end_session(session)
        else:
            assert await store.release(session, UNIT, lease.epoch)
            await store.end_session(session)
    assert epochs == sorted(set(epochs))
    assert epochs[0] > 0


async def test_the_holder_changes_the_state_of_its_lease(open_store: OpenStore) -> None:
    """ "Node marks the repo row as ready and begins serving queries for that repo." """
    store = await open_store(CLAIMED)
    session = await holder(store, "n1")
    lease = await store.claim(session, UNIT)
    async with watch_store(store) as watcher:
        for state in (LeaseState.READY, LeaseState.READY, LeaseState.DRAINING, LeaseState.READY):
            changed = await store.set_state(session, UNIT, lease.epoch, state)
            assert (changed.state, changed.epoch, changed.node) == (state, lease.epoch, "n1")
        await watcher.wait_caught_up(store, 7)
        states = [event.lease.state for event in watcher.events if hasattr(event, "lease")]
    assert states == [LeaseState.READY, LeaseState.DRAINING, LeaseState.READY]


async def test_a_stale_epoch_or_another_node_is_fenced(open_store: OpenStore) -> None:
    """ "require owner_id checks for operations" """
    store = await open_store(CLAIMED)
    mine, other = await holder(store, "n1"), await holder(store, "n2")
    old = await store.claim(mine, UNIT)
    await store.release(mine, UNIT, old.epoch)
    lease = await store.claim(mine, UNIT)
    for session, epoch in ((mine, old.epoch), (mine, lease.epoch + 1), (other, lease.epoch)):
        assert not await store.release(session, UNIT, epoch)
        with pytest.raises(Fenced):
            await store.set_state(session, UNIT, epoch, LeaseState.READY)
    assert not await store.release(mine, Unit("never held"), lease.epoch)
    assert await holders(store) == {UNIT: "n1"}


async def test_a_restarted_node_does_not_release_leases_of_its_earlier_run(open_store: OpenStore) -> None:
    store = await open_store(CLAIMED)
    first = await holder(store, "n1")
    lease = await store.claim(first, UNIT)
    await store.end_session(first)
    second = await holder(store, "n1")
    newer = await store.claim(second, UNIT)
    assert not await store.release(first, UNIT, newer.epoch)
    assert not await store.release(second, UNIT, lease.epoch)
    assert await store.release(second, UNIT, newer.epoch)


async def test_a_released_unit_is_unowned_at_once(open_store: OpenStore) -> None:
    """ "Voluntary release: node can release a claim (e.g., during graceful drain) so others can take over
    immediately." """
    store = await open_store(CLAIMED)
    first, second = await holder(store, "n1"), await holder(store, "n2")
    lease = await store.claim(first, UNIT)
    assert await store.release(first, UNIT, lease.epoch)
    assert not await store.release(first, UNIT, lease.epoch)
    assert (await store.claim(second, UNIT)).epoch > lease.epoch


async def test_a_unit_is_handed_off_to_a_ready_successor_in_one_step(open_store: OpenStore) -> None:
    """ "Drain flow: node sets repo state to draining, finishes in-flight queries, optionally streams index to a new
    owner (advanced), then releases claim." """
    store = await open_store(CLAIMED)
    old, new = await holder(store, "n1"), await holder(store, "n2")
    slot = Unit(UNIT.name, SUCCESSOR)
    lease, waiting = await store.claim(old, UNIT), await store.claim(new, slot)
    await store.set_state(old, UNIT, lease.epoch, LeaseState.DRAINING)
    assert await store.hand_off(old, UNIT, lease.epoch, slot) is None, "the successor is still warming"
    await store.set_state(new, slot, waiting.epoch, LeaseState.READY)
    given = await store.hand_off(old, UNIT, lease.epoch, slot)
    assert given is not None
    assert (given.unit, given.node, given.token, given.state) == (UNIT, "n2", new.token, LeaseState.READY)
    assert given.epoch > lease.epoch
    assert await holders(store) == {UNIT: "n2"}
    held = await store.renew(new)
    assert held is None or held == {(UNIT, given.epoch)}
    assert not await store.renew(old)


async def test_only_the_holder_hands_off_and_only_to_a_replica_slot(open_store: OpenStore) -> None:
    store = await open_store(CLAIMED)
    old, new = await holder(store, "n1"), await holder(store, "n2")
    lease = await store.claim(old, UNIT)
    for slot in (Unit(UNIT.name, 1), Unit("unrelated", 1)):
        waiting = await store.claim(new, slot)
        await store.set_state(new, slot, waiting.epoch, LeaseState.READY)
    assert await store.hand_off(new, UNIT, lease.epoch, Unit(UNIT.name, 1)) is None
    assert await store.hand_off(old, UNIT, lease.epoch - 1, Unit(UNIT.name, 1)) is None
    assert await store.hand_off(old, UNIT, lease.epoch, Unit(UNIT.name, 2)) is None
    assert await store.hand_off(old, UNIT, lease.epoch, Unit("unrelated", 1)) is None
    assert (await holders(store))[UNIT] == "n1"


async def test_an_auctioned_unit_cannot_be_claimed(open_store: OpenStore) -> None:
    """ "The only way to obtain an initial lease on a repo in the prototype is through the bidding flow." """
    store = await open_store(AUCTIONED)
    session = await holder(store, "n1")
    with pytest.raises(Invalid, match="acquired by auction"):
        await store.claim(session, UNIT)
    assert await holders(store) == {}


@pytest.mark.parametrize("name", ["a|b", "a:b", "{a}:b", "a'b\"c\\d", "naïve 名前 🚢", "a/../b", "-1:x", " "])
async def test_node_and_unit_names_may_contain_any_characters(open_store: OpenStore, name: str) -> None:
    """ "could be replaced with a robust serialization (JSON or base64) to avoid parsing issues when holder ids contain
    the separator" """
    store = await open_store(CLAIMED)
    session, longer = await holder(store, name), await holder(store, name + "0")
    lease = await store.claim(session, Unit(name))
    other = await store.claim(longer, Unit(name, 1))
    held = await store.renew(session)
    assert held is None or held == {(Unit(name), lease.epoch)}
    assert await holders(store) == {Unit(name): name, Unit(name, 1): name + "0"}
    await store.end_session(session)
    assert await holders(store) == {Unit(name, 1): name + "0"}
    assert await store.release(longer, other.unit, other.epoch)


async def test_a_store_that_may_have_lost_leases_grants_none_for_a_grace_period(open_store: OpenStore) -> None:
    store = await open_store(CLAIMED, GRACE_S)
    session = await holder(store, "n1")
    with pytest.raises(Throttled) as refusal:
        await store.claim(session, UNIT)
    assert 0 < refusal.value.retry_after_s <= GRACE_S + SLACK_S
    await store.renew(session)

    async def is_granted() -> bool:
        try:
            await store.claim(session, UNIT)
        except Throttled:
            return False
        return True

    await eventually(is_granted)
    assert await holders(store) == {UNIT: "n1"}
