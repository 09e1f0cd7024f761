"""A split moves tenants and loses nothing, wherever it is interrupted; and once it is asked for it is done."""

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
AT_ONCE = {"within_s": 5.0, "look_s": 0.0002}  # looks more often than any step of a split takes


async def loaded_fleet(world: World, *names: str) -> tuple[JobsNode, str]:
    """A fleet with a job of each tenant; the node and shard of the first tenant."""
    await world.start(*names)
    await world.until(world.all_served, "every shard is served")
    for tenant in TENANTS:
        await world.enqueue(NewJob("g", tenant=tenant, id=f"job of {tenant}"))
    return node_of_first(world)


def node_of_first(world: World) -> tuple[JobsNode, str]:
    shard_id = world.newest().shard_of(TENANTS[0])
    return world.nodes[world.owner(shard_id)].node, shard_id


def ids_of(node: JobsNode) -> list[str]:
    return [place.id for place in node.topology().shards]


async def check_everything_is_there_once(world: World) -> None:
    await world.until(world.all_served, "every shard is served")
    for tenant in TENANTS:
        assert (await world.view(f"job of {tenant}")).state.status is JobStatus.SCHEDULED
    given: list[str] = []
    for each in world.nodes.values():
        given += [task.job.id for part in await each.node.lease("g", "w", 1000) for task in part.tasks]
    assert sorted(given) == sorted(f"job of {tenant}" for tenant in TENANTS)
    assert await world.wrongs() == []


@in_virtual_time(shards=1)
async def test_each_tenants_jobs_are_in_the_child_that_has_its_hash(world: World) -> None:
    node, shard_id = await loaded_fleet(world, "a", "b")
    begun = await node.split(shard_id, "")
    assert (begun.phase, begun.point) == ("SplitRequested", "8000000000000000")
    assert node.split_status(shard_id).is_in_progress
    await world.until(lambda: not node.split_status(shard_id).is_in_progress, "the split is done")
    await check_everything_is_there_once(world)
    places = node.topology().shards
    assert [(place.id, place.range_start, place.range_end) for place in places] == [
        (begun.left, "", "8000000000000000"),
        (begun.right, "8000000000000000", ""),
    ]
    with pytest.raises(NotOwner):
        node.shard(shard_id)


@in_virtual_time(shards=1)
async def test_a_sibling_deletes_what_is_not_its_own_in_bounded_steps(world: World) -> None:
    node, shard_id = await loaded_fleet(world, "a")
    split = await node.split(shard_id, "")
    await world.until(lambda: len(node.local()) == 2, "the children are open")

    async def is_clean(child: str) -> bool:
        return (await node.stats(child)).cleanup_status == "CompactionDone"

    while not (await is_clean(split.left) and await is_clean(split.right)):
        await world.clock.sleep(0.05)
    jobs = [(await node.stats(child)).total_jobs for child in (split.left, split.right)]
    assert sum(jobs) == len(TENANTS)
    assert min(jobs) > 0
    for opened in node._host.open.values():
        owned = RowOwnership(opened.spec.range)
        assert [key async for key, value in opened.store.scan(b"\x00", None) if not owned.has(key, value)] == []
        assert await opened.store.get(CLEANUP) is not None


@in_virtual_time(shards=1)
async def test_calls_are_put_off_while_a_shard_is_split(world: World) -> None:
    node, shard_id = await loaded_fleet(world, "a")
    shard = node.shard(shard_id)
    await node.split(shard_id, "")
    await world.until(lambda: node.split_status(shard_id).phase == "SplitPausing", "it is paused", **AT_ONCE)
    with pytest.raises(Unavailable, match="shard is temporarily unavailable: split in progress"):
        node.shard(shard_id)
    with pytest.raises(Unavailable, match="split in progress"):
        await shard.get("t0", "job of t0")
    assert dict(node.local()) == {}
    await check_everything_is_there_once(world)


@in_virtual_time(shards=2)
async def test_what_cannot_be_split_is_refused(world: World) -> None:
    node, shard_id = await loaded_fleet(world, "a", "b")
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
async def test_two_shards_split_at_once_and_both_count(world: World) -> None:
    await loaded_fleet(world, "a")
    node = world.nodes["a"].node
    first, second = [place.id for place in node.topology().shards]
    await asyncio.gather(node.split(first, ""), node.split(second, ""))
    await world.until(lambda: len(node.topology().shards) == 4, "both are split")
    await check_everything_is_there_once(world)


async def asked_and_at(world: World, phase: str) -> tuple[str, str, SplitStatus]:
    """A split that has come to a phase: the node that does it, the shard, and what was answered."""
    node, shard_id = await loaded_fleet(world, "a", "b")
    name = world.owner(shard_id)
    told = await world.call(name, node.split(shard_id, ""))
    await world.until(lambda: node.split_status(shard_id).phase == phase, phase, **AT_ONCE)
    return name, shard_id, told


async def check_it_is_split_anew(world: World, shard_id: str, told: SplitStatus) -> None:
    await world.until(lambda: shard_id not in ids_of(world.newest()), "the split is done after all")
    await check_everything_is_there_once(world)
    places = world.newest().topology().shards
    assert [place.range_start for place in places] == ["", told.point]
    assert not {told.left, told.right} & {place.id for place in places}  # a try of its own, with ids of its own


@pytest.mark.parametrize("phase", ["SplitPausing", "SplitCloning"])
def test_the_split_of_a_node_that_dies_before_the_commit_is_done_by_the_next(phase: str) -> None:
    @in_virtual_time(shards=1)
    async def story(world: World) -> None:
        name, shard_id, told = await asked_and_at(world, phase)
        world.kill(name)
        await world.until(lambda: shard_id in world.serving(), "the parent is served")
        other = world.nodes[world.owner(shard_id)].node
        await world.until(lambda: other.split_status(shard_id).is_in_progress, "the next one knows of it")
        assert other.split_status(shard_id).initiator == name
        await check_it_is_split_anew(world, shard_id, told)

    story()
    assert phase


@in_virtual_time(shards=1)
async def test_the_split_of_a_node_that_leaves_is_done_by_the_next(world: World) -> None:
    world.shards = SlowClones(halt := Halt())
    name, shard_id, told = await asked_and_at(world, "SplitCloning")
    await world.until(halt.is_asked.is_set, "it is about to clone")
    await world.drain(name)
    await check_it_is_split_anew(world, shard_id, told)


@in_virtual_time(shards=1)
async def test_the_split_of_a_shard_that_the_ring_moves_is_done_where_it_goes(world: World) -> None:
    world.shards = SlowClones(halt := Halt())
    _, shard_id, told = await asked_and_at(world, "SplitCloning")
    await world.until(halt.is_asked.is_set, "it is about to clone")
    newcomers = "cdefgh"
    assert Ring(["a", "b", *newcomers]).owner(shard_id) in newcomers
    await world.start(*newcomers)
    await world.until(lambda: shard_id in world.serving(), "a newcomer serves it")
    assert world.owner(shard_id) in newcomers
    halt.may_go.set()
    await check_it_is_split_anew(world, shard_id, told)
    await world.until(lambda: told.left not in world.shards.disks, "the copies of the first try are gone")


@in_virtual_time(shards=1)
async def test_a_split_is_done_even_if_the_whole_fleet_ends_meanwhile(world: World) -> None:
    _, shard_id, told = await asked_and_at(world, "SplitPausing")
    for name in list(world.nodes):
        world.kill(name)
    await world.start("c", "d")
    await check_it_is_split_anew(world, shard_id, told)


@in_virtual_time(shards=1)
async def test_a_shard_that_leaves_before_the_wish_is_written_is_split_all_the_same(world: World) -> None:
    world.maps = SlowMaps(halt := Halt(), lambda shards: shards.shards[0].split_request is not None)
    node, shard_id = await loaded_fleet(world, "a", "b")
    name = world.owner(shard_id)
    asking = world.nodes[name].process.spawn(node.split(shard_id, ""))
    await world.until(halt.is_asked.is_set, "the wish is about to be written")
    with pytest.raises(Conflict, match="being split already"):
        await node.split(shard_id, "")
    await world.drain(name)
    halt.may_go.set()
    told = await asking
    assert (told.phase, told.left, told.right, told.initiator) == ("SplitRequested", "", "", name)
    await check_it_is_split_anew(world, shard_id, told)


@in_virtual_time(shards=1)
async def test_a_split_that_always_fails_is_given_up_and_the_shard_goes_on(world: World) -> None:
    world.shards = refusing = NoClones()
    node, shard_id = await loaded_fleet(world, "a", "b")
    await node.split(shard_id, "")
    await world.until(lambda: not node.split_status(shard_id).is_in_progress, "it is given up")
    assert refusing.asked == SPLIT_TRIES_MAX
    await check_everything_is_there_once(world)
    assert ids_of(node) == [shard_id]
    assert sorted(refusing.disks) == [shard_id]
    assert (await node.split(shard_id, "")).phase == "SplitRequested"  # one may ask again


@in_virtual_time(shards=1)
async def test_calls_get_in_between_two_tries(world: World) -> None:
    world.shards = NoClones()
    node, shard_id = await loaded_fleet(world, "a")
    await node.split(shard_id, "")
    await world.until(lambda: not world.serving(), "it is away", **AT_ONCE)
    back = await world.until(lambda: shard_id in world.serving(), "it is back", **AT_ONCE)
    with pytest.raises(Conflict, match="being split already"):
        await node.split(shard_id, "")
    assert await world.until(lambda: not world.serving(), "it is away", **AT_ONCE) - back >= 0.9 * SETTLE_S


@in_virtual_time(shards=1)
async def test_a_node_that_dies_after_the_commit_leaves_the_children(world: World) -> None:
    node, shard_id = await loaded_fleet(world, "a", "b")
    name = world.owner(shard_id)
    split = await world.call(name, node.split(shard_id, ""))
    await world.until(lambda: not node.split_status(shard_id).is_in_progress, "it is committed", **AT_ONCE)
    world.kill(name)
    await check_everything_is_there_once(world)
    assert {place.id for place in next(iter(world.nodes.values())).node.topology().shards} == {split.left, split.right}


class Halt:
    """A place at which the first who comes stands still until told to go on."""

    def __init__(self) -> None:
        self.is_asked = asyncio.Event()
        self.may_go = asyncio.Event()

    async def __call__(self) -> None:
        if not self.is_asked.is_set():
            self.is_asked.set()
            await self.may_go.wait()


class SlowClones(MemoryShardStore):
    def __init__(self, halt: Halt) -> None:
        super().__init__()
        self._halt = halt

    async def clone(self, parent: str, child: str) -> None:
        await self._halt()
        await super().clone(parent, child)


class NoClones(MemoryShardStore):
    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def clone(self, parent: str, child: str) -> None:
        self.asked += 1
        raise Unavailable("the storage copies nothing")


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
def test_a_splitter_that_wakes_up_late_cannot_commit_over_jobs_taken_in_meanwhile(place: str) -> None:
    @in_virtual_time(shards=1)
    async def story(world: World) -> None:
        halt = Halt()
        if place == "clone":
            world.shards = SlowClones(halt)
        else:
            world.maps = SlowMaps(halt, lambda shards: len(shards.shards) > 1)
        node, shard_id = await loaded_fleet(world, "a", "b")
        name = world.owner(shard_id)
        split = await world.call(name, node.split(shard_id, ""))
        await world.until(halt.is_asked.is_set, f"the splitter is about to {place}")
        world.stop(name)
        other = next(each for each in world.nodes if each != name)
        await world.until(lambda: shard_id in dict(world.nodes[other].node.local()), "the other one serves the parent")
        for tenant in TENANTS:
            await world.enqueue(NewJob("late", tenant=tenant, id=f"late {tenant}"))
        halt.may_go.set()
        world.cont(name)
        await world.until(lambda: not node.split_status(shard_id).is_in_progress, "the splitter has given up")
        await world.until(lambda: split.left not in world.shards.disks, "its copies are gone")
        for tenant in TENANTS:
            assert (await world.view(f"late {tenant}")).state.status is JobStatus.SCHEDULED
        await check_it_is_split_anew(world, shard_id, split)  # by the other one

    story()
    assert place


@in_virtual_time(shards=1)
async def test_children_can_be_split_again_and_again(world: World) -> None:
    await loaded_fleet(world, "a", "b", "c")
    for wanted in (2, 3, 4, 5):
        node, shard_id = node_of_first(world)
        await node.split(shard_id, "")
        await world.until(lambda n=wanted: len(world.newest().topology().shards) == n, "it is split")
        await world.until(world.all_served, "every shard is served")
    await check_everything_is_there_once(world)
