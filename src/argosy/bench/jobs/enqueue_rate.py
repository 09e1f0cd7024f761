"""Jobs enqueued from this process into a broker process; a job counts once the broker has acknowledged it, on disk."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from argosy.bench.harness import Bench, Values, percentile
from argosy.bench.jobs import figures
from argosy.bench.jobs.broker import start_broker
from argosy.bench.jobs.start_latency import raise_first
from argosy.jobs import JobsClient
from argosy.jobs.model import NewJob
from argosy.jobs.sdk.links import SILO, GrpcLinks, RpcMethod
from argosy.jobs.silo import silo_pb2 as silo

GROUP = "bench"
PAYLOAD = b"x" * 100
# Batch and callers keep about 2,000 jobs in flight, so that the group commit of the broker always has work.
BATCH = 250
BATCH_CALLERS = 8
SINGLE_CALLERS = 128
LONE_PAUSE_S = 0.01
ENQUEUE = RpcMethod(SILO, "Enqueue", silo.EnqueueResponse)
CALL_S_MAX = 30.0


class MeasuredProcess(Protocol):
    """A process whose CPU time can be read."""

    @property
    def cpu_s(self) -> float: ...


async def measure_enqueueing(bench: Bench, scratch: Path, seconds: float, lone: int) -> None:
    async with start_broker(scratch / "enqueue") as (broker, address), JobsClient.connect(address) as client:
        links = GrpcLinks()
        link = links.link(address)
        shard_id = (await client.router.refresh()).shard_of(client.tenant).id  # of jobs without a tenant
        job = silo.EnqueueRequest(
            shard=shard_id, task_group=GROUP, priority=50, payload=silo.SerializedBytes(msgpack=PAYLOAD)
        )

        async def batch() -> int:
            results = await client.enqueue_many([NewJob(GROUP, PAYLOAD) for _ in range(BATCH)])
            raise_first(results)
            return len(results)

        async def single() -> int:
            # The call of silo.v1 as any client sends it, without the SDK, which would put concurrent jobs in one batch.
            await link.call(ENQUEUE, job, timeout_s=CALL_S_MAX, headers={})
            return 1

        async def run_batches() -> Values:
            rate, cpu_us = await enqueue_at_full_speed(broker, batch, BATCH_CALLERS, seconds)
            return {figures.BATCHES.id: rate, figures.BATCHES_CPU.id: cpu_us}

        async def run_singles() -> Values:
            rate, cpu_us = await enqueue_at_full_speed(broker, single, SINGLE_CALLERS, seconds)
            return {figures.SINGLE.id: rate, figures.SINGLE_CPU.id: cpu_us}

        async def run_alone() -> float:
            return await median_ms(single, lone)

        try:
            await single()
            await bench.measure(figures.LONE_P50, run=run_alone)  # first, while few jobs wait
            await bench.measure(figures.SINGLE, figures.SINGLE_CPU, run=run_singles)
            await bench.measure(figures.BATCHES, figures.BATCHES_CPU, run=run_batches)
        finally:
            await links.close()


async def enqueue_at_full_speed(
    broker: MeasuredProcess, enqueue: Callable[[], Awaitable[int]], callers: int, seconds: float
) -> tuple[float, float]:
    """Jobs a second, and the CPU of the broker in microseconds for each."""
    started, cpu_s, jobs = time.monotonic(), broker.cpu_s, 0

    async def call() -> None:
        nonlocal jobs
        while time.monotonic() - started < seconds:
            done = await enqueue()  # not `jobs += await …`, which would read the sum before the wait
            jobs += done

    await asyncio.gather(*(call() for _ in range(callers)))
    took_s = time.monotonic() - started
    return jobs / took_s, (broker.cpu_s - cpu_s) / jobs * 1e6


async def median_ms(enqueue: Callable[[], Awaitable[int]], times: int) -> float:
    """One after the other, with a pause: nothing else is there that a group commit could wait for."""
    took: list[float] = []
    for _ in range(times):
        started = time.monotonic()
        await enqueue()
        took.append(time.monotonic() - started)
        await asyncio.sleep(LONE_PAUSE_S)
    return percentile(took, 0.5) * 1e3
