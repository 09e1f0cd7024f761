"""Finds by an indexer that has one core, and all of it; who asks has the others."""

import asyncio
import os
from pathlib import Path

from argosy.bench.fleet.query_load import percentile
from argosy.bench.harness import Bench, Values
from argosy.bench.ipni import digests, figures
from argosy.bench.ipni.chains import Shape
from argosy.bench.ipni.find_load import as_fast_as_they_go, requests
from argosy.bench.ipni.members import indexer_in, publishers

CALLERS = 16
ASKED_FOR = 8_192  # different multihashes, half of them absent
SEED = 3_000


async def measure_finds(bench: Bench, scratch: Path, shape: Shape, seconds: float) -> None:
    cores = sorted(os.sched_getaffinity(0))
    async with publishers("cbor", SEED, 1, shape) as served, indexer_in(scratch, "find") as indexer:
        await indexer.take(served.chains[0])
        indexer.pin({cores[0]})
        half = min(ASKED_FOR // 2, shape.chunk)
        sought = digests.mixed(digests.chunk(SEED, 0, half), digests.absent(SEED, half))
        asks = requests(indexer.url, sought)

        async def run() -> Values:
            before_s = indexer.cpu_s
            asked = await asyncio.to_thread(as_fast_as_they_go, indexer.url, asks, seconds, CALLERS)
            spent_s = indexer.cpu_s - before_s
            asked.check()
            return {
                figures.FIND.id: asked.rate,
                figures.FIND_CPU.id: spent_s / len(asked.took_s) * 1e6,
                figures.FIND_P50.id: percentile(asked.took_s, 0.5) * 1e3,
            }

        await bench.measure(*figures.FINDS, run=run)
    bench.notes.append(
        f"find: {shape.multihashes:,} multihashes in the index, half of the questions find something, {CALLERS} callers"
    )
