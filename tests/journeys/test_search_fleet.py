"""A fleet of real search processes is hurt in every way while clients keep asking: no answer is wrong.

Each is what one process with all repositories would have said of those that the answer does not call missing, and only
repositories that were hurt are ever missing.
"""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.journeys.fleet import eventually
from tests.journeys.search_fleet import PATIENCE_S, Stranger, World, fleet_in, make_origin
from tests.journeys.search_oracle import Oracle
from tests.servers.etcd import Etcd
from tests.servers.valkey import Valkey

SHIPS = 12
DOUBLED = {f"ship-{number:02}" for number in range(4)}  # held by two nodes


@pytest.fixture(params=["valkey", "etcd"])
def store(request: pytest.FixtureRequest) -> Iterator[Valkey | Etcd]:
    with Valkey(is_durable=True) if request.param == "valkey" else Etcd() as server:
        yield server


@pytest.fixture
def world(store: Valkey | Etcd, tmp_path: Path) -> Iterator[World]:
    repos = {f"ship-{number:02}": make_origin(tmp_path / "origins", number) for number in range(SHIPS)}
    oracle = Oracle(tmp_path / "mirrors")
    for name, repo in repos.items():
        oracle.learn(name, repo.path)
    where = {"ownership_store": store.url}
    if isinstance(store, Valkey):
        where["registry_url"] = store.url  # else a file that all of them read
    with ExitStack() as stack, fleet_in(tmp_path, **where) as fleet:
        fleet.start(doors=2, nodes=3)
        for name, repo in repos.items():
            fleet.add(repo, replicas=int(name in DOUBLED))
        fleet.wait_settled("at first")
        found = World(fleet, repos, oracle, [])
        for door in fleet.doors:
            stack.callback(found.ask(door).stop)
        yield found


@pytest.mark.timeout(280)
def test_no_answer_is_wrong_whatever_dies_sleeps_moves_or_changes(world: World, store: Valkey | Etcd) -> None:
    world.judged_whole()
    kill_a_node(world)
    let_a_node_sleep(world)
    restart_the_store(world, store)
    grow_and_shrink(world)
    push_a_commit(world)
    drop_a_repository(world)
    replace_a_door(world)
    assert all(client.seen for client in world.clients)


def kill_a_node(world: World) -> None:
    """Only what it alone held is missing for a while."""
    fleet, killed = world.fleet, world.fleet.nodes[0]
    held = fleet.held_by(killed)
    killed.kill()
    fleet.nodes.remove(killed)
    fleet.member("node-1", "search")  # as a supervisor would
    fleet.wait_settled("after kill -9")
    world.judged_served(but=held - DOUBLED)
    world.judged_whole()


def let_a_node_sleep(world: World) -> None:
    """What it knew is the past when it wakes up, and it does not tell it."""
    fleet = world.fleet
    sleeper = max(fleet.nodes, key=lambda node: len(fleet.held_by(node)))
    held = fleet.held_by(sleeper)
    changed = min(held - DOUBLED)
    stranger = Stranger(sleeper, tuple(sorted(held)))
    stranger.start()
    eventually(lambda: bool(stranger.seen), within_s=PATIENCE_S, what="the node is asked directly")
    sleeper.signal(signal.SIGSTOP)
    world.push(changed)
    newest = world.oracle.newest(changed)
    eventually(
        lambda: not fleet.held_by(sleeper) and fleet.is_settled() and fleet.version(changed) == newest,
        within_s=PATIENCE_S,
        what="others hold what the sleeper held",
    )
    world.judged_served(but=held - DOUBLED)
    before_waking = len(stranger.seen)
    sleeper.signal(signal.SIGCONT)
    eventually(lambda: len(stranger.seen) > before_waking + 3, within_s=PATIENCE_S, what="the woken node answers")
    eventually(sleeper.is_ready, within_s=PATIENCE_S, what="the woken node takes part")
    for _, answer in stranger.stop()[before_waking:]:
        told = {file.version for file in answer.files if file.repository == changed}
        assert told == {newest} or (told == set() and changed in {each.repository for each in answer.missing})
    world.settle(changed, newest)
    world.judged_whole()
    world.oracle.settle()
    world.judged_whole()


def restart_the_store(world: World, store: Valkey | Etcd) -> None:
    """It comes back within a TTL, so nobody had to let go."""
    store.kill()
    store.start()
    world.fleet.wait_up()
    world.fleet.wait_settled("after the store's restart")
    world.judged_whole()


def grow_and_shrink(world: World) -> None:
    """Two nodes come, two go: their successors are ready before they let go, so nothing is ever missing."""
    fleet = world.fleet
    leaving = fleet.nodes[:2]
    for number in (4, 5):
        fleet.member(f"node-{number}", "search")
    fleet.wait_up()
    for node in leaving:
        node.drain()
    for node in leaving:
        fleet.wait_gone(node)
    fleet.wait_settled("after the drain")
    world.judged_whole()


def push_a_commit(world: World) -> None:
    """The old index answers until the new one does."""
    world.push("ship-07", b"of the second voyage\n")
    world.settle("ship-07", world.oracle.newest("ship-07"))
    world.judged_whole()
    world.oracle.settle()
    world.judged_whole()


def drop_a_repository(world: World) -> None:
    """Its holder may be told before the doors are; they then say that it is missing, until they have heard."""
    world.oracle.drop("ship-05")
    world.fleet.remove("ship-05")
    world.settle("ship-05", None)
    world.judged_served(but={"ship-05"})
    world.oracle.settle()
    world.judged_whole()


def replace_a_door(world: World) -> None:
    """The other door does not notice, and a new one knows everything as soon as it says that it is ready."""
    fleet, killed = world.fleet, world.fleet.doors[1]
    world.judged_whole()
    world.forget(next(client for client in world.clients if client.door is killed))
    killed.kill()
    fleet.doors.remove(killed)
    door = fleet.member("door-3", "gateway")
    fleet.wait_up()
    client = world.ask(door)
    world.judged_whole()
    client.stop()
