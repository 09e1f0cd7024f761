"""The rate of a large index beside that of a small one: one chain whose advertisements have about a million each.

The rates are those of the first advertisement and of the last few, for compaction comes in bursts. When each was
applied is seen from outside. The chain is in its publisher's memory: fifty million are two gigabytes.
"""

import asyncio
import time
from itertools import pairwise
from pathlib import Path

from argosy.base.errors import Unavailable
from argosy.bench.harness import Bench
from argosy.bench.ipni import figures
from argosy.bench.ipni.chains import Shape
from argosy.bench.ipni.members import ChainTold, Indexer, indexer_in, publishers

MILLION_CHUNKS = 61  # of 16 384
LAST = 3  # advertisements whose mean is the rate at the end
SEED = 4_000
LOOK_S = 0.1
STEP_S_MAX = 600.0

Instant = tuple[float, float]  # by the clock, and in CPU of the indexer


async def measure_growth(bench: Bench, scratch: Path, millions: int, chunk: int, *, has_goal: bool) -> None:
    by_clock, by_cpu = figures.grown(millions, has_goal=has_goal)
    shape = Shape(millions, MILLION_CHUNKS, chunk)
    async with publishers("cbor", SEED, 1, shape) as served, indexer_in(scratch, "growth") as indexer:
        instants = await _instants(bench, indexer, served.chains[0])
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


async def _instants(bench: Bench, indexer: Indexer, chain: ChainTold) -> list[Instant]:
    """When the first advertisement was begun, and when each was done."""
    seen = [(time.monotonic(), indexer.cpu_s)]
    await indexer.announce(chain, chain.ads[-1])
    while len(seen) <= len(chain.ads):
        applied = await indexer.applied(chain)
        now = (time.monotonic(), indexer.cpu_s)
        done = chain.ads.index(applied) + 1 if applied else 0
        if done >= len(seen):
            bench.say(f"growth: {done} of {len(chain.ads)} million")
        # Two that were done between two looks share the time that both took.
        before, steps = seen[-1], done - len(seen) + 1
        seen += [
            (before[0] + (now[0] - before[0]) * step / steps, before[1] + (now[1] - before[1]) * step / steps)
            for step in range(1, steps + 1)
        ]
        if now[0] - seen[-1][0] > STEP_S_MAX:
            raise Unavailable(f"advertisement {len(seen)} of {len(chain.ads)} was not taken in within {STEP_S_MAX:g} s")
        await asyncio.sleep(LOOK_S)
    return seen
