"""Questions at a steady rate, whatever answers take; then as many as there can be, beside peers on the same text."""

import asyncio
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import uvloop

from argosy.bench.fleet import figures
from argosy.bench.fleet.members import Fleet
from argosy.bench.fleet.query_load import (
    CALLERS,
    Question,
    Seen,
    as_fast_as_they_go,
    at_rate,
    percentile,
    session,
    to_door,
)
from argosy.bench.harness import Bench, Run, Values
from argosy.bench.machine import describe
from argosy.bench.search.bench_query import Ask
from argosy.bench.search.peers import Peer, Ripgrep, present
from argosy.bench.search.zoekt import Zoekt

PEER_ASKS = 8


async def measure_load(
    bench: Bench, fleet: Fleet, words: Sequence[str], *, corpus: Path, scratch: Path, seconds: float, rounds: int
) -> None:
    questions = [to_door(fleet.door.address, word) for word in words]
    seen: list[Seen] = []
    cpu: list[dict[str, float]] = []

    async def steadily() -> Values:
        bench.say(f"{figures.RATE_PER_S} queries/s for {seconds:g} s")
        before = _cpu_s(fleet)
        told = await asyncio.to_thread(_asked, questions, seconds)
        seen.extend(told)
        cpu.append({name: (after - before[name]) / len(told) * 1e3 for name, after in _cpu_s(fleet).items()})
        return _values(told, cpu[-1])

    async def fast() -> float:
        bench.say(f"{CALLERS} callers")
        async with session() as opened:
            rate, told = await as_fast_as_they_go(opened, questions, seconds)
        seen.extend(told)
        return rate

    await bench.measure(*figures.STEADY, run=steadily, repeats=rounds)
    if bench.wants(figures.THROUGHPUT.id):
        await _beside_peers(bench, fast, words, corpus, scratch)
    if seen:
        bench.record(figures.ERRORS, [sum(not each.is_whole for each in seen)])
        bench.details["cpu_ms_per_query"] = cpu
        bench.notes.append(f"load: {len(seen):,} queries in all; CPU in ms per query, by process: {_told(cpu)}")


def _asked(questions: Sequence[Question], seconds: float) -> list[Seen]:
    """At the steady rate, on the same kind of event loop that the fleet has: it is the quickest there is."""

    async def asking() -> list[Seen]:
        async with session() as opened:
            return await at_rate(opened, questions, figures.RATE_PER_S, seconds)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(asking())


def _values(seen: Sequence[Seen], cpu: Mapping[str, float]) -> Values:
    took_ms = [each.took_s * 1e3 for each in seen]
    return {
        figures.P50.id: percentile(took_ms, 0.50),
        figures.P95.id: percentile(took_ms, 0.95),
        figures.P99.id: percentile(took_ms, 0.99),
        figures.DOOR_CPU.id: cpu["door"],
        figures.NODES_CPU.id: sum(each for name, each in cpu.items() if name.startswith("node")),
    }


def _cpu_s(fleet: Fleet) -> dict[str, float]:
    return {**{member.name: member.cpu_s for member in (fleet.door, *fleet.nodes)}, "asking": time.process_time()}


def _told(cpu: Sequence[Mapping[str, float]]) -> str:
    names = cpu[0] if cpu else ()
    return ", ".join(f"{name} {statistics.median(each[name] for each in cpu):.2f}" for name in names)


async def _beside_peers(bench: Bench, own: Run, words: Sequence[str], corpus: Path, scratch: Path) -> None:
    bench.say("the peers' own indexes")
    peers, absent = await asyncio.to_thread(present, {"rg": Ripgrep.open, "zoekt": Zoekt.open}, corpus, scratch)
    bench.notes += [f"{name} is absent: {why}" for name, why in absent.items()]
    asks = [Ask("identifier", (word,)) for word in words[:PEER_ASKS]]
    try:
        await bench.measure(
            figures.THROUGHPUT,
            run=own,
            peers={peer.name: partial(_peer_per_s, peer, asks) for peer in peers},
        )
    finally:
        for peer in peers:
            peer.close()


async def _peer_per_s(peer: Peer, asks: Sequence[Ask]) -> float:
    """With all cores: by the program's own threads, or by as many callers as ask us."""
    cores = int(describe()["cores"] or 1)
    callers = 1 if peer.is_threaded else CALLERS

    def run() -> float:
        began = time.perf_counter()
        with ThreadPoolExecutor(callers) as pool:
            list(pool.map(lambda ask: peer.ask(ask, "top", cores), asks))
        return len(asks) / (time.perf_counter() - began)

    return await asyncio.to_thread(run)
