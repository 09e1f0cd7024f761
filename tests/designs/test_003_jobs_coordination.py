"""Document 003, "Silo internals": membership, leases and safe ring changes. Each test quotes the sentence it proves."""

import asyncio
from itertools import pairwise

import pytest

from argosy.base.errors import NotOwner
from argosy.ownership.backends.memory import MemoryOwnershipStore
from argosy.ownership.events import LeaseChanged, LeaseGone, MemberChanged, MemberGone, WatchEvent
from argosy.ownership.model import LeaseState, SessionRole, Unit
from argosy.ownership.ring import Ring
from tests.ownership.world import World, in_virtual_time

SHARDS = [f"shard-{i}" for i in range(24)]
TTL_S, KEEPALIVE_S, QUIESCE_S = 10.0, 2.0, 1.5
SILO = {
    "is_auctioned": False,
    "placement": "ring",
    "ttl_s": TTL_S,
    "renew_s": KEEPALIVE_S,
    "quiesce_s": QUIESCE_S,
    "handoff_wait_s": 1.0,
}


async def start_settled(world: World, *nodes: str, warm_s: float = 0.1) -> None:
    """Start these nodes and wait until each holds its shards of the ring."""
    world.add_units(*SHARDS)
    for node in nodes:
        world.start(node, warm_s=warm_s)
    await world.until(lambda: world.ready() == by_ring(*nodes))


def by_ring(*nodes: str) -> dict[str, str | None]:
    ring = Ring(nodes)
    return {shard: ring.owner(shard) for shard in SHARDS}


def event_times(world: World, is_so: object) -> list[float]:
    return [at for at, fact in world.events if is_so(fact)]  # type: ignore[operator]


def gaps(world: World, shard: str) -> list[float]:
    """How long the shard was unserved at each handoff; a negative gap would be two servers at once."""
    spans = world.spans(shard)
    return [later[0] - earlier[1] for earlier, later in pairwise(spans)]


@in_virtual_time(**SILO)
async def test_each_node_registers_address_and_metadata(world: World) -> None:
    """Each node registers under `coord/members/<node_id>` with a membership lease (TTL, e.g. 10s). Value includes
    `{ addr, started_at, node_id, capabilities }`."""
    await start_settled(world, "silo-a")
    (member,) = world.store.snapshot().members
    assert (member.node, member.address) == ("silo-a", "http://silo-a")
    assert member.started_at > 0
    assert member.capabilities == ()
    await world.crash("silo-a")
    await world.pass_time(TTL_S)
    assert world.store.snapshot().members == ()


@in_virtual_time(**SILO)
async def test_a_node_has_two_independent_leases(world: World) -> None:
    """Use two independent leases per node: one membership lease for `coord/members/*`, and one liveness lease shared by
    all `coord/shards/*/owner` keys that node holds."""
    await start_settled(world, "silo-a")
    assert {info.role for info in await world.store.sessions()} == {SessionRole.MEMBER, SessionRole.HOLDER}
    assert len({lease.token for lease in world.store.snapshot().leases}) == 1
    member = world.store._sessions[SessionRole.MEMBER, "silo-a"].session
    await world.store.end_session(member)
    assert len(world.ready()) == len(SHARDS)  # ownership survives without membership


@in_virtual_time(**SILO)
async def test_only_the_owner_serves(world: World) -> None:
    """Nodes serve a shard only if they currently hold its `owner` key."""
    await start_settled(world, "silo-a", "silo-b")
    for shard, owner in world.ready().items():
        assert [name for name, node in world.nodes.items() if node.holds(Unit(shard))] == [owner]


@in_virtual_time(**SILO)
async def test_serving_starts_after_the_key_is_written(world: World) -> None:
    """Only start serving a shard after this key has been written"""
    await start_settled(world, "silo-a")
    for shard in SHARDS:
        written = event_times(
            world, lambda fact, s=shard: isinstance(fact, LeaseChanged) and fact.lease.unit == Unit(s)
        )
        assert world.spans(shard)[0][0] >= written[0]


@in_virtual_time(**SILO)
async def test_when_keepalives_fail_all_shards_pause(world: World) -> None:
    """If keepalives fail (channel closes or prolonged error), immediately pause serving all owned shards to avoid
    split-brain."""
    await start_settled(world, "silo-a", "silo-b")
    await world.pass_time(20.0)
    world.links["silo-a"].is_cut = True
    expires_at = world.store.expiry(SessionRole.HOLDER, "silo-a") or 0.0
    mine = [shard for shard, owner in world.ready().items() if owner == "silo-a"]
    await world.until(lambda: not any(world.nodes["silo-a"].holds(Unit(shard)) for shard in mine))
    stops = {to for shard in mine for _, to, node in world.spans(shard) if node == "silo-a"}
    assert len(stops) == 1  # all at the same instant
    assert max(stops) < expires_at


@in_virtual_time(**SILO)
async def test_a_partitioned_owner_stops_before_another_starts(world: World) -> None:
    """owner loses keepalive; it must cease serving; another node acquires after TTL"""
    await start_settled(world, "silo-a", "silo-b")
    world.links["silo-a"].is_cut = True
    cut_at = world.clock.now()
    await world.until(lambda: set(world.ready().values()) == {"silo-b"} and world.all_ready())
    assert world.clock.now() - cut_at <= TTL_S + 3.0
    moved = [gap for shard in SHARDS for gap in gaps(world, shard)]
    assert moved
    assert min(moved) > 0


@in_virtual_time(**SILO)
async def test_a_membership_change_moves_exactly_the_shards_the_ring_moves(world: World) -> None:
    """On membership change event, recompute ring and run reconciliation: acquire new shards, release shards no longer
    owned."""
    await start_settled(world, "silo-a", "silo-b")
    before, count = by_ring("silo-a", "silo-b"), len(world.events)
    world.start("silo-c", warm_s=0.1)
    after = by_ring("silo-a", "silo-b", "silo-c")
    await world.until(lambda: world.ready() == after)
    released = {fact.unit.name for _, fact in world.events[count:] if isinstance(fact, LeaseGone)}
    assert released == {shard for shard in SHARDS if before[shard] != after[shard]}  # OWN-5


@in_virtual_time(**SILO)
async def test_a_graceful_leave_drops_membership_first(world: World) -> None:
    """This lets us drop membership first (triggering ring rebalance) before releasing ownership."""
    await start_settled(world, "silo-a", "silo-b")
    started_at = world.clock.now()
    await world.nodes["silo-a"].drain()
    left = event_times(world, lambda fact: fact == MemberGone("silo-a"))
    released = [at for at in event_times(world, lambda fact: isinstance(fact, LeaseGone)) if at >= started_at]
    assert left[0] <= started_at + 0.1
    assert min(released) >= left[0] + QUIESCE_S


@in_virtual_time(**SILO)
async def test_a_leaving_node_quiesces_while_serving(world: World) -> None:
    """Quiesce briefly per shard (1–2s) to drain in-flight work."""
    await start_settled(world, "silo-a", "silo-b")
    node, mine = world.nodes["silo-a"], [s for s, owner in world.ready().items() if owner == "silo-a"]
    leaving = asyncio.ensure_future(node.drain())
    await world.pass_time(QUIESCE_S - 0.1)
    assert all(node.holds(Unit(shard)) for shard in mine)
    await leaving
    assert not any(node.holds(Unit(shard)) for shard in mine)


@in_virtual_time(**SILO)
async def test_revoking_the_liveness_lease_frees_all_shards_for_the_next_retry(world: World) -> None:
    """Revoke the liveness lease, which deletes all `coord/shards/*/owner` keys for this node; new owners acquire on
    their next retry."""
    await start_settled(world, "silo-a", "silo-b")
    mine = [s for s, owner in world.ready().items() if owner == "silo-a"]
    await world.nodes["silo-a"].drain()
    assert {info.node for info in await world.store.sessions()} == {"silo-b"}
    await world.until(lambda: set(world.ready().values()) == {"silo-b"} and world.all_ready(), within_s=3.0)
    assert all(0 <= gap < 1.0 for shard in mine for gap in gaps(world, shard))


@in_virtual_time(**SILO)
async def test_new_owners_claim_before_old_ones_release(world: World) -> None:
    """we ensure that the new owners start trying to acquire the shard lock before the old owners release it."""
    await start_settled(world, "silo-a", "silo-b")
    count = len(world.events)
    world.start("silo-c", warm_s=0.1)
    await world.until(lambda: world.ready() == by_ring("silo-a", "silo-b", "silo-c"))
    changes: list[tuple[float, WatchEvent]] = world.events[count:]
    joined_at = next(at for at, fact in changes if isinstance(fact, MemberChanged) and fact.member.node == "silo-c")
    released_at = [at for at, fact in changes if isinstance(fact, LeaseGone)]
    assert min(released_at) >= joined_at + 1.0  # old owners wait before the release
    waits = [gap for shard in SHARDS for gap in gaps(world, shard)]
    assert waits
    assert all(0 <= wait <= 0.7 for wait in waits)  # the retry loop was running already


@in_virtual_time(**SILO)
async def test_a_held_shard_is_never_overwritten(world: World) -> None:
    """If exists, backoff and retry; never overwrite."""
    await start_settled(world, "silo-a")
    world.links["silo-a"].broken.add("release")  # the old owner cannot release
    world.start("silo-b")
    await world.pass_time(60.0)
    assert set(world.ready().values()) == {"silo-a"}
    assert world.links["silo-b"].calls["claim"] == 0  # known to be held: not even claimed
    world.links["silo-a"].broken.clear()
    await world.until(lambda: world.ready() == by_ring("silo-a", "silo-b"))


@in_virtual_time(**SILO)
async def test_after_a_crash_the_next_retry_succeeds(world: World) -> None:
    """the previous owner's liveness lease expiry auto-deletes the key; the next retry succeeds and service starts."""
    await start_settled(world, "silo-a", "silo-b")
    await world.crash("silo-a")
    crashed_at = world.clock.now()
    back_at = await world.until(lambda: set(world.ready().values()) == {"silo-b"} and world.all_ready())
    assert TTL_S - KEEPALIVE_S - 0.5 <= back_at - crashed_at <= TTL_S + 3.0


@in_virtual_time(**SILO)
async def test_a_node_without_the_shard_returns_not_owner_with_a_hint(world: World) -> None:
    """If not the owner, return NOT_OWNER with an optional hint `{ owner_id, owner_addr }` read from the cached `owner`
    value."""
    await start_settled(world, "silo-a", "silo-b")
    for shard, owner in world.ready().items():
        for name, node in world.nodes.items():
            if name != owner:
                with pytest.raises(NotOwner) as error:
                    node.require_lease(Unit(shard))
                assert (error.value.node, error.value.hint) == (owner, f"http://{owner}")


@in_virtual_time(**SILO)
async def test_requests_never_reach_the_store(world: World) -> None:
    """Servers never query etcd on the request path."""
    await start_settled(world, "silo-a", "silo-b")
    before = {name: link.calls.total() for name, link in world.links.items()}
    for _ in range(100):
        for shard in SHARDS:
            answers = [node.holds(Unit(shard)) for node in world.nodes.values()]
            assert answers.count(True) == 1
    assert {name: link.calls.total() for name, link in world.links.items()} == before


@in_virtual_time(**SILO)
async def test_nodes_that_join_at_once_end_with_one_owner_each(world: World) -> None:
    """consistent hashing minimizes movement; CAS on `owner` guarantees single winner."""
    await start_settled(world, "silo-a")
    for name in ("silo-b", "silo-c", "silo-d"):
        world.start(name, warm_s=0.1)
    nodes = ("silo-a", "silo-b", "silo-c", "silo-d")
    await world.until(lambda: world.ready() == by_ring(*nodes))
    assert all(gap >= 0 for shard in SHARDS for gap in gaps(world, shard))  # OWN-1
    epochs: dict[str, list[int]] = {}
    for _, fact in world.events:
        if isinstance(fact, LeaseChanged) and fact.lease.state is LeaseState.WARMING:
            epochs.setdefault(fact.lease.unit.name, []).append(fact.lease.epoch)
    assert all(numbers == sorted(set(numbers)) for numbers in epochs.values())


@in_virtual_time(**SILO)
async def test_keepalives_are_sent_every_two_seconds_with_jitter(world: World) -> None:
    """Lease TTL: 10s; keepalive: every 2s; optional quiesce deadline: 1–2s per shard."""
    await start_settled(world, "silo-a", "silo-b")
    before = {name: link.calls["renew"] for name, link in world.links.items()}
    await world.pass_time(100.0)
    for name, link in world.links.items():
        assert 2 * 100 / KEEPALIVE_S <= link.calls["renew"] - before[name] <= 2 * 100 / (0.9 * KEEPALIVE_S) + 2
    assert isinstance(world.store, MemoryOwnershipStore)
