"""Nodes join, leave, crash and stop; shards move, with one server each, and no request reads the ownership store."""

import asyncio
from collections.abc import Callable

import pytest

from argosy.base.errors import Conflict, Forbidden, Invalid, NotFound, NotOwner, Unavailable
from argosy.jobs import telemetry
from argosy.jobs.backends.memory import DiskKV, MemoryShardStore
from argosy.jobs.model import JobStatus, NewJob
from tests.jobs.cluster.world import World, in_virtual_time

TTL_S = 10.0


async def start_fleet(world: World, *names: str) -> None:
    await world.start(*names)
    await world.wait_until(world.all_served, "every shard is served")


@in_virtual_time()
async def test_all_shards_are_served_by_the_nodes_of_the_ring(world: World) -> None:
    await start_fleet(world, "a", "b", "c")
    places = world.nodes["a"].node.topology()
    assert {place.id: place.node for place in places.shards} == {
        shard_id: names[0] for shard_id, names in world.serving().items()
    }
    assert [member.node for member in places.members] == ["a", "b", "c"]
    assert (places.node, places.address) == ("a", "a")
    assert [place.range_start for place in places.shards] == [
        "",
        "4000000000000000",
        "8000000000000000",
        "c000000000000000",
    ]


@in_virtual_time()
async def test_shard_ids_survive_a_restart_of_all_nodes(world: World) -> None:
    await start_fleet(world, "a")
    before = [place.id for place in world.nodes["a"].node.topology().shards]
    await world.enqueue(NewJob("g", tenant="t", id="kept"))
    await world.drain("a")
    await start_fleet(world, "b")
    assert [place.id for place in world.nodes["b"].node.topology().shards] == before
    assert (await world.view("kept")).state.status is JobStatus.SCHEDULED


@in_virtual_time()
async def test_a_node_without_the_shard_names_its_owner_without_reading_the_store(world: World) -> None:
    await start_fleet(world, "a", "b", "c")
    node = world.nodes["a"].node
    elsewhere = next(place for place in node.topology().shards if place.node != "a")
    calls = world.nodes["a"].link.calls
    with pytest.raises(NotOwner) as rejection:
        node.shard(elsewhere.id)
    assert (rejection.value.hint, rejection.value.node) == (elsewhere.address, elsewhere.node)
    assert world.nodes["a"].link.calls == calls


@in_virtual_time()
async def test_an_unknown_or_invalid_shard_id_is_rejected(world: World) -> None:
    await start_fleet(world, "a")
    node = world.nodes["a"].node
    with pytest.raises(Invalid, match="invalid shard ID"):
        node.shard("seven")
    with pytest.raises(NotOwner, match="not in the shard map"):
        node.shard("11111111-1111-4111-8111-111111111111")
    with pytest.raises(Forbidden, match="dev_mode"):
        await node.reset()


@in_virtual_time()
async def test_a_call_for_a_tenant_of_another_shard_is_rejected(world: World) -> None:
    await start_fleet(world, "a")
    node = world.nodes["a"].node
    home = node.shard_of("t")
    other = next(place.id for place in node.topology().shards if place.id != home)
    with pytest.raises(Conflict, match=r"tenant 't' is not within shard .* range .*; refresh topology and retry"):
        await node.shard(other).get("t", "j")


@in_virtual_time()
async def test_a_crashed_nodes_shards_are_served_again_after_its_ttl(world: World) -> None:
    await start_fleet(world, "a", "b", "c")
    for number in range(20):
        await world.enqueue(NewJob("g", tenant=f"t{number}", id=f"j{number}"))
    started_at = world.clock.now()
    world.kill("b")
    ended_at = await world.wait_until(world.all_served, "all served by the others")
    assert ended_at - started_at < TTL_S + 2.0
    assert all([(await world.view(job)).state.status is JobStatus.SCHEDULED for job in world.auditor.acknowledged])


@in_virtual_time()
async def test_a_leaving_node_hands_off_its_shards_within_two_seconds(world: World) -> None:
    await start_fleet(world, "a", "b", "c")
    started_at = world.clock.now()
    await world.drain("b")
    ended_at = await world.wait_until(world.all_served, "all served by the others")
    assert ended_at - started_at < 2.5


@in_virtual_time()
async def test_a_joining_node_takes_only_its_shards(world: World) -> None:
    await start_fleet(world, "a", "b")
    before = {shard_id: names[0] for shard_id, names in world.serving().items()}
    await world.start("c")
    await world.wait_until(lambda: len(world.nodes["c"].node.topology().members) == 3, "c is known")
    await world.clock.sleep(3.0)
    await world.wait_until(world.all_served, "every shard is served")
    now = {shard_id: names[0] for shard_id, names in world.serving().items()}
    assert {shard_id for shard_id in now if now[shard_id] != before[shard_id]} == {
        shard_id for shard_id in now if now[shard_id] == "c"
    }


@in_virtual_time()
async def test_a_node_cut_off_from_the_store_stops_serving_all_shards_before_its_ttl(world: World) -> None:
    await start_fleet(world, "a", "b")
    cut = world.nodes["a"]
    mine = [shard_id for shard_id, _ in cut.node.local()]
    assert mine
    cut.link.is_cut = True
    started_at = world.clock.now()
    ended_at = await world.wait_until(lambda: not cut.node.local(), "a serves nothing")
    assert ended_at - started_at < TTL_S
    with pytest.raises(Unavailable, match="acquisition in progress"):
        cut.node.shard(mine[0])
    await world.wait_until(lambda: set(mine) <= {s for s, _ in world.nodes["b"].node.local()}, "b serves them")


@in_virtual_time()
async def test_a_node_stopped_past_its_ttl_rejects_requests_when_continued(world: World) -> None:
    await start_fleet(world, "a", "b")
    mine = [shard_id for shard_id, _ in world.nodes["a"].node.local()]
    old = [world.nodes["a"].node.shard(shard_id) for shard_id in mine]
    world.stop("a")
    await world.wait_until(lambda: set(mine) <= {s for s, _ in world.nodes["b"].node.local()}, "b serves them")
    world.cont("a")
    for shard in old:
        with pytest.raises((NotOwner, Unavailable)):
            await shard.lease("g", "w", 1)
    await world.wait_until(world.all_served, "every shard has one server again")


@in_virtual_time()
async def test_a_fenced_shard_is_closed_and_reopened(world: World) -> None:
    await start_fleet(world, "a")
    node = world.nodes["a"].node
    shard_id = node.shard_of("t")
    await world.shards.shard(shard_id)  # another writer takes over
    with pytest.raises((NotOwner, Unavailable)):
        await node.shard(shard_id).enqueue([NewJob("g", tenant="t", id="x")])
    assert shard_id not in dict(node.local())
    await world.wait_until(world.all_served, "the shard is served again")
    await world.enqueue(NewJob("g", tenant="t", id="x"))
    assert (await world.view("x")).job.id == "x"


@in_virtual_time()
async def test_a_shard_with_a_failed_disk_is_reopened_when_the_disk_recovers(world: World) -> None:
    await start_fleet(world, "a")
    node = world.nodes["a"].node
    shard_id = node.shard_of("t")
    world.shards.disks[shard_id].call_error = "the disk is full"
    with pytest.raises(Unavailable):
        await node.shard(shard_id).enqueue([NewJob("g", tenant="t", id="lost")])
    world.shards.disks[shard_id].call_error = None
    await world.enqueue(NewJob("g", tenant="t", id="kept"))
    assert (await world.view("kept")).job.id == "kept"


@in_virtual_time()
async def test_polls_wait_at_all_shards_at_once(world: World) -> None:
    await start_fleet(world, "a")
    node = world.nodes["a"].node
    polls = [world.nodes["a"].process.spawn(node.lease("g", f"w{n}", 5, wait_s=60.0)) for n in range(8)]
    await world.clock.sleep(1.0)
    for number in range(8):
        started_at = world.clock.now()
        await world.enqueue(NewJob("g", tenant=f"tenant-{number}", id=f"j{number}"))
        await world.wait_until(
            lambda n=number: sum(poll.done() for poll in polls) == n + 1, "one more poll is answered"
        )
        assert world.clock.now() - started_at < 0.2
    given = [task.job.id for poll in polls for each in poll.result() for task in each.tasks]
    assert sorted(given) == [f"j{number}" for number in range(8)]


@in_virtual_time()
async def test_a_poll_leases_at_most_its_maximum_and_rotates_over_shards(world: World) -> None:
    await start_fleet(world, "a")
    for number in range(40):
        await world.enqueue(NewJob("g", tenant=f"t{number}", id=f"j{number}"))
    node = world.nodes["a"].node
    firsts = set()
    for _ in range(10):
        given = await node.lease("g", "w", 2)
        assert sum(len(each.tasks) for each in given) == 2
        firsts.add(given[0].shard_id)
    assert len(firsts) > 1
    with pytest.raises(Invalid, match="tasks_max"):
        await node.lease("g", "w", 0)


@in_virtual_time(dev_mode=True)
async def test_reset_deletes_everything_in_development(world: World) -> None:
    await start_fleet(world, "a")
    await world.enqueue(NewJob("g", tenant="t", id="x"))
    node = world.nodes["a"].node
    assert await node.reset() == 4
    await world.wait_until(world.all_served, "served again")
    with pytest.raises(NotFound):
        await node.shard(node.shard_of("t")).get("t", "x")


@in_virtual_time()
async def test_an_operator_can_force_a_shard_to_reopen(world: World) -> None:
    await start_fleet(world, "a", "b")
    shard_id = world.nodes["a"].node.local()[0][0]
    before = next(lease.epoch for lease in world.nodes["a"].node.ownership.own_leases() if lease.unit.name == shard_id)
    assert await world.nodes["a"].node.force_release(shard_id)
    assert not await world.nodes["b"].node.force_release(shard_id)
    await world.wait_until(lambda: shard_id not in world.serving(), "the shard is released")
    await world.wait_until(world.all_served, "the shard is served again")
    after = next(lease.epoch for lease in world.nodes["a"].node.ownership.own_leases() if lease.unit.name == shard_id)
    assert after > before


@in_virtual_time()
async def test_an_empty_poll_ends_in_time_and_a_cancelled_one_leaves_no_waiter(
    world: World,
) -> None:
    await start_fleet(world, "a")
    node = world.nodes["a"].node
    started_at = world.clock.now()
    assert await node.lease("g", "w", 1, wait_s=3.0) == []
    assert 3.0 <= world.clock.now() - started_at < 3.1
    poll = world.nodes["a"].process.spawn(node.lease("g", "gone", 1, wait_s=60.0))
    await world.clock.sleep(0.5)
    poll.cancel()
    await world.clock.sleep(0.5)
    await world.enqueue(NewJob("g", tenant="t", id="j"))
    (given,) = await node.lease("g", "w", 1, wait_s=1.0)
    assert [task.job.id for task in given.tasks] == ["j"]


@in_virtual_time()
async def test_a_waiting_poll_includes_shards_that_arrive(world: World) -> None:
    await start_fleet(world, "a", "b")
    tenant = next(t for t in map(str, range(99)) if world.owner(world.nodes["a"].node.shard_of(t)) == "b")
    poll = world.nodes["a"].process.spawn(world.nodes["a"].node.lease("g", "w", 1, wait_s=60.0))
    await world.clock.sleep(0.5)
    await world.enqueue(NewJob("g", tenant=tenant, id="j", start_at_ms=int((world.clock.wall() + 20) * 1000)))
    await world.drain("b")
    (given,) = await poll
    assert [task.job.id for task in given.tasks] == ["j"]


@in_virtual_time(shards=2)
async def test_a_node_counts_its_operations(world: World) -> None:
    await start_fleet(world, "a")
    node, metrics = world.nodes["a"].node, world.metrics["a"]
    shard_id = node.shard_of("t")
    await world.enqueue(NewJob("g", tenant="t", id="j"))
    await node.lease("g", "w", 1)
    await node.lease("g", "w", 1)
    await world.call("a", node.split(shard_id, ""))
    await world.wait_until(
        lambda: metrics.value(telemetry.SHARDS_OPEN) == 3, "the children are open, and the parent is not"
    )
    await world.shards.shard(node.shard_of("t"))
    with pytest.raises((NotOwner, Unavailable)):
        await node.shard(node.shard_of("t")).cancel("t", "j")
    await world.wait_until(world.all_served, "all are served again")
    await world.clock.sleep(1.0)
    assert metrics.value(telemetry.SHARDS_KNOWN) == 3
    assert metrics.value(telemetry.SHARDS_UNOWNED) == 0
    assert metrics.value(telemetry.OPEN_SECONDS) == 2 + 2 + 1
    assert metrics.value(telemetry.SPLITS, outcome="done") == 1
    assert metrics.value(telemetry.SHARDS_LOST, reason="fenced") == 1
    assert metrics.value(telemetry.CLEANED_ROWS) > 0
    assert (metrics.value(telemetry.POLLS, outcome="tasks"), metrics.value(telemetry.POLLS, outcome="none")) == (1, 1)
    assert metrics.value(telemetry.TASKS_LEASED) == 1


class SlowOpening(MemoryShardStore):
    """Blocks the first opening."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go = asyncio.Event()
        self.opened_disks: list[DiskKV] = []
        self.openings = 0

    async def shard(self, shard: str, *, may_serve: Callable[[], bool] = lambda: True) -> DiskKV:
        self.openings += 1
        if self.openings == 1:
            await self.may_go.wait()
        self.opened_disks.append(await super().shard(shard, may_serve=may_serve))
        return self.opened_disks[-1]


@in_virtual_time(shards=1)
async def test_a_shard_lost_while_opening_is_closed(world: World) -> None:
    store = world.shards = SlowOpening()
    await world.start("a")
    node = world.nodes["a"].node
    (place,) = node.topology().shards
    await world.wait_until(lambda: store.openings == 1, "the shard is being opened")
    assert await node.force_release(place.id)
    await world.wait_until(lambda: not node.ownership.own_leases(), "the lease is released")
    await world.clock.sleep(5.0)
    assert store.openings == 1  # the next opening waits for the first, which would otherwise fence it
    store.may_go.set()
    await world.wait_until(world.all_served, "the shard is reopened and served")
    with pytest.raises(Unavailable):
        await store.opened_disks[0].get(b"x")
    assert store.openings == 2
