"""Nodes come, go, die and stand still; shards follow, one server each, and no request asks the ownership store."""

import asyncio
from collections.abc import Callable

import pytest

from argosy.base.errors import Conflict, Forbidden, Invalid, NotFound, NotOwner, Unavailable
from argosy.jobs import telemetry
from argosy.jobs.backends.memory import DiskKV, MemoryShardStore
from argosy.jobs.model import JobStatus, NewJob
from tests.jobs.cluster.world import World, in_virtual_time

TTL_S = 10.0


async def fleet(world: World, *names: str) -> None:
    await world.start(*names)
    await world.until(world.all_served, "every shard is served")


@in_virtual_time()
async def test_all_shards_are_served_by_the_nodes_that_the_ring_names(world: World) -> None:
    await fleet(world, "a", "b", "c")
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
async def test_shard_ids_stay_when_all_nodes_have_gone_and_come_back(world: World) -> None:
    await fleet(world, "a")
    before = [place.id for place in world.nodes["a"].node.topology().shards]
    await world.enqueue(NewJob("g", tenant="t", id="kept"))
    await world.drain("a")
    await fleet(world, "b")
    assert [place.id for place in world.nodes["b"].node.topology().shards] == before
    assert (await world.view("kept")).state.status is JobStatus.SCHEDULED


@in_virtual_time()
async def test_a_node_that_does_not_hold_a_shard_names_who_does_without_asking_the_store(world: World) -> None:
    await fleet(world, "a", "b", "c")
    node = world.nodes["a"].node
    elsewhere = next(place for place in node.topology().shards if place.node != "a")
    calls = world.nodes["a"].link.calls
    with pytest.raises(NotOwner) as refused:
        node.shard(elsewhere.id)
    assert (refused.value.hint, refused.value.node) == (elsewhere.address, elsewhere.node)
    assert world.nodes["a"].link.calls == calls


@in_virtual_time()
async def test_what_names_no_shard_is_refused(world: World) -> None:
    await fleet(world, "a")
    node = world.nodes["a"].node
    with pytest.raises(Invalid, match="invalid shard ID"):
        node.shard("seven")
    with pytest.raises(NotOwner, match="not in the shard map"):
        node.shard("11111111-1111-4111-8111-111111111111")
    with pytest.raises(Forbidden, match="dev_mode"):
        await node.reset()


@in_virtual_time()
async def test_a_tenant_of_another_shard_is_turned_away(world: World) -> None:
    await fleet(world, "a")
    node = world.nodes["a"].node
    home = node.shard_of("t")
    other = next(place.id for place in node.topology().shards if place.id != home)
    with pytest.raises(Conflict, match=r"tenant 't' is not within shard .* range .*; refresh topology and retry"):
        await node.shard(other).get("t", "j")


@in_virtual_time()
async def test_a_crashed_nodes_shards_are_served_again_after_its_ttl(world: World) -> None:
    await fleet(world, "a", "b", "c")
    for number in range(20):
        await world.enqueue(NewJob("g", tenant=f"t{number}", id=f"j{number}"))
    began = world.clock.now()
    world.kill("b")
    ended = await world.until(world.all_served, "all served by the others")
    assert ended - began < TTL_S + 2.0
    assert all([(await world.view(job)).state.status is JobStatus.SCHEDULED for job in world.auditor.acknowledged])


@in_virtual_time()
async def test_a_leaving_node_hands_its_shards_on_within_two_seconds(world: World) -> None:
    await fleet(world, "a", "b", "c")
    began = world.clock.now()
    await world.drain("b")
    ended = await world.until(world.all_served, "all served by the others")
    assert ended - began < 2.5


@in_virtual_time()
async def test_a_joining_node_takes_only_its_own_part(world: World) -> None:
    await fleet(world, "a", "b")
    before = {shard_id: names[0] for shard_id, names in world.serving().items()}
    await world.start("c")
    await world.until(lambda: len(world.nodes["c"].node.topology().members) == 3, "c is known")
    await world.clock.sleep(3.0)
    await world.until(world.all_served, "every shard is served")
    now = {shard_id: names[0] for shard_id, names in world.serving().items()}
    assert {shard_id for shard_id in now if now[shard_id] != before[shard_id]} == {
        shard_id for shard_id in now if now[shard_id] == "c"
    }


@in_virtual_time()
async def test_a_node_cut_off_from_the_store_stops_serving_all_shards_before_its_ttl(world: World) -> None:
    await fleet(world, "a", "b")
    cut = world.nodes["a"]
    mine = [shard_id for shard_id, _ in cut.node.local()]
    assert mine
    cut.link.is_cut = True
    began = world.clock.now()
    ended = await world.until(lambda: not cut.node.local(), "a serves nothing")
    assert ended - began < TTL_S
    with pytest.raises(Unavailable, match="acquisition in progress"):
        cut.node.shard(mine[0])
    await world.until(lambda: set(mine) <= {s for s, _ in world.nodes["b"].node.local()}, "b serves them")


@in_virtual_time()
async def test_a_node_that_stood_still_past_its_ttl_answers_nothing_when_it_wakes(world: World) -> None:
    await fleet(world, "a", "b")
    mine = [shard_id for shard_id, _ in world.nodes["a"].node.local()]
    old = [world.nodes["a"].node.shard(shard_id) for shard_id in mine]
    world.stop("a")
    await world.until(lambda: set(mine) <= {s for s, _ in world.nodes["b"].node.local()}, "b serves them")
    world.cont("a")
    for shard in old:
        with pytest.raises((NotOwner, Unavailable)):
            await shard.lease("g", "w", 1)
    await world.until(world.all_served, "every shard has one server again")


@in_virtual_time()
async def test_a_shard_whose_storage_was_taken_over_is_dropped_and_opened_anew(world: World) -> None:
    await fleet(world, "a")
    node = world.nodes["a"].node
    shard_id = node.shard_of("t")
    await world.shards.shard(shard_id)  # somebody else makes itself the writer
    with pytest.raises((NotOwner, Unavailable)):
        await node.shard(shard_id).enqueue([NewJob("g", tenant="t", id="x")])
    assert shard_id not in dict(node.local())
    await world.until(world.all_served, "it is served again")
    await world.enqueue(NewJob("g", tenant="t", id="x"))
    assert (await world.view("x")).job.id == "x"


@in_virtual_time()
async def test_a_shard_whose_disk_refuses_is_opened_anew_when_the_disk_is_back(world: World) -> None:
    await fleet(world, "a")
    node = world.nodes["a"].node
    shard_id = node.shard_of("t")
    world.shards.disks[shard_id].call_error = "the disk is full"
    with pytest.raises(Unavailable):
        await node.shard(shard_id).enqueue([NewJob("g", tenant="t", id="lost")])
    world.shards.disks[shard_id].call_error = None
    await world.enqueue(NewJob("g", tenant="t", id="kept"))
    assert (await world.view("kept")).job.id == "kept"


@in_virtual_time()
async def test_workers_wait_at_all_shards_at_once(world: World) -> None:
    await fleet(world, "a")
    node = world.nodes["a"].node
    polls = [world.nodes["a"].process.spawn(node.lease("g", f"w{n}", 5, wait_s=60.0)) for n in range(8)]
    await world.clock.sleep(1.0)
    for number in range(8):
        began = world.clock.now()
        await world.enqueue(NewJob("g", tenant=f"tenant-{number}", id=f"j{number}"))
        await world.until(lambda n=number: sum(poll.done() for poll in polls) == n + 1, "one more poll is answered")
        assert world.clock.now() - began < 0.2
    given = [task.job.id for poll in polls for each in poll.result() for task in each.tasks]
    assert sorted(given) == [f"j{number}" for number in range(8)]


@in_virtual_time()
async def test_a_poll_takes_no_more_than_it_asked_for_and_shards_take_turns(world: World) -> None:
    await fleet(world, "a")
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
async def test_development_may_forget_everything(world: World) -> None:
    await fleet(world, "a")
    await world.enqueue(NewJob("g", tenant="t", id="x"))
    node = world.nodes["a"].node
    assert await node.reset() == 4
    await world.until(world.all_served, "served again")
    with pytest.raises(NotFound):
        await node.shard(node.shard_of("t")).get("t", "x")


@in_virtual_time()
async def test_an_operator_can_make_a_node_open_a_shard_anew(world: World) -> None:
    await fleet(world, "a", "b")
    shard_id = world.nodes["a"].node.local()[0][0]
    before = next(lease.epoch for lease in world.nodes["a"].node.ownership.own_leases() if lease.unit.name == shard_id)
    assert await world.nodes["a"].node.force_release(shard_id)
    assert not await world.nodes["b"].node.force_release(shard_id)
    await world.until(lambda: shard_id not in world.serving(), "it was let go")
    await world.until(world.all_served, "it is served again")
    after = next(lease.epoch for lease in world.nodes["a"].node.ownership.own_leases() if lease.unit.name == shard_id)
    assert after > before


@in_virtual_time()
async def test_a_poll_that_nobody_answers_ends_in_time_and_one_that_is_given_up_leaves_nothing_behind(
    world: World,
) -> None:
    await fleet(world, "a")
    node = world.nodes["a"].node
    began = world.clock.now()
    assert await node.lease("g", "w", 1, wait_s=3.0) == []
    assert 3.0 <= world.clock.now() - began < 3.1
    poll = world.nodes["a"].process.spawn(node.lease("g", "gone", 1, wait_s=60.0))
    await world.clock.sleep(0.5)
    poll.cancel()
    await world.clock.sleep(0.5)
    await world.enqueue(NewJob("g", tenant="t", id="j"))
    (given,) = await node.lease("g", "w", 1, wait_s=1.0)
    assert [task.job.id for task in given.tasks] == ["j"]


@in_virtual_time()
async def test_a_poll_that_waits_hears_of_shards_that_come_to_the_node(world: World) -> None:
    await fleet(world, "a", "b")
    tenant = next(t for t in map(str, range(99)) if world.owner(world.nodes["a"].node.shard_of(t)) == "b")
    poll = world.nodes["a"].process.spawn(world.nodes["a"].node.lease("g", "w", 1, wait_s=60.0))
    await world.clock.sleep(0.5)
    await world.enqueue(NewJob("g", tenant=tenant, id="j", start_at_ms=int((world.clock.wall() + 20) * 1000)))
    await world.drain("b")
    (given,) = await poll
    assert [task.job.id for task in given.tasks] == ["j"]


@in_virtual_time(shards=2)
async def test_a_node_counts_what_it_does(world: World) -> None:
    await fleet(world, "a")
    node, metrics = world.nodes["a"].node, world.metrics["a"]
    shard_id = node.shard_of("t")
    await world.enqueue(NewJob("g", tenant="t", id="j"))
    await node.lease("g", "w", 1)
    await node.lease("g", "w", 1)
    await world.call("a", node.split(shard_id, ""))
    await world.until(lambda: metrics.value(telemetry.SHARDS_OPEN) == 3, "the children are open, and the parent is not")
    await world.shards.shard(node.shard_of("t"))
    with pytest.raises((NotOwner, Unavailable)):
        await node.shard(node.shard_of("t")).cancel("t", "j")
    await world.until(world.all_served, "all are served again")
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
    """Lets the first opening wait."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go = asyncio.Event()
        self.opened: list[DiskKV] = []
        self.asked = 0

    async def shard(self, shard: str, *, may_serve: Callable[[], bool] = lambda: True) -> DiskKV:
        self.asked += 1
        if self.asked == 1:
            await self.may_go.wait()
        self.opened.append(await super().shard(shard, may_serve=may_serve))
        return self.opened[-1]


@in_virtual_time(shards=1)
async def test_a_shard_that_was_lost_while_it_was_being_opened_is_closed_again(world: World) -> None:
    store = world.shards = SlowOpening()
    await world.start("a")
    node = world.nodes["a"].node
    (place,) = node.topology().shards
    await world.until(lambda: store.asked == 1, "it is being opened")
    assert await node.force_release(place.id)
    await world.until(lambda: not node.ownership.own_leases(), "it was let go")
    await world.clock.sleep(5.0)
    assert store.asked == 1  # the next opening waits for the first, which it would else be fenced by
    store.may_go.set()
    await world.until(world.all_served, "it is opened anew, and served")
    with pytest.raises(Unavailable):
        await store.opened[0].get(b"x")
    assert store.asked == 2
