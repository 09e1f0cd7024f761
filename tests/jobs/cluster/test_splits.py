"""A split moves tenants and loses nothing, wherever it is interrupted; a requested split always completes."""

import asyncio
from collections.abc import Callable

import pytest

from argosy.base.errors import Conflict, Invalid, NotFound, NotOwner, Unavailable
from argosy.jobs.backends.memory import MemoryShardStore
from argosy.jobs.backends.shard_map_store import MemoryShardMapStore
from argosy.jobs.cluster.node import JobsNode
from argosy.jobs.cluster.shard_map import ShardMap
from argosy.jobs.cluster.split_rows import CLEANUP, RowOwnership
from argosy.jobs.cluster.splitter import SETTLE_S, SPLIT_TRIES_MAX
from argosy.jobs.model import JobStatus, NewJob
from argosy.jobs.ports import SplitStatus
from argosy.ownership.ring import Ring
from tests.jobs.cluster.world import World, in_virtual_time

TENANTS = [f"t{number}" for number in range(30)]
AT_ONCE = {"within_s": 5.0, "poll_s": 0.0002}  # polls more often than any step of a split takes


async def start_loaded_fleet(world: World, *names: str) -> tuple[JobsNode, str]:
    """A fleet with a job of each tenant; the node and shard of the first tenant."""
    await world.start(*names)
    await world.wait_until(world.all_served, "every shard is served")
    for tenant in TENANTS:
        await world.enqueue(NewJob("g", tenant=tenant, id=f"job of {tenant}"))
    return node_of_first(world)


def node_of_first(world: World) -> tuple[JobsNode, str]:
    shard_id = world.newest().shard_of(TENANTS[0])
    return world.nodes[world.owner(shard_id)].node, shard_id


def ids_of(node: JobsNode) -> list[str]:
    return [place.id for place in node.topology().shards]


async def check_every_job_exists_once(world: World) -> None:
    await world.wait_until(world.all_served, "every shard is served")
    for tenant in TENANTS:
        assert (await world.view(f"job of {tenant}")).state.status is JobStatus.SCHEDULED
    given: list[str] = []
    for each in world.nodes.values():
        given += [task.job.id for part in await each.node.lease("g", "w", 1000) for task in part.tasks]
    assert sorted(given) == sorted(f"job of {tenant}" for tenant in TENANTS)
    assert await world.violations() == []


@in_virtual_time(shards=1)
async def test_each_tenants_jobs_are_in_the_child_of_its_hash(world: World) -> None:
    node, shard_id = await start_loaded_fleet(world, "a", "b")
    split_status_at_start = await node.split(shard_id, "")
    assert (split_status_at_start.phase, split_status_at_start.point) == ("SplitRequested", "8000000000000000")
    assert node.split_status(shard_id).is_in_progress
    await world.wait_until(lambda: not node.split_status(shard_id).is_in_progress, "the split has completed")
    await check_every_job_exists_once(world)
    places = node.topology().shards
    assert [(place.id, place.range_start, place.range_end) for place in places] == [
        (split_status_at_start.left, "", "8000000000000000"),
        (split_status_at_start.right, "8000000000000000", ""),
    ]
    with pytest.raises(NotOwner):
        node.shard(shard_id)


@in_virtual_time(shards=1)
async def test_a_child_deletes_rows_of_its_sibling_in_bounded_steps(world: World) -> None:
    node, shard_id = await start_loaded_fleet(world, "a")
    split = await node.split(shard_id, "")
    await world.wait_until(lambda: len(node.local()) == 2, "the children are open")

    async def is_clean(child: str) -> bool:
        return (await node.stats(child)).cleanup_status == "CompactionDone"

    while not (await is_clean(split.left) and await is_clean(split.right)):
        await world.clock.sleep(0.05)
    jobs = [(await node.stats(child)).total_jobs for child in (split.left, split.right)]
    assert sum(jobs) == len(TENANTS)
    assert min(jobs) > 0
    for open_shard in node._host.open.values():
        owned = RowOwnership(open_shard.spec.range)
        assert [key async for key, value in open_shard.store.scan(b"\x00", None) if not owned.has(key, value)] == []
        assert await open_shard.store.get(CLEANUP) is not None


@in_virtual_time(shards=1)
async def test_calls_are_unavailable_while_a_shard_is_split(world: World) -> None:
    node, shard_id = await start_loaded_fleet(world, "a")
    shard = node.shard(shard_id)
    await node.split(shard_id, "")
    await world.wait_until(
        lambda: node.split_status(shard_id).phase == "SplitPausing", "the shard is paused", **AT_ONCE
    )
    with pytest.raises(Unavailable, match="shard is temporarily unavailable: split in progress"):
        node.shard(shard_id)
    with pytest.raises(Unavailable, match="split in progress"):
        await shard.get("t0", "job of t0")
    assert dict(node.local()) == {}
    await check_every_job_exists_once(world)


@in_virtual_time(shards=2)
async def test_an_invalid_split_is_rejected(world: World) -> None:
    node, shard_id = await start_loaded_fleet(world, "a", "b")
    other = next(each.node for each in world.nodes.values() if each.node is not node)
    with pytest.raises(Conflict, match="to its owner"):
        await other.split(shard_id, "")
    with pytest.raises(Invalid, match="16 lower-case hexadecimal digits"):
        await node.split(shard_id, "middle")
    place = next(place for place in node.topology().shards if place.id != shard_id)
    with pytest.raises(Invalid, match="is not inside"):
        await node.split(shard_id, place.range_start or "0000000000000001")
    with pytest.raises(NotFound):
        await node.split("11111111-1111-4111-8111-111111111111", "")
    await node.split(shard_id, "")
    with pytest.raises(Conflict, match="being split already"):
        await node.split(shard_id, "")


@in_virtual_time(shards=2)
async def test_two_shards_can_be_split_at_once(world: World) -> None:
    await start_loaded_fleet(world, "a")
    node = world.nodes["a"].node
    first, second = [place.id for place in node.topology().shards]
    await asyncio.gather(node.split(first, ""), node.split(second, ""))
    await world.wait_until(lambda: len(node.topology().shards) == 4, "both shards are split")
    await check_every_job_exists_once(world)


async def request_split_until(world: World, phase: str) -> tuple[str, str, SplitStatus]:
    """A split that has reached a phase: the splitting node, the shard, and the response."""
    node, shard_id = await start_loaded_fleet(world, "a", "b")
    name = world.owner(shard_id)
    status = await world.call(name, node.split(shard_id, ""))
    await world.wait_until(lambda: node.split_status(shard_id).phase == phase, phase, **AT_ONCE)
    return name, shard_id, status


async def check_split_again(world: World, shard_id: str, status: SplitStatus) -> None:
    await world.wait_until(lambda: shard_id not in ids_of(world.newest()), "the split has completed")
    await check_every_job_exists_once(world)
    places = world.newest().topology().shards
    assert [place.range_start for place in places] == ["", status.point]
    assert not {status.left, status.right} & {place.id for place in places}  # a new attempt with new ids


@pytest.mark.parametrize("phase", ["SplitPausing", "SplitCloning"])
def test_a_split_is_completed_by_the_next_owner_after_a_crash_before_the_commit(phase: str) -> None:
    @in_virtual_time(shards=1)
    async def scenario(world: World) -> None:
        name, shard_id, status = await request_split_until(world, phase)
        world.kill(name)
        await world.wait_until(lambda: shard_id in world.serving(), "the parent is served")
        other = world.nodes[world.owner(shard_id)].node
        await world.wait_until(lambda: other.split_status(shard_id).is_in_progress, "the next node has the split")
        assert other.split_status(shard_id).initiator == name
        await check_split_again(world, shard_id, status)

    scenario()
    assert phase


@in_virtual_time(shards=1)
async def test_a_split_is_completed_by_the_next_owner_after_a_drain(world: World) -> None:
    world.shards = SlowClones(halt := Halt())
    name, shard_id, status = await request_split_until(world, "SplitCloning")
    await world.wait_until(halt.is_reached.is_set, "the node is about to clone")
    await world.drain(name)
    await check_split_again(world, shard_id, status)


@in_virtual_time(shards=1)
async def test_a_split_is_completed_by_the_new_owner_after_a_ring_change(world: World) -> None:
    world.shards = SlowClones(halt := Halt())
    _, shard_id, status = await request_split_until(world, "SplitCloning")
    await world.wait_until(halt.is_reached.is_set, "the node is about to clone")
    newcomers = "cdefgh"
    assert Ring(["a", "b", *newcomers]).owner(shard_id) in newcomers
    await world.start(*newcomers)
    await world.wait_until(lambda: shard_id in world.serving(), "a joining node serves it")
    assert world.owner(shard_id) in newcomers
    halt.may_go.set()
    await check_split_again(world, shard_id, status)
    await world.wait_until(lambda: status.left not in world.shards.disks, "the clones of the first attempt are deleted")


@in_virtual_time(shards=1)
async def test_a_split_is_completed_after_a_restart_of_the_whole_fleet(world: World) -> None:
    _, shard_id, status = await request_split_until(world, "SplitPausing")
    for name in list(world.nodes):
        world.kill(name)
    await world.start("c", "d")
    await check_split_again(world, shard_id, status)


@in_virtual_time(shards=1)
async def test_a_shard_handed_off_before_the_request_is_written_is_still_split(world: World) -> None:
    world.maps = SlowMaps(halt := Halt(), lambda shards: shards.shards[0].split_request is not None)
    node, shard_id = await start_loaded_fleet(world, "a", "b")
    name = world.owner(shard_id)
    split_call = world.nodes[name].process.spawn(node.split(shard_id, ""))
    await world.wait_until(halt.is_reached.is_set, "the request is about to be written")
    with pytest.raises(Conflict, match="being split already"):
        await node.split(shard_id, "")
    await world.drain(name)
    halt.may_go.set()
    status = await split_call
    assert (status.phase, status.left, status.right, status.initiator) == ("SplitRequested", "", "", name)
    await check_split_again(world, shard_id, status)


@in_virtual_time(shards=1)
async def test_a_split_that_always_fails_is_abandoned_and_the_shard_stays_served(world: World) -> None:
    world.shards = failing_store = FailingClones()
    node, shard_id = await start_loaded_fleet(world, "a", "b")
    await node.split(shard_id, "")
    await world.wait_until(lambda: not node.split_status(shard_id).is_in_progress, "the split is abandoned")
    assert failing_store.calls == SPLIT_TRIES_MAX
    await check_every_job_exists_once(world)
    assert ids_of(node) == [shard_id]
    assert sorted(failing_store.disks) == [shard_id]
    assert (await node.split(shard_id, "")).phase == "SplitRequested"  # it may be requested again


@in_virtual_time(shards=1)
async def test_calls_succeed_between_two_attempts_of_a_split(world: World) -> None:
    world.shards = FailingClones()
    node, shard_id = await start_loaded_fleet(world, "a")
    await node.split(shard_id, "")
    await world.wait_until(lambda: not world.serving(), "the shard is paused", **AT_ONCE)
    back = await world.wait_until(lambda: shard_id in world.serving(), "the shard is served", **AT_ONCE)
    with pytest.raises(Conflict, match="being split already"):
        await node.split(shard_id, "")
    assert (
        await world.wait_until(lambda: not world.serving(), "the shard is paused", **AT_ONCE) - back >= 0.9 * SETTLE_S
    )


@in_virtual_time(shards=1)
async def test_after_a_crash_behind_the_commit_the_children_exist(world: World) -> None:
    node, shard_id = await start_loaded_fleet(world, "a", "b")
    name = world.owner(shard_id)
    split = await world.call(name, node.split(shard_id, ""))
    await world.wait_until(lambda: not node.split_status(shard_id).is_in_progress, "the split is committed", **AT_ONCE)
    world.kill(name)
    await check_every_job_exists_once(world)
    assert {place.id for place in next(iter(world.nodes.values())).node.topology().shards} == {split.left, split.right}


class Halt:
    """A point at which the first caller blocks until released."""

    def __init__(self) -> None:
        self.is_reached = asyncio.Event()
        self.may_go = asyncio.Event()

    async def __call__(self) -> None:
        if not self.is_reached.is_set():
            self.is_reached.set()
            await self.may_go.wait()


class SlowClones(MemoryShardStore):
    def __init__(self, halt: Halt) -> None:
        super().__init__()
        self._halt = halt

    async def clone(self, parent: str, child: str) -> None:
        await self._halt()
        await super().clone(parent, child)


class FailingClones(MemoryShardStore):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    async def clone(self, parent: str, child: str) -> None:
        self.calls += 1
        raise Unavailable("the storage cannot clone")


class SlowMaps(MemoryShardMapStore):
    def __init__(self, halt: Halt, is_meant: Callable[[ShardMap], bool]) -> None:
        super().__init__()
        self._halt = halt
        self._is_meant = is_meant

    async def add(self, shards: ShardMap) -> None:
        if self._is_meant(shards):
            await self._halt()
        await super().add(shards)


@pytest.mark.parametrize("place", ["clone", "commit"])
def test_a_stopped_splitter_cannot_commit_over_jobs_accepted_meanwhile(place: str) -> None:
    @in_virtual_time(shards=1)
    async def scenario(world: World) -> None:
        halt = Halt()
        if place == "clone":
            world.shards = SlowClones(halt)
        else:
            world.maps = SlowMaps(halt, lambda shards: len(shards.shards) > 1)
        node, shard_id = await start_loaded_fleet(world, "a", "b")
        name = world.owner(shard_id)
        split = await world.call(name, node.split(shard_id, ""))
        await world.wait_until(halt.is_reached.is_set, f"the splitter is about to {place}")
        world.stop(name)
        other = next(each for each in world.nodes if each != name)
        await world.wait_until(
            lambda: shard_id in dict(world.nodes[other].node.local()), "the other node serves the parent"
        )
        for tenant in TENANTS:
            await world.enqueue(NewJob("late", tenant=tenant, id=f"late {tenant}"))
        halt.may_go.set()
        world.cont(name)
        await world.wait_until(
            lambda: not node.split_status(shard_id).is_in_progress, "the splitter has abandoned the split"
        )
        await world.wait_until(lambda: split.left not in world.shards.disks, "its clones are deleted")
        for tenant in TENANTS:
            assert (await world.view(f"late {tenant}")).state.status is JobStatus.SCHEDULED
        await check_split_again(world, shard_id, split)  # by the other node

    scenario()
    assert place


@in_virtual_time(shards=1)
async def test_children_can_be_split_again(world: World) -> None:
    await start_loaded_fleet(world, "a", "b", "c")
    for wanted in (2, 3, 4, 5):
        node, shard_id = node_of_first(world)
        await node.split(shard_id, "")
        await world.wait_until(lambda n=wanted: len(world.newest().topology().shards) == n, "the shard is split")
        await world.wait_until(world.all_served, "every shard is served")
    await check_every_job_exists_once(world)
