"""A node short of memory evicts repositories, and another node claims them: no response is wrong meanwhile."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from argosy.search.index.sections import memory_bytes
from tests.journeys.fleet import eventually
from tests.journeys.search_fleet import PATIENCE_S, World, create_origin, fleet_in
from tests.journeys.search_oracle import Oracle
from tests.servers.valkey import Valkey

SHIPS = 6
PINNED, GROWING = "ship-01", "ship-04"
LOAD = 0.7  # initial share of the first node's budget in use


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    repos = {f"ship-{number:02}": create_origin(tmp_path / "origins", number) for number in range(SHIPS)}
    oracle = Oracle(tmp_path / "mirrors")
    for name, repo in repos.items():
        oracle.learn(name, repo.path)
    budget_bytes = int(sum(memory_bytes(oracle.index(name)) for name in repos) / LOAD)
    with (
        ExitStack() as stack,
        Valkey() as valkey,
        fleet_in(
            tmp_path,
            ownership_store=valkey.url,
            ownership_grace_s="0",
            ownership_default_footprint_bytes="0",
            registry_url=valkey.url,
            search_budget_bytes=str(budget_bytes),
        ) as fleet,
    ):
        fleet.start(gateways=1, nodes=1)
        for name, repo in repos.items():
            fleet.add(repo, pinned=name == PINNED)
        fleet.wait_settled("at first")
        world = World(fleet, repos, oracle, [])
        stack.callback(world.add_client(fleet.gateways[0]).stop)
        yield world


@pytest.mark.timeout(240)
def test_repositories_over_budget_are_evicted_and_claimed_by_a_node_with_free_memory(world: World) -> None:
    fleet, [tight] = world.fleet, world.fleet.nodes
    assert fleet.held_by(tight) == set(world.repos)
    roomy = fleet.member("node-2", "search")
    fleet.wait_up()
    world.check_complete()
    world.push(GROWING, cargo())
    newest = world.oracle.newest(GROWING)
    eventually(
        lambda: fleet.is_settled() and fleet.version(GROWING) == newest and bool(fleet.held_by(roomy)),
        within_s=PATIENCE_S,
        what="evicted repositories are ready elsewhere",
    )
    moved = fleet.held_by(roomy)
    assert moved < set(world.repos)
    assert PINNED not in moved
    world.settle(GROWING, newest)
    world.check_served(but=moved)
    world.oracle.settle()
    world.check_complete()


def cargo() -> bytes:
    """Enough bytes to make one index three times as large."""
    random = Random(5)
    return b"".join(b"rope %x\n" % random.getrandbits(64) for _ in range(5_000))
