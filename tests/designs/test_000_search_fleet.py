"""Document 000, "In-memory serving fleet": leases, drain, replicas, scaling. Each test quotes what it proves."""

import asyncio
from dataclasses import fields

import pytest

from argosy.base.errors import Conflict, Invalid, NotOwner
from argosy.ownership import telemetry
from argosy.ownership.autoscale import Autoscaler
from argosy.ownership.events import LeaseChanged, LeaseGone, MemberChanged, MemberGone, Snapshot
from argosy.ownership.model import LeaseState, SessionRole, Unit, UnitSpec
from argosy.ownership.settings import OwnershipSettings
from argosy.ownership.view import FleetView
from tests.contracts.stage import bid, holder
from tests.ownership.builders import catalog, lease, member
from tests.ownership.world import MIB, World, in_virtual_time

REPOS = [f"repo-{i}" for i in range(10)]
REPO = Unit("repo")
DEFAULTS = OwnershipSettings()


@in_virtual_time()
async def test_bidding_is_the_only_way_to_get_a_lease(world: World) -> None:
    """The only way to obtain an initial lease on a repo in the prototype is through the bidding flow."""
    session = await holder(world.store, "n1")
    with pytest.raises(Invalid, match="place a bid"):
        await world.store.claim(session, REPO)
    await bid(world.store, session, REPO, max_bids=1)
    closing = await world.store.close_auction(REPO)
    assert closing.lease is not None
    assert closing.lease.node == "n1"


@in_virtual_time()
async def test_nodes_never_acquire_without_a_bid(world: World) -> None:
    """There is no alternate direct-acquire path"""
    world.add_units(*REPOS)
    world.start("n1")
    world.start("n2")
    await world.until(world.all_ready)
    await world.crash("n1")
    await world.until(lambda: set(world.ready().values()) == {"n2"} and world.all_ready())
    assert all(link.calls["claim"] == 0 for link in world.links.values())
    assert world.total(telemetry.AUCTIONS_WON) == sum(_is_grant(fact) for _, fact in world.events) >= len(REPOS)


def _is_grant(fact: object) -> bool:
    return isinstance(fact, LeaseChanged) and fact.lease.state is LeaseState.WARMING


@in_virtual_time(is_auctioned=False)
async def test_a_claim_succeeds_only_where_there_is_no_living_owner(world: World) -> None:
    """node attempts to claim a repo by updating the catalog row only if owner is NULL or lease_expires < now."""
    first, second = await holder(world.store, "n1", ttl_s=30.0), await holder(world.store, "n2", ttl_s=100.0)
    await world.store.claim(first, REPO)
    with pytest.raises(Conflict, match="held by 'n1'"):
        await world.store.claim(second, REPO)
    await world.pass_time(30.0)
    assert (await world.store.claim(second, REPO)).node == "n2"


@in_virtual_time(is_auctioned=False)
async def test_ownership_lasts_for_a_ttl(world: World) -> None:
    """On success the node is owner for a TTL."""
    session = await holder(world.store, "n1", ttl_s=30.0)
    await world.store.claim(session, REPO)
    await world.pass_time(29.9)
    assert world.holder("repo") == "n1"
    await world.pass_time(0.2)
    assert world.holder("repo") is None


@in_virtual_time(is_auctioned=False)
async def test_an_owner_renews_well_within_the_ttl(world: World) -> None:
    """owner renews lease periodically (interval << TTL). If lease expires the repo becomes claimable by others."""
    world.add_units("repo")
    world.start("n1")
    await world.until(world.all_ready)
    await world.pass_time(10 * DEFAULTS.ttl_s)
    assert world.links["n1"].calls["renew"] >= 2 * 10 * DEFAULTS.ttl_s / DEFAULTS.renew_s  # two sessions
    assert DEFAULTS.renew_s * 3 < DEFAULTS.ttl_s
    assert world.events[-1][0] < 10.0  # the holder never changed
    await world.crash("n1")
    world.start("n2")
    await world.until(lambda: world.holder("repo") == "n2", within_s=DEFAULTS.ttl_s + 5)


@in_virtual_time(is_auctioned=False)
async def test_a_released_repo_is_claimed_at_once(world: World) -> None:
    """node can release a claim (e.g., during graceful drain) so others can take over immediately."""
    first, second = await holder(world.store, "n1"), await holder(world.store, "n2")
    claimed = await world.store.claim(first, REPO)
    assert await world.store.release(first, REPO, claimed.epoch)
    assert (await world.store.claim(second, REPO)).node == "n2"


def test_heartbeats_are_a_fraction_of_a_short_ttl() -> None:
    """Lease TTLs should be short (e.g., 30s–2m) with heartbeats at a fraction of TTL."""
    assert 30.0 <= DEFAULTS.ttl_s <= 120.0
    assert DEFAULTS.renew_s < DEFAULTS.ttl_s / 3
    assert any("two attempts" in fault for fault in OwnershipSettings(ttl_s=30.0, renew_s=20.0).check())


@in_virtual_time()
async def test_a_query_before_readiness_gets_a_warming_response(world: World) -> None:
    """Queries are routed to the owner. If owner is not ready, the caller gets a "warming" response"""
    world.add_units("repo")
    node = world.start("n1", warm_s=30.0)
    await world.until(lambda: node.holds(REPO))
    assert node.require_lease(REPO).state is LeaseState.WARMING
    await world.until(lambda: node.require_lease(REPO).state is LeaseState.READY)


@in_virtual_time()
async def test_the_watched_map_routes_to_the_owner(world: World) -> None:
    """Catalog maps repo -> owner node."""
    world.add_units(*REPOS)
    nodes = [world.start("n1"), world.start("n2")]
    await world.until(world.all_ready)
    for node in nodes:
        assert {lease.unit.name: lease.node for lease in node.leases()} == world.ready()
        for name, owner in world.ready().items():
            if owner != node.node_id:
                with pytest.raises(NotOwner) as error:
                    node.require_lease(Unit(name))
                assert error.value.hint == f"http://{owner}"


@in_virtual_time()
async def test_the_drain_flow(world: World) -> None:
    """Drain flow: node sets repo state to draining, finishes in-flight queries, optionally streams index to a new owner
    (advanced), then releases claim."""
    world.add_units("repo")
    node = world.start("old")
    await world.until(world.all_ready)
    world.start("new", warm_s=15.0)
    await world.pass_time(5.0)
    draining = asyncio.ensure_future(node.drain())
    await world.until(lambda: node.require_lease(REPO).state is LeaseState.DRAINING, within_s=1.0)
    await world.pass_time(10.0)
    assert node.holds(REPO)  # queries are served while the successor warms
    await draining
    assert world.ready() == {"repo": "new"}


@in_virtual_time()
async def test_after_a_crash_another_node_claims_and_reindexes(world: World) -> None:
    """If a node crashes, the lease expires and another node claims + reindexes."""
    world.add_units("repo")
    world.start("n1", budget_bytes=2000 * MIB)
    world.start("n2", budget_bytes=1000 * MIB)
    await world.until(lambda: world.ready() == {"repo": "n1"})
    await world.crash("n1")
    await world.until(lambda: world.ready() == {"repo": "n2"})
    assert world.shelves["n2"].warmed == ["repo"]
    (_, stopped, _), (resumed, _, _) = world.spans("repo")
    assert stopped < resumed


def nodes_to_add(view: FleetView, now: float = 1.0) -> int:
    return Autoscaler(DEFAULTS).signal(view, now).desired_nodes


def fleet_view(*names: str, held_bytes: int = 0, free_bytes: int = 100) -> FleetView:
    view = FleetView()
    view.apply(Snapshot(members=(member("n1", held_bytes=held_bytes, free_bytes=free_bytes),)), 0.0)
    view.apply(catalog(*names), 0.0)
    return view


def test_scale_up_triggers() -> None:
    """Scale-up triggers: high count of unclaimed repos, high average claim latency, or CPU/memory saturation across the
    fleet."""
    assert nodes_to_add(fleet_view(*REPOS)) == 1
    assert nodes_to_add(fleet_view(*(f"r{i}" for i in range(500)))) > 10
    slow = fleet_view("a", "b")
    slow.apply(LeaseChanged(lease("a")), 200.0)
    assert nodes_to_add(slow, 201.0) == 2
    assert nodes_to_add(fleet_view(held_bytes=90, free_bytes=10)) == 2


def test_a_node_is_removed_only_after_draining() -> None:
    """perform graceful drain before terminating nodes to avoid losing many claims at once."""
    view, scaler = fleet_view("a"), Autoscaler(DEFAULTS)
    view.apply(MemberChanged(member("n2", free_bytes=100)), 0.0)
    view.apply(LeaseChanged(lease("a", node="n2")), 0.0)
    scaler.signal(view, 0.0)
    signal = scaler.signal(view, 10_000.0)
    assert (signal.desired_nodes, signal.drain_candidate, signal.removable_nodes) == (1, "n1", ())
    view.apply(MemberGone("n2"), 10_000.0)
    assert scaler.signal(view, 10_001.0).removable_nodes == ()
    view.apply(LeaseGone(Unit("a"), 1), 10_002.0)
    assert scaler.signal(view, 10_003.0).removable_nodes == ("n2",)


@in_virtual_time(max_bids="1")
async def test_primary_and_replicas(world: World) -> None:
    """a repo can be owned by N nodes (primary + replicas). Replicas index proactively and stand ready to serve if
    primary fails."""
    world.add_units("repo", replicas=2)
    for name in ("n1", "n2", "n3"):
        world.start(name, warm_s=20.0)
    await world.until(lambda: [x.state for x in world.store.snapshot().leases] == [LeaseState.READY] * 3)
    owners = [world.holder("repo", slot) for slot in range(3)]
    assert len(set(owners)) == 3
    await world.crash(owners[0] or "")
    lost_at = await world.until(lambda: world.holder("repo") is None)
    assert world.holder("repo", 1) == owners[1]  # a ready replica throughout
    assert await world.until(world.all_ready) - lost_at < 20.0  # less than one warming
    assert world.shelves[world.ready()["repo"]].warmed == ["repo"]


@in_virtual_time()
async def test_reclaims_are_jittered_and_bounded(world: World) -> None:
    """add randomized claim jitter, exponential backoff, and limit concurrent reindexes per node."""
    world.add_units(*REPOS)
    node = world.start("n1", warm_s=10.0)
    most = 0
    while not world.all_ready():
        await world.pass_time(0.2)
        most = max(most, sum(lease.state is LeaseState.WARMING for lease in node.own_leases()))
    assert most == DEFAULTS.warming_max == 4
    assert DEFAULTS.claim_jitter_s > 0


@in_virtual_time(is_auctioned=False)
async def test_of_many_claims_one_succeeds_and_operations_check_their_owner(world: World) -> None:
    """atomic CAS claims in the catalog prevent dual-ownership; keep TTLs small and require owner_id checks for
    operations."""
    sessions = [await holder(world.store, f"n{i}") for i in range(10)]
    claims = await asyncio.gather(*(world.store.claim(s, REPO) for s in sessions), return_exceptions=True)
    successful = [claim for claim in claims if not isinstance(claim, BaseException)]
    assert len(successful) == 1
    for session in sessions:
        if session.node != successful[0].node:
            assert not await world.store.release(session, REPO, successful[0].epoch)
    assert world.holder("repo") == successful[0].node


def test_one_copy_is_the_default() -> None:
    """How many replicas (if any) should we allow per-repo? (N=1 default)"""
    assert UnitSpec("repo").slots() == (Unit("repo"),)


def test_a_lease_names_unit_holder_and_expiry() -> None:
    """holds per-repo ownership and lease information."""
    assert {field.name for field in fields(lease())} >= {"unit", "node", "address", "epoch", "state"}


@in_virtual_time()
async def test_liveness_is_visible_to_operators(world: World) -> None:
    """Heartbeat: owner renews lease periodically"""
    world.start("n1")
    await world.pass_time(60.0)
    left = {info.role: info.expires_in_s for info in await world.store.sessions()}
    assert set(left) == {SessionRole.MEMBER, SessionRole.HOLDER}
    assert all(DEFAULTS.ttl_s - DEFAULTS.renew_s - 1 <= seconds <= DEFAULTS.ttl_s for seconds in left.values())
