"""Real nodes in a simulated world: the effect of each fault, and recovery afterwards."""

import asyncio
from collections.abc import Awaitable, Callable

from argosy.ownership.model import LeaseState, Unit, UnitSpec
from argosy.ownership.settings import OwnershipSettings
from argosy.sim.link import Direction, LinkQuality
from argosy.sim.loop import SimLoop, run
from argosy.sim.plan import (
    BOTH,
    ClockSkew,
    Crash,
    Drain,
    Fault,
    Join,
    Lag,
    Outage,
    Partition,
    Pause,
    SlowLink,
    SpacePlan,
    WorldPlan,
)
from argosy.sim.world import World

MIB = 1 << 20
TTL_S, WINDOW_S = 4.0, 3.0
READY_S = 12.0  # by then a new world, whose store first waits for its grace, is settled


def plan(*faults: Fault, placement: str = "auction", units: int = 6) -> WorldPlan:
    settings = OwnershipSettings(
        space="things",
        placement=placement,
        ttl_s=TTL_S,
        renew_s=1.0,
        window_s=WINDOW_S,
        drain_timeout_s=10.0,
        claim_jitter_s=0.1,
        catalog_s=2.0,
    )
    sizes = {f"u{i}": 10 * MIB for i in range(units)}
    specs = tuple(UnitSpec(name) for name in sizes)
    return WorldPlan(
        seed=1,
        nodes=("n1", "n2", "n3"),
        spaces=(SpacePlan(settings, specs, sizes),),
        node_bytes=1000 * MIB,
        index_bytes_per_s=100 * MIB,
        quality=LinkQuality(late_s_max=2 * TTL_S),
        faults=faults,
    )


def play(scenario: Callable[[World], Awaitable[None]], world_plan: WorldPlan) -> World:
    worlds: list[World] = []

    async def main(loop: SimLoop) -> None:
        world = World(loop, world_plan, keeps_trace=True)
        worlds.append(world)
        world.start()
        probing = asyncio.ensure_future(world.run_probes(0.1))
        await scenario(world)
        probing.cancel()
        assert world.violations.entries == []

    run(main)
    return worlds[0]


def holders(world: World) -> dict[str, str]:
    return {str(lease.unit): lease.node for lease in world.spaces[0].store.snapshot().leases}


def settles(*faults: Fault, placement: str = "auction") -> World:
    """Runs faults, all of which are over by 30 s, and expects everything to be served soon after."""

    async def scenario(world: World) -> None:
        await asyncio.sleep(READY_S)
        assert world.unsettled_units() == {}
        await asyncio.sleep(18)
        assert await world.settle(TTL_S + WINDOW_S + 5.0) is not None

    return play(scenario, plan(*faults, placement=placement))


def test_a_world_without_faults_serves_everything() -> None:
    for placement in ("auction", "ring", "claim"):
        assert len(holders(settles(placement=placement))) == 6


def test_a_crashed_nodes_units_are_served_by_others() -> None:
    async def scenario(world: World) -> None:
        await asyncio.sleep(READY_S)
        before = holders(world)
        victim = before["u0"]
        world.kill_node(victim)
        assert world.unsettled_units() != {}
        took_s = await world.settle(TTL_S + WINDOW_S + 5.0)
        assert took_s is not None
        assert took_s > TTL_S / 2, "a lease is not granted again before it has expired"
        assert victim not in holders(world).values()

    play(scenario, plan())


def test_a_paused_node_reports_nothing_and_holds_nothing_when_it_resumes() -> None:
    async def scenario(world: World) -> None:
        await asyncio.sleep(READY_S)
        victim = world.nodes[holders(world)["u0"]]
        member = victim.member("things")
        assert member.holds(Unit("u0"))
        process = victim.process
        assert process is not None
        process.pause()
        await asyncio.sleep(3 * TTL_S)
        assert holders(world)["u0"] != victim.name
        assert not member.holds(Unit("u0")), "checked before it could receive or do anything"
        process.resume()

    play(scenario, plan())


def test_every_kind_of_fault_is_survived() -> None:
    faults: list[Fault] = [
        Crash(13.0, "n1", 3.0),
        Crash(13.0, "n2", 0.1),
        Pause(13.0, "n3", 9.0),
        Partition(13.0, "n1", 9.0, BOTH),
        Partition(13.0, "n2", 9.0, (Direction.UP,)),
        Partition(13.0, "n3", 9.0, (Direction.DOWN,)),
        SlowLink(13.0, "n1", 9.0, 500.0),
        Lag(13.0, "n1", 9.0, 0.5),
        ClockSkew(13.0, "n2", -250.0),
        Outage(13.0, 9.0, loses_data=False),
        Outage(13.0, 2.0, loses_data=True),
        Drain(13.0, "n3", 12.0),
        Join(13.0, "n9"),
    ]
    for placement in ("auction", "ring"):
        for fault in faults:
            world = settles(fault, placement=placement)
            assert any(str(fault) in line for line in world.trace.trace_tail())


def test_faults_that_overlap_are_survived() -> None:
    world = settles(
        Outage(13.0, 6.0, loses_data=True),
        Outage(14.0, 8.0, loses_data=False),
        Pause(13.5, "n1", 9.0),
        Pause(15.0, "n1", 3.0),
        Crash(16.0, "n1", 2.0),
        Crash(16.5, "n1", 2.0),
        Partition(15.0, "n2", 6.0, BOTH),
        Partition(16.0, "n2", 9.0, BOTH),
    )
    assert len(holders(world)) == 6


def test_a_drained_node_hands_its_units_to_ready_successors() -> None:
    async def scenario(world: World) -> None:
        await asyncio.sleep(READY_S)
        leaver = world.nodes[holders(world)["u0"]]
        leaver.drain()
        while leaver.is_running:
            await asyncio.sleep(0.05)
            states = {lease.unit: lease.state for lease in world.spaces[0].store.snapshot().leases}
            assert all(states[Unit(f"u{i}")] is not LeaseState.WARMING for i in range(6)), "each is always served"
        assert leaver.name not in holders(world).values()
        assert len(holders(world)) == 6

    play(scenario, plan())


def test_the_same_plan_leaves_the_same_trace() -> None:
    faults = (Crash(13.0, "n1", 3.0), Pause(14.0, "n2", 6.0), Outage(20.0, 3.0, loses_data=True))
    assert settles(*faults).trace.fingerprint() == settles(*faults).trace.fingerprint()
