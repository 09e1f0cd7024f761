"""`argosy node|lease|auction|scale`: the fleet as its store has it."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from argosy.base.backends.servers import Valkey
from argosy.base.clock import SystemClock, system_random
from argosy.cli.root import cli
from argosy.ownership import open_ownership_store
from argosy.ownership.model import Member, SessionRole, Space, Unit


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    """A store in which n1 holds `alpha`, n2 bids for `beta`, and n3 has just joined."""
    with Valkey() as server:
        asyncio.run(populate(server.url))
        yield server.url


async def populate(url: str) -> None:
    clock, random = SystemClock(), system_random()
    store = await open_ownership_store(url, Space("repos", is_auctioned=True), clock=clock, random=random, grace_s=0.0)
    try:
        holders = {}
        for node in ("n1", "n2", "n3"):
            member = Member(node, f"{node}:6070", capabilities=("search",))
            await store.open_session(SessionRole.MEMBER, member, ttl_s=600)
            holders[node] = await store.open_session(SessionRole.HOLDER, member, ttl_s=600)
        for node, unit, max_bids in (("n1", "alpha", 1), ("n2", "beta", 5)):
            await store.place_bid(holders[node], Unit(unit), free_bytes=1, min_bytes=1, max_bids=max_bids, window_s=600)
        await store.close_auction(Unit("alpha"))
    finally:
        await store.close()


def run(store: str, *words: str) -> Result:
    return CliRunner().invoke(cli, [*words, "--store", store])


def run_json(store: str, *words: str) -> Any:
    answer = run(store, *words, "--json")
    assert answer.exit_code == 0, answer.stderr
    return json.loads(answer.stdout)


def test_leases_are_listed(store: str) -> None:
    (lease,) = run_json(store, "lease", "list")
    epoch = lease.pop("epoch")
    assert epoch > 0
    assert lease == {"unit": "alpha", "replica": 0, "node": "n1", "address": "n1:6070", "state": "warming"}
    assert "alpha" in run(store, "lease", "list").output


def test_leases_of_one_node_are_listed(store: str) -> None:
    assert run_json(store, "lease", "list", "--node", "n2") == []
    assert run(store, "lease", "list", "--node", "n2").output == "no leases found\n"


def test_nodes_are_listed_with_what_they_hold(store: str) -> None:
    nodes = {row["node"]: row for row in run_json(store, "node", "list")}
    assert {name: row["leases"] for name, row in nodes.items()} == {"n1": 1, "n2": 0, "n3": 0}
    assert nodes["n1"]["is_bidding"]
    assert nodes["n1"]["capabilities"] == ["search"]
    assert 0 < nodes["n1"]["holder_expires_in_s"] <= 600
    assert "n3:6070" in run(store, "node", "list").output


def test_running_auctions_are_listed(store: str) -> None:
    (auction,) = run_json(store, "auction", "list")
    assert (auction["unit"], auction["max_bids"]) == ("beta", 5)
    assert "beta" in run(store, "auction", "list").output


def test_the_threshold_is_pushed_and_removed(store: str) -> None:
    assert run_json(store, "auction", "set-max-bids", "3") == {"max_bids": 3}
    assert run_json(store, "auction", "set-max-bids", "none") == {"max_bids": None}
    assert run(store, "auction", "set-max-bids", "3").output == "set max-bids to 3\n"


@pytest.mark.parametrize("count", ["0", "many", "-1"])
def test_an_invalid_threshold_is_rejected(store: str, count: str) -> None:
    assert run(store, "auction", "set-max-bids", count).exit_code == 2


def test_the_scale_is_shown(store: str) -> None:
    signal = run_json(store, "scale")
    assert (signal["current_nodes"], signal["desired_nodes"]) == (3, 3)
    assert "desired_nodes" in run(store, "scale").output


def test_another_space_is_empty(store: str) -> None:
    assert run_json(store, "lease", "list", "--space", "shards") == []


def test_a_store_in_the_memory_of_another_process_cannot_be_read() -> None:
    answer = CliRunner().invoke(cli, ["lease", "list"])
    assert answer.exit_code == 2
    assert "pass the store of the fleet with --store URL" in answer.stderr


def test_an_unknown_store_gets_the_list_of_known_ones() -> None:
    answer = run("rediss+tcp://somewhere", "lease", "list")
    assert answer.exit_code == 2
    assert "rediss://" in answer.stderr


def test_an_unavailable_store_is_an_error_and_not_an_empty_fleet() -> None:
    answer = run("redis://127.0.0.1:1", "lease", "list", "--json")
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert json.loads(answer.stderr)["error"]["kind"] == "Unavailable"


def test_a_drain_is_waited_for_as_long_as_a_clock_can() -> None:
    answer = CliRunner().invoke(cli, ["node", "drain", "n1", "--wait", "nan"])
    assert answer.exit_code == 2
    assert "is not a number of seconds" in answer.stderr
