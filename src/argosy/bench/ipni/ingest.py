"""Multihashes ingested by one indexer: from chunks that a process beside it serves, with concurrent finds; and the rate
of a large index relative to a small one.

The clock runs from the announcement until the last advertisement is applied: fetched, verified against its hash,
decoded and stored. The CPU of the publishers is measured apart and given in a note.
"""

import asyncio
import time
from itertools import pairwise
from pathlib import Path

from argosy.base.errors import Unavailable
from argosy.bench.harness import Bench, Values, percentile
from argosy.bench.ipni import figures
from argosy.bench.ipni.chains import ChainShape, absent_multihashes, alternate, chunk_multihashes
from argosy.bench.ipni.find_load import FindResults, run_at_rate
from argosy.bench.ipni.processes import (
    AnnouncedChain,
    IndexerProcess,
    start_indexer,
    start_publishers,
)

FINDS_PER_S = 50
SOUGHT = 1_000  # different multihashes, half of them absent
SEEDS = {"cbor": 1_000, "json": 2_000}
FINDABLE = ChainShape(1, 1, 1_024)  # ingested before the first run, for the concurrent finds


async def measure_ingest(bench: Bench, scratch: Path, codec: str, shape: ChainShape, repeats: int) -> None:
    """Each run ingests a chain of a new publisher. What earlier runs brought stays in the index."""
    seed, ingest_figures = SEEDS[codec], figures.ingest(codec)
    publisher_cpu_us: list[float] = []
    async with (
        start_publishers(codec, seed, 1, FINDABLE) as findable,
        start_publishers(codec, seed + 1, repeats, shape) as publishers,
        start_indexer(scratch, f"ingest-{codec}") as indexer,
    ):
        # Small, and before the clock starts: the finds of the first run need something to hit.
        await indexer.ingest(findable.chains[0])
        chains = iter(publishers.chains)

        async def run() -> Values:
            before_s = publishers.cpu_s
            values = await _ingest_with_finds(indexer, next(chains), shape, seed, codec)
            publisher_cpu_us.append((publishers.cpu_s - before_s) / shape.multihashes * 1e6)
            return values

        await bench.measure(*ingest_figures, run=run, repeats=repeats)
        await indexer.stop()  # flushes, so that the bytes on disk are all of it
        if codec == "cbor":
            multihashes = shape.multihashes * repeats + FINDABLE.multihashes
            bench.record(figures.DISK, [indexer.disk_bytes() / multihashes])
    least_us = min(publisher_cpu_us, default=0.0)
    bench.notes.append(
        f"ingest.{codec}: {shape.multihashes:,} multihashes a run; the publishers took {least_us:.2f} µs CPU for each"
    )


async def _ingest_with_finds(
    indexer: IndexerProcess, chain: AnnouncedChain, shape: ChainShape, seed: int, codec: str
) -> Values:
    rate, cpu, p50, p99 = figures.ingest(codec)
    is_over = asyncio.Event()
    half = SOUGHT // 2
    present = chunk_multihashes(seed, 0, FINDABLE.chunk)[:half]
    sought = list(alternate(present, absent_multihashes(seed, half)))
    finding = asyncio.ensure_future(run_at_rate(indexer.session, indexer.url, sought, FINDS_PER_S, is_over))
    try:
        before_s = indexer.cpu_s
        took_s = await indexer.ingest(chain)
        spent_s = indexer.cpu_s - before_s
    finally:
        is_over.set()
        finds: FindResults = await finding
    # A fast ingest that answers finds with errors is no result.
    finds.check_hits()
    return {
        rate.id: shape.multihashes / took_s,
        cpu.id: spent_s / shape.multihashes * 1e6,
        p50.id: percentile(finds.took_s, 0.5) * 1e3,
        p99.id: percentile(finds.took_s, 0.99) * 1e3,
    }


# -- growth -----------------------------------------------------------------------------------------------------------

MILLION_CHUNKS = 61  # of 16,384
LAST = 3  # advertisements whose mean is the rate at the end, because compaction comes in bursts
GROWTH_SEED = 4_000
GROWTH_POLL_S = 0.1
STEP_S_MAX = 600.0

Instant = tuple[float, float]  # by the clock, and in CPU time of the indexer


async def measure_growth(bench: Bench, scratch: Path, millions: int, chunk: int, *, has_goal: bool) -> None:
    """One chain whose advertisements have about a million multihashes each.

    The chain is in the memory of its publisher: fifty million multihashes are two gigabytes.
    """
    by_clock, by_cpu = figures.growth(millions, has_goal=has_goal)
    shape = ChainShape(millions, MILLION_CHUNKS, chunk)
    async with (
        start_publishers("cbor", GROWTH_SEED, 1, shape) as publishers,
        start_indexer(scratch, "growth") as indexer,
    ):
        instants = await _measure_apply_times(bench, indexer, publishers.chains[0])
        disk = indexer.disk_bytes() / shape.multihashes
    spans = [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(instants)]
    first, last = spans[0], spans[-min(LAST, len(spans) - 1) :]
    last_s, last_cpu_s = (sum(part) / len(last) for part in zip(*last, strict=True))
    bench.record(by_clock, [first[0] / last_s])
    bench.record(by_cpu, [first[1] / last_cpu_s])
    each = MILLION_CHUNKS * chunk
    bench.notes.append(
        f"growth: {each / first[0]:,.0f}/s at the start, {each / last_s:,.0f}/s at the end; {disk:.1f} bytes on disk "
        "for each, the log included"
    )


async def _measure_apply_times(bench: Bench, indexer: IndexerProcess, chain: AnnouncedChain) -> list[Instant]:
    """When the first advertisement was started, and when each was applied, as polled from outside."""
    instants = [(time.monotonic(), indexer.cpu_s)]
    await indexer.announce(chain, chain.ads[-1])
    while len(instants) <= len(chain.ads):
        applied = await indexer.last_applied(chain)
        now = (time.monotonic(), indexer.cpu_s)
        done = chain.ads.index(applied) + 1 if applied else 0
        if done >= len(instants):
            bench.progress(f"growth: {done} of {len(chain.ads)} million")
        # Advertisements that were applied between two polls share the time that they took together.
        before, steps = instants[-1], done - len(instants) + 1
        instants += [
            (before[0] + (now[0] - before[0]) * step / steps, before[1] + (now[1] - before[1]) * step / steps)
            for step in range(1, steps + 1)
        ]
        if now[0] - instants[-1][0] > STEP_S_MAX:
            raise Unavailable(
                f"advertisement {len(instants)} of {len(chain.ads)} was not ingested within {STEP_S_MAX:g} s"
            )
        await asyncio.sleep(GROWTH_POLL_S)
    return instants
