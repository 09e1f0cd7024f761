"""Whole nodes on a memory store in virtual time: sharing, failover, draining, faults of the store."""

import asyncio
from collections import Counter
from itertools import pairwise

import pytest

from argosy.base.errors import Conflict, NotOwner
from argosy.ownership import telemetry
from argosy.ownership.events import LeaseChanged
from argosy.ownership.model import SUCCESSOR, LeaseState, SessionRole, Unit
from tests.ownership.world import MIB, World, in_virtual_time

REPOS = [f"repo-{i}" for i in range(12)]
A = Unit("a")
TTL_S, WINDOW_S = 30.0, 60.0


def never_two_at_once(world: World, *names: str) -> bool:
    """OWN-1, from the spans in which the nodes reported serving."""
    for name in names:
        spans = world.spans(name)
        if any(later[0] < earlier[1] for earlier, later in pairwise(spans)):
            return False
    return True


@in_virtual_time()
async def test_two_nodes_share_units_by_their_memory(world: World) -> None:
    world.add_units(*REPOS, footprint_bytes=100 * MIB)
    world.start("big", budget_bytes=2000 * MIB, warm_s=0.0)
    world.start("small", budget_bytes=1000 * MIB, warm_s=0.0)
    assert await world.until(world.all_ready) < 30.0  # far less than one window: auctions fill
    shares = Counter(world.ready().values())
    assert shares["big"] > shares["small"] > 0
    left = [index_set.free_bytes() for index_set in world.shelves.values()]
    assert abs(left[0] - left[1]) <= 300 * MIB  # both end about as full
    assert never_two_at_once(world, *REPOS)


@in_virtual_time()
async def test_a_unit_that_fits_nowhere_stays_open_and_the_rest_is_served(world: World) -> None:
    world.add_units("small", footprint_bytes=MIB)
    world.add_units("huge", footprint_bytes=4096 * MIB)
    node = world.start("n1", budget_bytes=1024 * MIB)
    await world.until(lambda: world.ready() == {"small": "n1"})
    await world.pass_time(5 * WINDOW_S + 10)
    assert world.holder("huge") is None
    assert node.scale().starved_units == 1
    assert node.scale().desired_nodes > 1
    assert world.value("n1", telemetry.STARVED_UNITS) == 1


@in_virtual_time()
async def test_when_a_node_crashes_another_takes_over_after_the_ttl(world: World) -> None:
    world.add_units(*REPOS)
    world.start("n1")
    world.start("n2")
    await world.until(world.all_ready)
    await world.crash("n1")
    crashed_at = world.clock.now()
    back_at = await world.until(lambda: world.all_ready() and set(world.ready().values()) == {"n2"})
    assert TTL_S - 8.0 - 1.0 <= back_at - crashed_at <= TTL_S + WINDOW_S + 5.0
    assert never_two_at_once(world, *REPOS)


@in_virtual_time()
async def test_a_node_without_the_store_pauses_before_its_leases_can_expire(world: World) -> None:
    world.add_units("a", "b")
    node = world.start("n1")
    await world.until(world.all_ready)
    await world.pass_time(20.0)
    world.links["n1"].is_cut = True
    expires_at = world.store.expiry(SessionRole.HOLDER, "n1") or 0.0
    stopped_at = await world.until(lambda: not node.holds(A) and not node.holds(Unit("b")))
    assert stopped_at <= expires_at - 0.1 * TTL_S + 0.1
    assert {change.unit.name for at, _, change in world.serving if at >= stopped_at - 0.1} == {"a", "b"}


@in_virtual_time()
async def test_a_node_whose_session_survived_the_outage_resumes_without_warming_again(world: World) -> None:
    world.add_units("a")
    node = world.start("n1")
    await world.until(world.all_ready)
    world.links["n1"].is_cut = True
    await world.until(lambda: not node.holds(A))
    world.links["n1"].is_cut = False
    epoch = world.store.snapshot().leases[0].epoch
    await world.until(lambda: node.holds(A), within_s=5.0)
    assert node.require_lease(A).epoch == epoch
    assert world.shelves["n1"].warmed == ["a"]
    await world.pass_time(2.0)
    assert world.value("n1", telemetry.PAUSES) == 1


@in_virtual_time()
async def test_a_node_whose_session_was_lost_restarts_under_a_new_epoch(world: World) -> None:
    world.add_units("a")
    node = world.start("n1")
    await world.until(world.all_ready)
    first = node.require_lease(A).epoch
    world.links["n1"].is_cut = True
    await world.pass_time(TTL_S + 1)
    await world.store.sweep()
    world.links["n1"].is_cut = False
    await world.until(lambda: node.holds(A))
    assert node.require_lease(A).epoch > first
    assert world.metrics["n1"].value(telemetry.SESSIONS_LOST, space="repos", role=SessionRole.HOLDER) == 1
    assert "a" in world.shelves["n1"].dropped


@in_virtual_time()
async def test_a_second_node_of_the_same_id_gives_up_and_reports_why(world: World) -> None:
    world.add_units("a")
    world.start("n1")
    await world.until(world.all_ready)
    first = world.tasks["n1"]
    world.start("n1")
    began = world.clock.now()
    with pytest.raises(Conflict, match=r"node id 'n1' is in use at 'http://n1'; use another id"):
        await world.tasks["n1"]
    assert 2 * TTL_S < world.clock.now() - began < 2 * TTL_S + 10
    assert not first.done()
    assert world.holder("a") == "n1"
    first.cancel()


@in_virtual_time()
async def test_a_restarted_node_waits_for_its_own_earlier_session_and_continues(world: World) -> None:
    world.add_units("a")
    world.start("n1")
    await world.until(world.all_ready)
    await world.crash("n1")
    node = world.start("n1")
    assert await world.until(lambda: node.holds(A)) <= 2 * TTL_S
    assert never_two_at_once(world, "a")


@in_virtual_time()
async def test_a_wrong_node_names_the_holder(world: World) -> None:
    world.add_units("a", footprint_bytes=500 * MIB)
    world.start("n1", budget_bytes=1000 * MIB)
    other = world.start("n2", budget_bytes=900 * MIB)
    await world.until(world.all_ready)
    assert world.nodes["n1"].require_lease(A).state is LeaseState.READY
    with pytest.raises(NotOwner, match="'a' is held by 'n1'") as caught:
        other.require_lease(A)
    assert (caught.value.hint, caught.value.node) == ("http://n1", "n1")
    with pytest.raises(NotOwner, match="no known holder") as unknown:
        other.require_lease(Unit("z"))
    assert unknown.value.hint is None


@in_virtual_time()
async def test_a_hint_never_names_the_node_that_returns_it(world: World) -> None:
    world.add_units("a")
    node = world.start("n1")
    await world.until(world.all_ready)
    world.links["n1"].is_cut = True
    await world.until(lambda: not node.holds(A))
    with pytest.raises(NotOwner) as caught:
        node.require_lease(A)
    assert caught.value.hint is None


@in_virtual_time()
async def test_the_documents_metrics_have_the_right_counts(world: World) -> None:
    world.start("n1")
    world.start("n2")
    await world.until(lambda: all(node.is_ready() for node in world.nodes.values()))
    await world.pass_time(3.0)
    world.add_units(*REPOS)
    await world.until(world.all_ready)
    await world.pass_time(2.0)
    for metric in (
        telemetry.AUCTIONS_STARTED,
        telemetry.AUCTIONS_WON,
        telemetry.AUCTIONS_SHORT_CIRCUITED,
        telemetry.BID_WINDOW_MS,
    ):
        assert world.total(metric) == len(REPOS), metric.name
    assert world.total(telemetry.BIDS_PLACED) == world.total(telemetry.BIDS_RECEIVED) >= len(REPOS)
    for metric in (
        telemetry.AUCTIONS_NO_WINNER,
        telemetry.AUCTIONS_TIMED_OUT,
        telemetry.BIDS_REJECTED_ALREADY_PENDING,
        telemetry.UNITS_UNOWNED,
    ):
        assert world.total(metric) == 0, metric.name
    assert world.total(telemetry.UNITS_HELD) == world.total(telemetry.UNITS_SERVING) == len(REPOS)
    assert world.value("n1", telemetry.ACTIVE_BIDDERS) == 2
    assert world.value("n1", telemetry.CONFIGURED_MAX_BIDS) in (1, 2)
    assert world.value("n1", telemetry.CLAIM_LATENCY) == len(REPOS)
    assert world.value("n1", telemetry.DESIRED_NODES) == 2


@in_virtual_time(max_bids="5")
async def test_an_auction_that_cannot_fill_ends_with_its_window_and_is_counted(world: World) -> None:
    world.add_units("a")
    world.start("n1")
    assert WINDOW_S <= await world.until(world.all_ready) <= WINDOW_S + 5
    await world.pass_time(1.0)
    assert world.value("n1", telemetry.AUCTIONS_TIMED_OUT) == 1
    assert world.value("n1", telemetry.AUCTIONS_SHORT_CIRCUITED) == 0
    assert world.value("n1", telemetry.CONFIGURED_MAX_BIDS) == 5


@in_virtual_time()
async def test_a_drained_node_stops_only_when_its_successor_is_ready(world: World) -> None:
    world.add_units("a", "b", "c")
    node = world.start("old")
    await world.until(world.all_ready)
    world.start("new", warm_s=20.0)
    await world.pass_time(5.0)
    began = world.clock.now()
    await node.drain()
    assert world.clock.now() - began >= 20.0
    assert world.ready() == dict.fromkeys("abc", "new")
    for name in "abc":
        (_, stopped_at, _), (started_at, _, _) = world.spans(name)
        assert 0 <= started_at - stopped_at < 0.1  # the gap is one message, not one warming
        ready_successor = next(at for at, event in world.events if _is_ready_successor(event, name))
        assert ready_successor <= stopped_at
    assert {info.node for info in await world.store.sessions()} == {"new"}
    assert world.shelves["new"].warmed == ["a", "b", "c"]  # once each: nothing is built twice


def _is_ready_successor(event: object, name: str) -> bool:
    return (
        isinstance(event, LeaseChanged)
        and event.lease.unit == Unit(name, SUCCESSOR)
        and event.lease.state is LeaseState.READY
    )


@in_virtual_time(drain_timeout_s=40.0)
async def test_a_drain_without_a_successor_ends(world: World) -> None:
    world.add_units("a", footprint_bytes=500 * MIB)
    node = world.start("old")
    await world.until(world.all_ready)
    world.start("tiny", budget_bytes=10 * MIB)
    await world.pass_time(5.0)
    began = world.clock.now()
    await node.drain()
    assert 40.0 <= world.clock.now() - began < 45.0
    assert await world.store.sessions() != []
    assert world.holder("a") is None


@in_virtual_time()
async def test_the_last_node_drains_at_once(world: World) -> None:
    world.add_units("a")
    node = world.start("n1")
    await world.until(world.all_ready)
    began = world.clock.now()
    await node.drain()
    assert world.clock.now() - began < 2.0
    assert await world.store.sessions() == []


@in_virtual_time()
async def test_a_node_that_never_reached_its_store_can_be_drained(world: World) -> None:
    node = world.start("n1")
    world.links["n1"].is_cut = True
    await world.pass_time(5.0)
    async with asyncio.timeout(60.0):
        await node.drain()
        await world.tasks["n1"]
    assert world.clock.now() < 60.0


@in_virtual_time()
async def test_a_node_leaves_only_when_both_its_sessions_have_ended(world: World) -> None:
    node = world.start("n1")
    await world.until(node.is_ready)
    world.links["n1"].failures["end_session"] = 1  # membership takes a second try, the empty holder none
    await node.drain()
    assert await world.store.sessions() == []


@in_virtual_time()
async def test_an_announcement_that_took_a_second_try_does_not_undo_a_newer_one(world: World) -> None:
    node = world.start("n1")
    world.links["n1"].failures["announce"] = 1  # "not bidding yet", just before memory is measured
    await world.pass_time(5.0)
    assert world.links["n1"].calls["announce"] >= 3
    assert [member.is_bidding for member in node.members()] == [True]


@in_virtual_time()
async def test_a_drain_continues_when_membership_could_not_be_ended(world: World) -> None:
    world.add_units("a")
    node = world.start("old")
    await world.until(world.all_ready)
    world.start("new", warm_s=5.0)
    await world.pass_time(5.0)
    world.links["old"].broken.add("end_session")
    draining = asyncio.ensure_future(node.drain())
    await world.until(lambda: world.holder("a") == "new", within_s=120.0)
    await draining
    (_, stopped_at, who), (started_at, _, ready_successor) = world.spans("a")
    assert (who, ready_successor) == ("old", "new")
    assert started_at - stopped_at < 0.1


@in_virtual_time()
async def test_primary_and_replica_live_on_different_nodes(world: World) -> None:
    world.add_units(*REPOS[:4], replicas=1)
    for name in ("n1", "n2", "n3"):
        world.start(name)
    await world.until(lambda: all(world.holder(name, 1) for name in REPOS[:4]) and world.all_ready())
    for name in REPOS[:4]:
        assert world.holder(name) != world.holder(name, 1)


@in_virtual_time(max_bids="1")
async def test_when_the_primary_dies_the_replica_serves_its_unit(world: World) -> None:
    world.add_units("a", replicas=1)
    world.start("n1", warm_s=20.0)
    world.start("n2", warm_s=20.0)
    await world.until(lambda: [lease.state for lease in world.store.snapshot().leases] == [LeaseState.READY] * 2)
    primary, replica = world.holder("a"), world.holder("a", 1)
    assert primary
    assert replica
    assert primary != replica
    await world.crash(primary)
    lost_at = await world.until(lambda: world.holder("a") is None)
    back_at = await world.until(lambda: world.ready().get("a") == replica)
    assert back_at - lost_at < 5.0  # nothing had to be warmed
    assert world.shelves[replica].warmed == ["a"]
    assert world.shelves[replica].dropped == []


@in_virtual_time()
async def test_a_unit_that_cannot_be_warmed_goes_to_another_node(world: World) -> None:
    world.add_units("a")
    world.start("n1", budget_bytes=2000 * MIB)
    world.start("n2", budget_bytes=1000 * MIB)
    world.shelves["n1"].spoilt.add("a")
    await world.until(lambda: world.ready() == {"a": "n2"})
    assert world.value("n1", telemetry.WARMINGS_FAILED) == 1
    assert world.shelves["n1"].kept == {}


@in_virtual_time(is_auctioned=False)
async def test_a_unit_that_no_node_can_warm_is_not_tried_without_end(world: World) -> None:
    world.add_units("a")
    world.start("n1")
    world.shelves["n1"].spoilt.add("a")
    await world.pass_time(10 * WINDOW_S)
    assert 2 <= world.value("n1", telemetry.WARMINGS_FAILED) <= 11


@in_virtual_time()
async def test_a_unit_won_again_is_not_torn_down_by_a_slow_drop(world: World) -> None:
    world.add_units("a")
    node = world.start("n1")
    await world.until(world.all_ready)
    world.shelves["n1"].drop_s = 10.0
    await world.store.end_session(world.store._sessions[SessionRole.HOLDER, "n1"].session)
    await world.until(lambda: world.ready() == {} and not node.holds(A))
    await world.until(world.all_ready)
    await world.pass_time(20.0)
    assert world.shelves["n1"].dropped == ["a"]
    assert world.shelves["n1"].warmed == ["a", "a"]
    assert "a" in world.shelves["n1"].kept


@in_virtual_time()
async def test_a_unit_lost_while_warming_is_dropped_after_the_warming_has_ended(world: World) -> None:
    world.add_units("a")
    world.start("n1", warm_s=50.0)
    await world.until(lambda: world.holder("a") == "n1")
    del world.catalog.specs["a"]
    await world.until(lambda: world.shelves["n1"].dropped == ["a"], within_s=20.0)
    await world.pass_time(60.0)
    assert world.shelves["n1"].kept == {}
    assert world.shelves["n1"].warmed == []


@in_virtual_time()
async def test_a_unit_no_longer_in_the_catalog_is_released_and_dropped(world: World) -> None:
    world.add_units("a", "b")
    world.start("n1")
    await world.until(world.all_ready)
    del world.catalog.specs["a"]
    await world.until(lambda: world.holder("a") is None, within_s=10.0)
    await world.until(lambda: world.shelves["n1"].dropped == ["a"], within_s=1.0)
    assert world.holder("b") == "n1"


@in_virtual_time()
async def test_the_request_path_never_calls_the_store(world: World) -> None:
    world.add_units("a")
    node = world.start("n1")
    await world.until(world.all_ready)
    before = world.links["n1"].calls.total()
    for _ in range(1000):
        assert node.holds(A)
        assert node.require_lease(A).node == "n1"
    assert (len(node.own_leases()), len(node.leases()), len(node.members())) == (1, 1, 1)
    assert world.links["n1"].calls.total() == before


@in_virtual_time()
async def test_when_the_store_loses_everything_the_fleet_recovers(world: World) -> None:
    world.add_units(*REPOS)
    world.start("n1")
    world.start("n2")
    await world.until(world.all_ready)
    world.store.lose_everything()
    assert world.ready() == {}
    await world.until(world.all_ready, within_s=WINDOW_S + TTL_S)
    assert never_two_at_once(world, *REPOS)
