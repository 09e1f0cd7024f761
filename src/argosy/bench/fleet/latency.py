"""Latency of a fleet that has the corpus in memory: the gateway's overhead, a steady load, and maximum throughput.

Overhead: the same query to the gateway and to the node itself, alternating, over connections that stay open. It names
the repositories of one node, so that the gateway sends exactly that query to that node. Beside it, a query over all
repositories: through the gateway, and to all nodes at once from here.

Load: queries at a steady rate however long responses take; then as many as possible, with ripgrep and zoekt on the same
text.
"""

import asyncio
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from argosy.base.errors import Unavailable
from argosy.bench.fleet import figures
from argosy.bench.fleet.fleet_processes import FleetProcesses
from argosy.bench.fleet.http_load import LoadConnections
from argosy.bench.fleet.query_load import (
    CALLERS,
    LoadQuery,
    QueryResult,
    gateway_query,
    node_query,
    open_connections,
    run_at_full_speed,
    run_at_rate,
    run_query,
)
from argosy.bench.harness import Bench, Run, Values, percentile
from argosy.bench.machine import describe
from argosy.bench.search.bench_query import BenchQuery
from argosy.bench.search.peers import SearchPeer, open_peers

PEER_QUERIES = 8  # few, because ripgrep reads the whole corpus for each of them


# -- overhead of the gateway ------------------------------------------------------------------------------------------


@dataclass
class OverheadTimes:
    """Times of the same queries, sent both ways."""

    direct_s: list[float]
    added_s: list[float]
    added_all_s: list[float]
    gateway_cpu_s: list[float]


async def measure_overhead(
    bench: Bench, fleet: FleetProcesses, repositories: Mapping[str, dict[str, Any]], words: Sequence[str], rounds: int
) -> None:
    held = {node.address: fleet.repositories_of(node, repositories) for node in fleet.nodes}
    node = max(held, key=lambda address: len(held[address]))
    times: list[OverheadTimes] = []
    async with open_connections() as connections:
        for number in range(rounds):
            bench.progress(f"overhead, {number + 1} of {rounds}")
            times.append(await _compare_ways(connections, fleet, node, held, words))
    # The median of the differences, and not the difference of the medians: each query is its own control.
    bench.record(figures.OVERHEAD, [statistics.median(each.added_s) * 1e3 for each in times])
    bench.record(figures.OVERHEAD_ALL, [statistics.median(each.added_all_s) * 1e3 for each in times])
    bench.record(figures.OVERHEAD_CPU, [statistics.mean(each.gateway_cpu_s) * 1e3 for each in times])
    bench.record(figures.DIRECT, [statistics.median(each.direct_s) * 1e3 for each in times])


async def _compare_ways(
    connections: LoadConnections, fleet: FleetProcesses, node: str, held: Mapping[str, list[str]], words: Sequence[str]
) -> OverheadTimes:
    times = OverheadTimes([], [], [], [])
    address = fleet.gateway.address
    for number, word in enumerate(words):
        is_direct_first = number % 2 == 0
        direct, routed = node_query(node, word, held[node]), gateway_query(address, word, held[node])
        # The CPU of both gateway requests, the one for warming included, hence the half.
        cpu_s = fleet.gateway.cpu_s
        direct_s, routed_s = await _time_both(connections, [direct], [routed], is_first=is_direct_first)
        times.gateway_cpu_s.append((fleet.gateway.cpu_s - cpu_s) / 2)
        times.direct_s.append(direct_s)
        times.added_s.append(routed_s - direct_s)
        nodes = [node_query(each, word, names) for each, names in held.items() if names]
        direct_s, routed_s = await _time_both(
            connections, nodes, [gateway_query(address, word)], is_first=is_direct_first
        )
        times.added_all_s.append(routed_s - direct_s)
    return times


async def _time_both(
    connections: LoadConnections, one: Sequence[LoadQuery], other: Sequence[LoadQuery], *, is_first: bool
) -> tuple[float, float]:
    """Each way twice, of which the second counts: then caches are equally warm for both."""
    ways = {True: one, False: other}
    took_s: dict[bool, float] = {}
    for is_one in (is_first, not is_first) * 2:
        took_s[is_one] = await _run_all(connections, ways[is_one])
    return took_s[True], took_s[False]


async def _run_all(connections: LoadConnections, queries: Sequence[LoadQuery]) -> float:
    results: list[QueryResult] = await asyncio.gather(*(run_query(connections, each) for each in queries))
    if not all(each.is_complete for each in results):
        raise Unavailable(f"an idle fleet returned incomplete results, status {[each.status for each in results]}")
    # A gateway waits for the slowest node too.
    return max(each.took_s for each in results)


# -- load -------------------------------------------------------------------------------------------------------------


async def measure_load(
    bench: Bench,
    fleet: FleetProcesses,
    words: Sequence[str],
    *,
    corpus: Path,
    scratch: Path,
    seconds: float,
    rounds: int,
) -> None:
    queries = [gateway_query(fleet.gateway.address, word) for word in words]
    all_results: list[QueryResult] = []
    cpu: list[dict[str, float]] = []

    async def run_steady() -> Values:
        bench.progress(f"{figures.RATE_PER_S} queries/s for {seconds:g} s")
        before = _cpu_s(fleet)
        results = await asyncio.to_thread(_run_steady_load, queries, seconds)
        all_results.extend(results)
        cpu.append({name: (after - before[name]) / len(results) * 1e3 for name, after in _cpu_s(fleet).items()})
        return _load_values(results, cpu[-1])

    async def run_fast() -> float:
        bench.progress(f"{CALLERS} callers")
        async with open_connections() as connections:
            rate, results = await run_at_full_speed(connections, queries, seconds)
        all_results.extend(results)
        return rate

    await bench.measure(*figures.STEADY, run=run_steady, repeats=rounds)
    if bench.wants(figures.THROUGHPUT.id):
        await _measure_throughput(bench, run_fast, words, corpus, scratch)
    if all_results:
        bench.record(figures.ERRORS, [sum(not each.is_complete for each in all_results)])
        bench.details["cpu_ms_per_query"] = cpu
        bench.notes.append(
            f"load: {len(all_results):,} queries in all; CPU in ms per query, by process: {_format_cpu(cpu)}"
        )


def _run_steady_load(queries: Sequence[LoadQuery], seconds: float) -> list[QueryResult]:
    """On uvloop, as the fleet runs: what the load generator saves is left for the processes that it measures."""

    async def load() -> list[QueryResult]:
        async with open_connections() as connections:
            return await run_at_rate(connections, queries, figures.RATE_PER_S, seconds)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(load())


def _load_values(results: Sequence[QueryResult], cpu: Mapping[str, float]) -> Values:
    took_ms = [each.took_s * 1e3 for each in results]
    return {
        figures.P50.id: percentile(took_ms, 0.50),
        figures.P95.id: percentile(took_ms, 0.95),
        figures.P99.id: percentile(took_ms, 0.99),
        figures.GATEWAY_CPU.id: cpu["gateway"],
        figures.NODES_CPU.id: sum(each for name, each in cpu.items() if name.startswith("node")),
    }


def _cpu_s(fleet: FleetProcesses) -> dict[str, float]:
    return {**{each.name: each.cpu_s for each in (fleet.gateway, *fleet.nodes)}, "client": time.process_time()}


def _format_cpu(cpu: Sequence[Mapping[str, float]]) -> str:
    names = cpu[0] if cpu else ()
    return ", ".join(f"{name} {statistics.median(each[name] for each in cpu):.2f}" for name in names)


async def _measure_throughput(bench: Bench, own: Run, words: Sequence[str], corpus: Path, scratch: Path) -> None:
    adapters = bench.load_peers("search")
    openers = {} if adapters is None else {name: adapters.PEERS[name] for name in ("rg", "zoekt")}
    bench.progress("building the peers' indexes")
    peers, absent = await asyncio.to_thread(open_peers, openers, corpus, scratch)
    bench.notes += [f"{name} is absent: {why}" for name, why in absent.items()]
    queries = [BenchQuery("identifier", (word,)) for word in words[:PEER_QUERIES]]
    try:
        await bench.measure(
            figures.THROUGHPUT,
            run=own,
            peers={peer.name: partial(_peer_throughput, peer, queries) for peer in peers},
        )
    finally:
        for peer in peers:
            peer.close()


async def _peer_throughput(peer: SearchPeer, queries: Sequence[BenchQuery]) -> float:
    """With all cores: by the program's own threads, or by as many concurrent callers as Argosy has."""
    cores = int(describe()["cores"] or 1)
    callers = 1 if peer.is_threaded else CALLERS

    def run() -> float:
        started = time.perf_counter()
        with ThreadPoolExecutor(callers) as pool:
            list(pool.map(lambda query: peer.run_query(query, "top", cores), queries))
        return len(queries) / (time.perf_counter() - started)

    return await asyncio.to_thread(run)
