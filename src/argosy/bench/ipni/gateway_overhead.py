"""A gateway before several indexers: what it adds to a find, and what one costs that stalls or dies.

Each indexer holds a chain of its own, and finds are put one after the other. First the same multihashes are asked of
the indexers themselves and of the gateway, in turn. Then one indexer is stopped in its tracks, later another is killed,
both of them such that nobody asks for what they hold; the finds that count are those after the gateway has left it
alone. All processes share the machine, so what all of them spend on a find is told as well.
"""

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from argosy.base.errors import Unavailable
from argosy.bench.fleet.query_load import percentile
from argosy.bench.harness import Bench, Figure, Values
from argosy.bench.ipni import digests, figures
from argosy.bench.ipni.chains import Shape
from argosy.bench.ipni.find_load import ask_in_turn, requests
from argosy.bench.ipni.members import SAID_MAX, Indexer, indexer_in, publishers
from argosy.bench.machine import cpu_s

SEED = 5_000
HELD = Shape(1, 1, 4_096)  # by each indexer
SHARE = 64  # multihashes of each that are asked for
PASSED_OVER_S = 0.04  # a find that waits for an indexer in trouble takes longer than this
CALM = 50  # finds in a row that did not: it is left alone
CALM_S_MAX = 60.0
UP_S_MAX = 60.0


@dataclass(frozen=True)
class Spent:
    """Who spends CPU on a find."""

    gateway: int  # process id
    indexers: Sequence[Indexer]

    def seconds(self) -> tuple[float, float]:
        """By the gateway, and by all indexers."""
        return cpu_s(self.gateway), sum(each.cpu_s for each in self.indexers)


async def measure_gateway(bench: Bench, scratch: Path, finds: int, repeats: int) -> None:
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(publishers("cbor", SEED, figures.FAN_OUT, HELD))
        entered = [
            stack.enter_async_context(indexer_in(scratch, f"indexer-{number}")) for number in range(figures.FAN_OUT)
        ]
        indexers = list(await asyncio.gather(*entered))
        await asyncio.gather(*(each.take(chain) for each, chain in zip(indexers, served.chains, strict=True)))
        door, pid = await stack.enter_async_context(_gateway([each.url for each in indexers]))
        # The last two get into trouble later; nobody asks for what they hold.
        sought = [digests.chunk(SEED + number, 0, SHARE) for number in range(len(indexers) - 2)]
        at_door = requests(door, [each for held in sought for each in held])
        spent = Spent(pid, indexers)
        await _measure_added(bench, door, at_door, spent, sought, finds, repeats)
        await _measure_losses(bench, door, at_door, indexers, finds)


async def _measure_added(
    bench: Bench,
    door: str,
    at_door: Sequence[bytes],
    spent: "Spent",
    sought: Sequence[list[bytes]],
    finds: int,
    repeats: int,
) -> None:
    per_indexer = [(each.url, requests(each.url, held)) for each, held in zip(spent.indexers, sought, strict=False)]

    async def run() -> Values:
        direct: list[float] = []
        for url, asks in per_indexer:
            direct += await _took_s(url, asks, finds // len(per_indexer))
        p50 = percentile(direct, 0.5) * 1e3
        door_s, indexers_s = spent.seconds()
        spread_p50 = percentile(await _took_s(door, at_door, finds), 0.5) * 1e3
        door_then_s, indexers_then_s = spent.seconds()
        return {
            figures.SPREAD_CPU.id: (door_then_s - door_s) / finds * 1e6,
            figures.INDEXERS_CPU.id: (indexers_then_s - indexers_s) / finds * 1e6,
            figures.DIRECT_P50.id: p50,
            figures.SPREAD_P50.id: spread_p50,
            figures.ADDED_P50.id: spread_p50 - p50,
        }

    await bench.measure(*figures.SPREADS, run=run, repeats=repeats)


async def _measure_losses(
    bench: Bench, door: str, at_door: Sequence[bytes], indexers: Sequence[Indexer], finds: int
) -> None:
    if not bench.wants(*[figure.id for figure in figures.LOSSES]):
        return
    whole = await _took_s(door, at_door, finds)
    bench.record(figures.WHOLE_P99, [percentile(whole, 0.99) * 1e3])
    stalled, doomed = (each.member.process.pid for each in indexers[-2:])
    os.kill(stalled, signal.SIGSTOP)
    try:
        await _until_calm(door, at_door)
        took = await _took_s(door, at_door, finds)
    finally:
        os.kill(stalled, signal.SIGCONT)
    _tell_loss(bench, figures.STALLED_P99, figures.STALLED_TIMES, took, whole)
    os.kill(doomed, signal.SIGKILL)
    await _until_calm(door, at_door)
    _tell_loss(bench, figures.DEAD_P99, figures.DEAD_TIMES, await _took_s(door, at_door, finds), whole)


def _tell_loss(bench: Bench, p99: Figure, times: Figure, took: list[float], whole: list[float]) -> None:
    """Medians are compared: of a p99 of three milliseconds, most is what else the machine did."""
    bench.record(p99, [percentile(took, 0.99) * 1e3])
    bench.record(times, [percentile(took, 0.5) / percentile(whole, 0.5)])


async def _took_s(url: str, asks: Sequence[bytes], finds: int) -> list[float]:
    asked = await asyncio.to_thread(ask_in_turn, url, asks, finds)
    if asked.statuses[200] < finds:
        raise Unavailable(f"finds of what is there were answered with {dict(asked.statuses)}")
    return asked.took_s


async def _until_calm(url: str, asks: Sequence[bytes]) -> None:
    """Asks until an indexer in trouble is no longer waited for."""
    ends_at = time.monotonic() + CALM_S_MAX
    while max(await _took_s(url, asks, CALM)) > PASSED_OVER_S:
        if time.monotonic() > ends_at:
            raise Unavailable(f"an indexer in trouble is still waited for after {CALM_S_MAX:g} s")


@asynccontextmanager
async def _gateway(urls: Sequence[str]) -> AsyncIterator[tuple[str, int]]:
    """Where it listens, and its process id."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", f"{__package__}.gateway_program", *urls, stdout=PIPE, stderr=PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(UP_S_MAX):
            url = (await process.stdout.readline()).decode().strip()
        if not url:
            said = (await process.communicate())[1].decode(errors="replace")[-SAID_MAX:]
            raise Unavailable(f"the gateway ended before it served: {said}")
        yield url, process.pid
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
