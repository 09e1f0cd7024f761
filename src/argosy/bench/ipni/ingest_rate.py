"""Multihashes taken in by one indexer, from chunks that a process beside it serves, while somebody asks for some.

Each run takes in chains of publishers that are new; what earlier runs brought stays, as it would. The publishers' own
CPU is told apart. Disk is what lies in the folder when the indexer has been stopped in order.
"""

import asyncio
from pathlib import Path

from argosy.bench.fleet.query_load import percentile
from argosy.bench.harness import Bench, Values
from argosy.bench.ipni import digests, figures
from argosy.bench.ipni.chains import Shape
from argosy.bench.ipni.find_load import Asked, at_rate
from argosy.bench.ipni.members import Indexer, Publishers, indexer_in, publishers

FINDS_PER_S = 50
ASKED_FOR = 1_000  # different multihashes, half of them absent
SEEDS = {"cbor": 1_000, "json": 2_000}
WARM = Shape(1, 1, 1_024)  # what is there to be found before the first run


async def measure_ingest(bench: Bench, scratch: Path, codec: str, shape: Shape, repeats: int) -> None:
    """The first chain is small: it is what finds hit from the beginning."""
    seed, wanted = SEEDS[codec], figures.ingest(codec)
    publishers_cpu: list[float] = []
    async with (
        publishers(codec, seed, 1, WARM) as warm,
        publishers(codec, seed + 1, repeats, shape) as served,
        indexer_in(scratch, f"ingest-{codec}") as indexer,
    ):
        await indexer.take(warm.chains[0])
        chains = iter(served.chains)

        async def run() -> Values:
            began_s = served.cpu_s
            values = await _taken(indexer, served, next(chains).url, shape, seed, codec)
            publishers_cpu.append((served.cpu_s - began_s) / shape.multihashes * 1e6)
            return values

        await bench.measure(*wanted, run=run, repeats=repeats)
        await indexer.stop()
        if codec == "cbor":
            bench.record(figures.DISK, [indexer.disk_bytes() / (shape.multihashes * repeats + WARM.multihashes)])
    least = min(publishers_cpu, default=0.0)
    bench.notes.append(
        f"ingest.{codec}: {shape.multihashes:,} multihashes a run; the publishers' process took {least:.2f} µs for each"
    )


async def _taken(indexer: Indexer, served: Publishers, url: str, shape: Shape, seed: int, codec: str) -> Values:
    [chain] = [each for each in served.chains if each.url == url]
    rate, cpu, p50, p99 = figures.ingest(codec)
    is_over = asyncio.Event()
    half = ASKED_FOR // 2
    sought = list(digests.mixed(digests.chunk(seed, 0, WARM.chunk)[:half], digests.absent(seed, half)))
    finding = asyncio.ensure_future(at_rate(indexer.session, indexer.url, sought, FINDS_PER_S, is_over))
    try:
        before_s = indexer.cpu_s
        took_s = await indexer.take(chain)
        spent_s = indexer.cpu_s - before_s
    finally:
        is_over.set()
        asked: Asked = await finding
    asked.check()
    return {
        rate.id: shape.multihashes / took_s,
        cpu.id: spent_s / shape.multihashes * 1e6,
        p50.id: percentile(asked.took_s, 0.5) * 1e3,
        p99.id: percentile(asked.took_s, 0.99) * 1e3,
    }
