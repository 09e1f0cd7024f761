"""A node leaves the fleet: killed while queries arrive at a steady rate, or drained with a large index.

Killed, it shows which queries fail and for how long. Drained, it shows how much sooner the successor serves with the
index it receives than with one that it would build itself.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from argosy.base.errors import Unavailable
from argosy.bench.fleet import figures
from argosy.bench.fleet.fleet_processes import FleetProcesses, ready_at, start_fleet
from argosy.bench.fleet.query_load import QueryResult, gateway_query, open_connections, run_until
from argosy.bench.fleet.repositories import create_repository, small_repositories
from argosy.bench.harness import Bench
from argosy.bench.processes import TOKEN, ServerProcess, wait_until_seen

REPOSITORIES = 24
RATE_PER_S = 50.0
MARGIN_S = 1.0  # of load before the node dies, and after the fleet has settled
SETTLED_S_MAX = 600.0
# Words of the small repositories: some are in all of them, one in a single one.
QUERIES = ("anchor", "bosun", "storm", "harbour", "moor_1", "keel -file:md")
LARGE = "large"  # the repository of the drain


@dataclass(frozen=True)
class FailoverSettings:
    """How soon a dead node is detected, and how long an auction may last."""

    ttl_s: float
    renew_s: float
    window_s: float

    def settings(self) -> dict[str, object]:
        return {
            "ownership_ttl_s": self.ttl_s,
            "ownership_renew_s": self.renew_s,
            "ownership_window_s": self.window_s,
        }


@dataclass(frozen=True)
class NodeLoss:
    """What clients saw of a node's death."""

    killed_at: float
    affected: frozenset[str]  # repositories of which it had the only copy
    results: Sequence[QueryResult]
    reindexed_s: float  # indexing the affected repositories again took the busiest node this long

    @property
    def failures(self) -> list[QueryResult]:
        return [each for each in self.results if not each.is_complete]

    @property
    def unrelated_failures(self) -> list[QueryResult]:
        """Failures that losing this node does not explain: an error, or a missing repository that others hold."""
        return [each for each in self.failures if each.status != 200 or not each.missing <= self.affected]

    @property
    def outage_s(self) -> float:
        """Until the start of the last query that was not answered completely."""
        return max((each.started_at - self.killed_at for each in self.failures), default=0.0)


async def measure_node_loss(bench: Bench, scratch: Path, failover: FailoverSettings, nodes: int) -> None:
    specs = small_repositories(scratch / "losing", REPOSITORIES)
    if bench.wants(figures.FAILED_WITH_REPLICA.id):
        bench.progress("killing a node, every repository with a replica")
        replicated = [{**spec, "replicas": 1} for spec in specs]
        loss = await _lose_node(scratch / "replicated", failover, nodes, replicated)
        bench.record(figures.FAILED_WITH_REPLICA, [len(loss.failures)])
        bench.notes.append(f"killed, with replica: {len(loss.results):,} queries; {_count_failures(loss.failures)}")
    if bench.wants(figures.OUTAGE.id, figures.FAILED_OF_OTHERS.id):
        bench.progress("killing a node, no replicas")
        loss = await _lose_node(scratch / "single", failover, nodes, specs)
        # Below the sum of TTL, window and indexing nothing can go: the lease must expire, an auction must be held, and
        # the index must be built. So the goal is what this run had to take, and not a constant.
        bench.record(figures.outage(failover.ttl_s + failover.window_s + loss.reindexed_s), [loss.outage_s])
        bench.record(figures.FAILED_OF_OTHERS, [len(loss.unrelated_failures)])
        bench.notes.append(
            f"killed, no replica: TTL {failover.ttl_s:g} s, window {failover.window_s:g} s, reindexing "
            f"{loss.reindexed_s:.1f} s; {len(loss.affected)} of {len(specs)} repositories affected; "
            f"{_count_failures(loss.failures)}"
        )


def _count_failures(failed: Sequence[QueryResult]) -> str:
    errors = sum(each.status != 200 for each in failed)
    return f"{errors} errors, {len(failed) - errors} incomplete results" if failed else "all results complete"


async def _lose_node(
    directory: Path, failover: FailoverSettings, nodes: int, specs: list[dict[str, object]]
) -> NodeLoss:
    with start_fleet(directory, failover.settings(), nodes=nodes) as fleet:
        await fleet.wait_up()
        await asyncio.to_thread(fleet.import_repositories, specs)
        found = await fleet.wait_settled(len(specs), SETTLED_S_MAX)
        victim = max(fleet.nodes, key=lambda node: len(fleet.repositories_of(node, found)))  # where most is at stake
        held = frozenset(fleet.repositories_of(victim, found))
        is_over, queries = asyncio.Event(), [gateway_query(fleet.gateway.address, query) for query in QUERIES]
        async with open_connections() as connections:
            load = asyncio.ensure_future(run_until(connections, queries, RATE_PER_S, is_over))
            # Load before the death too: a query that was running at that instant is one of those that may fail.
            await asyncio.sleep(MARGIN_S)
            killed_at = time.monotonic()
            victim.stop()
            found = await fleet.wait_settled(len(specs), SETTLED_S_MAX)
            await asyncio.sleep(MARGIN_S)
            is_over.set()
            results = await load
        return NodeLoss(killed_at, held, results, _reindexed_s(fleet, victim, held, found))


def _reindexed_s(
    fleet: FleetProcesses, victim: ServerProcess, names: frozenset[str], repositories: Mapping[str, dict[str, Any]]
) -> float:
    """Sequentially, by the node that had most to index: an upper bound, since nodes index several at a time."""
    by_node = {node.address: 0.0 for node in fleet.nodes if node is not victim}
    for name in names:
        for address in [holder["address"] for holder in repositories[name]["holders"]][:1]:
            each = repositories[name]
            by_node[address] += (each["fetch_time_ms"] + each["index_time_ms"]) / 1e3
    return max(by_node.values())


# -- drain ------------------------------------------------------------------------------------------------------------


async def measure_drain(bench: Bench, scratch: Path, tree: Path, rounds: int) -> None:
    """`tree`: the files of the large repository. It must be large, or the fixed cost of a handoff hides the gain."""
    bench.progress("creating a large repository")
    origin = scratch / "large.git"
    create_repository(origin, tree)
    with start_fleet(scratch / "drain", nodes=2) as fleet:
        await fleet.wait_up()
        fleet.import_repositories([{"url": str(origin), "name": LARGE}])
        bench.progress("indexing it")
        found = (await fleet.wait_settled(1, SETTLED_S_MAX))[LARGE]
        indexed_s = (found["fetch_time_ms"] + found["index_time_ms"]) / 1e3
        bench.notes.append(f"drain: a repository of {found['content_bytes'] / 1e6:,.0f} MB, from git on this machine")
        ready_s: list[float] = []
        received_s: list[float] = []
        for number in range(rounds):
            bench.progress(f"draining, {number + 1} of {rounds}")
            ready, received = await _drain_holder(fleet)
            ready_s.append(ready)
            received_s.append(received)
    bench.record(figures.DRAIN_TIMES, [indexed_s / each for each in ready_s])
    bench.record(figures.DRAIN_READY, ready_s)
    bench.record(figures.DRAIN_RECEIVED, received_s)
    bench.record(figures.REINDEXED, [indexed_s])


async def _drain_holder(fleet: FleetProcesses) -> tuple[float, float]:
    """Seconds from the drain request until another node serves in its place, and those of receiving the index alone."""
    addresses = ready_at((await fleet.repositories())[LARGE])
    holder = next(node for node in fleet.nodes if node.address in addresses)
    started = time.monotonic()
    await _request_drain(holder)
    found: dict[str, Any] = {}

    async def has_moved() -> bool:
        nonlocal found
        found = (await fleet.repositories()).get(LARGE, {})
        return bool(found) and bool(ready_at(found) - {holder.address})

    await wait_until_seen(has_moved, SETTLED_S_MAX, "another node is ready")
    took_s = time.monotonic() - started
    if found["index_time_ms"]:  # then the time is that of a build, and not of a handoff
        raise Unavailable(f"the successor built the index instead of receiving it: {_explain(fleet, found)}")
    fleet.start_node()
    await _replace_node(fleet, holder)
    return took_s, found["fetch_time_ms"] / 1e3


def _explain(fleet: FleetProcesses, repository: Mapping[str, Any]) -> str:
    """The log events of the nodes about the index."""
    failed = [
        f"{node.name}: {event['step']}: {event['why']}"
        for node in fleet.nodes
        for event in node.log_events("index job failed")
    ]
    provisioned = [
        f"{node.name}: {event['how']}" for node in fleet.nodes for event in node.log_events("index provisioned")
    ]
    return "; ".join([*failed, *provisioned, f"served at {sorted(ready_at(repository))}"])


async def _replace_node(fleet: FleetProcesses, gone: ServerProcess) -> None:
    """Wait until the drained node has exited and the rest of the fleet, with the new node, has settled."""

    async def has_exited() -> bool:
        return not gone.is_alive

    await wait_until_seen(has_exited, SETTLED_S_MAX, "the drained node exits")
    fleet.nodes.remove(gone)
    await fleet.wait_up()
    await fleet.wait_settled(1, SETTLED_S_MAX)


async def _request_drain(node: ServerProcess) -> None:
    async with (
        aiohttp.ClientSession(headers={"authorization": f"Bearer {TOKEN}"}) as session,
        session.post(f"http://{node.address}/v1/drain", json={}) as response,
    ):
        if response.status != 202:
            raise Unavailable(f"{node.name} did not accept the drain: {response.status} {await response.text()}")
