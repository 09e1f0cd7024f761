"""Finds of an indexer on one core; and of a gateway over several indexers, one of which hangs or dies.

The gateway: each indexer has a chain of its own, and finds are sent one after the other, first to the indexers
themselves and to the gateway in turn. Then one indexer is stopped with SIGSTOP, later another is killed. Both hold
nothing that is searched for, so every find could be answered without them; the finds that count are those after the
gateway's circuit breaker has opened. All processes share the machine, so the CPU of all of them is a figure too.
"""

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from argosy.base.errors import Unavailable
from argosy.bench.harness import Bench, Figure, Values, percentile
from argosy.bench.ipni import figures
from argosy.bench.ipni.chains import ChainShape, absent_multihashes, alternate, chunk_multihashes
from argosy.bench.ipni.find_load import encode_finds, run_at_full_speed, run_sequentially
from argosy.bench.ipni.processes import IndexerProcess, start_gateway, start_indexer, start_publishers
from argosy.bench.machine import cpu_s

CALLERS = 16
SOUGHT = 8_192  # different multihashes, half of them absent
FIND_SEED = 3_000


async def measure_finds(bench: Bench, scratch: Path, shape: ChainShape, seconds: float) -> None:
    """The indexer is restricted to one core, so that the rate is one per core; the load generator has the others."""
    cores = sorted(os.sched_getaffinity(0))
    async with start_publishers("cbor", FIND_SEED, 1, shape) as publishers, start_indexer(scratch, "find") as indexer:
        await indexer.ingest(publishers.chains[0])
        # After the ingest, which may use all cores.
        indexer.pin({cores[0]})
        half = min(SOUGHT // 2, shape.chunk)
        sought = alternate(chunk_multihashes(FIND_SEED, 0, half), absent_multihashes(FIND_SEED, half))
        requests = encode_finds(indexer.url, sought)

        async def run() -> Values:
            before_s = indexer.cpu_s
            finds = await asyncio.to_thread(run_at_full_speed, indexer.url, requests, seconds, CALLERS)
            spent_s = indexer.cpu_s - before_s
            finds.check_hits()
            return {
                figures.FIND.id: finds.rate,
                figures.FIND_CPU.id: spent_s / len(finds.took_s) * 1e6,
                figures.FIND_P50.id: percentile(finds.took_s, 0.5) * 1e3,
            }

        await bench.measure(*figures.FINDS, run=run)
    bench.notes.append(
        f"find: {shape.multihashes:,} multihashes in the index, half of the finds are hits, {CALLERS} callers"
    )


# -- gateway ----------------------------------------------------------------------------------------------------------

GATEWAY_SEED = 5_000
HELD = ChainShape(1, 1, 4_096)  # by each indexer
SHARE = 64  # multihashes of each that are searched for
SLOW_S = 0.04  # a find that waits for a failed indexer takes longer than this
FAST_IN_A_ROW = 50  # finds without a slow one: the circuit breaker is open
OPEN_S_MAX = 60.0


@dataclass(frozen=True)
class CpuOfProcesses:
    """The processes that spend CPU on a find."""

    gateway: int  # process id
    indexers: Sequence[IndexerProcess]

    def read_s(self) -> tuple[float, float]:
        """By the gateway, and by all indexers together."""
        return cpu_s(self.gateway), sum(each.cpu_s for each in self.indexers)


async def measure_gateway(bench: Bench, scratch: Path, finds: int, repeats: int) -> None:
    count = figures.FAN_OUT
    async with AsyncExitStack() as stack:
        publishers = await stack.enter_async_context(start_publishers("cbor", GATEWAY_SEED, count, HELD))
        starting = [stack.enter_async_context(start_indexer(scratch, f"indexer-{number}")) for number in range(count)]
        indexers = list(await asyncio.gather(*starting))
        await asyncio.gather(*(each.ingest(chain) for each, chain in zip(indexers, publishers.chains, strict=True)))
        url, pid = await stack.enter_async_context(start_gateway([each.url for each in indexers]))
        # The last two fail later, so nothing that they hold is searched for.
        sought = [chunk_multihashes(GATEWAY_SEED + number, 0, SHARE) for number in range(count - 2)]
        requests = encode_finds(url, [each for held in sought for each in held])
        cpu = CpuOfProcesses(pid, indexers)
        await _measure_overhead(bench, url, requests, cpu, sought, finds, repeats)
        await _measure_failures(bench, url, requests, indexers, finds)


async def _measure_overhead(
    bench: Bench,
    url: str,
    requests: Sequence[bytes],
    cpu: CpuOfProcesses,
    sought: Sequence[list[bytes]],
    finds: int,
    repeats: int,
) -> None:
    per_indexer = [(each.url, encode_finds(each.url, held)) for each, held in zip(cpu.indexers, sought, strict=False)]

    async def run() -> Values:
        direct: list[float] = []
        # Direct finds just before those through the gateway, in the same run: both had the same machine.
        for indexer_url, direct_requests in per_indexer:
            direct += await _find_times_s(indexer_url, direct_requests, finds // len(per_indexer))
        direct_p50 = percentile(direct, 0.5) * 1e3
        gateway_s, indexers_s = cpu.read_s()
        gateway_p50 = percentile(await _find_times_s(url, requests, finds), 0.5) * 1e3
        gateway_after_s, indexers_after_s = cpu.read_s()
        return {
            figures.GATEWAY_CPU.id: (gateway_after_s - gateway_s) / finds * 1e6,
            figures.INDEXERS_CPU.id: (indexers_after_s - indexers_s) / finds * 1e6,
            figures.DIRECT_P50.id: direct_p50,
            figures.GATEWAY_P50.id: gateway_p50,
            figures.ADDED_P50.id: gateway_p50 - direct_p50,
        }

    await bench.measure(*figures.OVERHEADS, run=run, repeats=repeats)


async def _measure_failures(
    bench: Bench, url: str, requests: Sequence[bytes], indexers: Sequence[IndexerProcess], finds: int
) -> None:
    if not bench.wants_any(figures.LOSSES):
        return
    healthy = await _find_times_s(url, requests, finds)
    bench.record(figures.HEALTHY_P99, [percentile(healthy, 0.99) * 1e3])
    stalled, killed = (each.server.process.pid for each in indexers[-2:])
    os.kill(stalled, signal.SIGSTOP)  # its connections stay open and nothing answers, the worst kind of failure
    try:
        await _wait_fast(url, requests)
        took = await _find_times_s(url, requests, finds)
    finally:
        os.kill(stalled, signal.SIGCONT)
    _record_failure(bench, figures.STALLED_P99, figures.STALLED_TIMES, took, healthy)
    os.kill(killed, signal.SIGKILL)
    await _wait_fast(url, requests)
    took = await _find_times_s(url, requests, finds)
    _record_failure(bench, figures.DEAD_P99, figures.DEAD_TIMES, took, healthy)


def _record_failure(bench: Bench, p99: Figure, times: Figure, took: list[float], healthy: list[float]) -> None:
    """The ratio is of medians: most of a p99 of three milliseconds is other load on the machine."""
    bench.record(p99, [percentile(took, 0.99) * 1e3])
    bench.record(times, [percentile(took, 0.5) / percentile(healthy, 0.5)])


async def _find_times_s(url: str, requests: Sequence[bytes], finds: int) -> list[float]:
    results = await asyncio.to_thread(run_sequentially, url, requests, finds)
    if results.statuses[200] < finds:
        raise Unavailable(f"finds of existing multihashes got status codes {dict(results.statuses)}")
    return results.took_s


async def _wait_fast(url: str, requests: Sequence[bytes]) -> None:
    """Send finds until none of them waits for the failed indexer."""
    ends_at = time.monotonic() + OPEN_S_MAX
    while max(await _find_times_s(url, requests, FAST_IN_A_ROW)) > SLOW_S:
        if time.monotonic() > ends_at:
            raise Unavailable(f"finds still wait for the failed indexer after {OPEN_S_MAX:g} s")
