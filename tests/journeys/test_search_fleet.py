"""A fleet of real search processes under failures while clients send queries: no response is wrong.

Each response is that of one process with all repositories except those that the response marks as missing, and only
repositories affected by a failure are ever missing.
"""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.journeys.fleet import eventually
from tests.journeys.search_fleet import PATIENCE_S, DirectClient, World, create_origin, fleet_in
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
    repos = {f"ship-{number:02}": create_origin(tmp_path / "origins", number) for number in range(SHIPS)}
    oracle = Oracle(tmp_path / "mirrors")
    for name, repo in repos.items():
        oracle.learn(name, repo.path)
    where = {"ownership_store": store.url}
    if isinstance(store, Valkey):
        where["registry_url"] = store.url  # otherwise a shared file
    with ExitStack() as stack, fleet_in(tmp_path, **where) as fleet:
        fleet.start(gateways=2, nodes=3)
        for name, repo in repos.items():
            fleet.add(repo, replicas=int(name in DOUBLED))
        fleet.wait_settled("at first")
        new_world = World(fleet, repos, oracle, [])
        for gateway in fleet.gateways:
            stack.callback(new_world.add_client(gateway).stop)
        yield new_world


@pytest.mark.timeout(280)
def test_no_response_is_wrong_during_failures_and_changes(world: World, store: Valkey | Etcd) -> None:
    world.check_complete()
    kill_a_node(world)
    stop_a_node_past_its_ttl(world)
    restart_the_store(world, store)
    grow_and_shrink(world)
    push_a_commit(world)
    drop_a_repository(world)
    replace_a_gateway(world)
    assert all(client.responses for client in world.clients)


def kill_a_node(world: World) -> None:
    """Only repositories held by this node alone are missing for a while."""
    fleet, killed = world.fleet, world.fleet.nodes[0]
    held = fleet.held_by(killed)
    killed.kill()
    fleet.nodes.remove(killed)
    fleet.member("node-1", "search")  # as a supervisor would
    fleet.wait_settled("after kill -9")
    world.check_served(but=held - DOUBLED)
    world.check_complete()


def stop_a_node_past_its_ttl(world: World) -> None:
    """Its state is stale when it continues, and it does not serve from it."""
    fleet = world.fleet
    stopped = max(fleet.nodes, key=lambda node: len(fleet.held_by(node)))
    held = fleet.held_by(stopped)
    changed = min(held - DOUBLED)
    direct_client = DirectClient(stopped, tuple(sorted(held)))
    direct_client.start()
    eventually(lambda: bool(direct_client.responses), within_s=PATIENCE_S, what="the node responds to direct requests")
    stopped.signal(signal.SIGSTOP)
    world.push(changed)
    newest = world.oracle.newest(changed)
    eventually(
        lambda: not fleet.held_by(stopped) and fleet.is_settled() and fleet.version(changed) == newest,
        within_s=PATIENCE_S,
        what="other nodes hold the stopped node's repositories",
    )
    world.check_served(but=held - DOUBLED)
    before_continuing = len(direct_client.responses)
    stopped.signal(signal.SIGCONT)
    eventually(
        lambda: len(direct_client.responses) > before_continuing + 3,
        within_s=PATIENCE_S,
        what="the continued node responds",
    )
    eventually(stopped.is_ready, within_s=PATIENCE_S, what="the continued node is ready")
    for _, answer in direct_client.stop()[before_continuing:]:
        versions = {file.version for file in answer.files if file.repository == changed}
        assert versions == {newest} or (versions == set() and changed in {each.repository for each in answer.missing})
    world.settle(changed, newest)
    world.check_complete()
    world.oracle.settle()
    world.check_complete()


def restart_the_store(world: World, store: Valkey | Etcd) -> None:
    """The store is back within a TTL, so every lease is kept."""
    store.kill()
    store.start()
    world.fleet.wait_up()
    world.fleet.wait_settled("after the store's restart")
    world.check_complete()


def grow_and_shrink(world: World) -> None:
    """Two nodes join, two leave: successors are ready before the handoff, so nothing is ever missing."""
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
    world.check_complete()


def push_a_commit(world: World) -> None:
    """The old index is served until the new one is ready."""
    world.push("ship-07", b"of the second voyage\n")
    world.settle("ship-07", world.oracle.newest("ship-07"))
    world.check_complete()
    world.oracle.settle()
    world.check_complete()


def drop_a_repository(world: World) -> None:
    """The holder may learn of it before the gateways do; until they do, they report the repository as missing."""
    world.oracle.drop("ship-05")
    world.fleet.remove("ship-05")
    world.settle("ship-05", None)
    world.check_served(but={"ship-05"})
    world.oracle.settle()
    world.check_complete()


def replace_a_gateway(world: World) -> None:
    """The other gateway is not affected, and a new one knows the whole fleet when it reports ready."""
    fleet, killed = world.fleet, world.fleet.gateways[1]
    world.check_complete()
    world.remove_client(next(client for client in world.clients if client.gateway is killed))
    killed.kill()
    fleet.gateways.remove(killed)
    gateway = fleet.member("gateway-3", "gateway")
    fleet.wait_up()
    client = world.add_client(gateway)
    world.check_complete()
    client.stop()
