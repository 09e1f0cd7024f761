"""Jobs put from this process into a broker that is another; a job counts when its broker has answered for it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from argosy.bench.fleet.query_load import percentile
from argosy.bench.harness import Bench, Values
from argosy.bench.jobs import figures
from argosy.bench.jobs.broker import broker_in
from argosy.jobs import JobsClient
from argosy.jobs.model import NewJob
from argosy.jobs.sdk.links import SILO, GrpcLinks, RpcMethod
from argosy.jobs.silo import silo_pb2 as silo

GROUP = "bench"
PAYLOAD = b"x" * 100
BATCH = 250
BATCH_CALLERS = 8
SINGLE_CALLERS = 128
LONE_PAUSE_S = 0.01
ENQUEUE = RpcMethod(SILO, "Enqueue", silo.EnqueueResponse)
CALL_S_MAX = 30.0


class Process(Protocol):
    """Something that uses CPU."""

    @property
    def cpu_s(self) -> float: ...


async def measure_enqueueing(bench: Bench, scratch: Path, seconds: float, lone: int) -> None:
    async with broker_in(scratch / "enqueue") as (broker, address), JobsClient.connect(address) as client:
        links = GrpcLinks()
        link = links.link(address)
        [place] = [each for each in await client.shards() if each.id == await _shard(client)]
        job = silo.EnqueueRequest(
            shard=place.id, task_group=GROUP, priority=50, payload=silo.SerializedBytes(msgpack=PAYLOAD)
        )

        async def batch() -> int:
            answers = await client.enqueue_many([NewJob(GROUP, PAYLOAD) for _ in range(BATCH)])
            for answer in answers:
                if isinstance(answer, Exception):
                    raise answer
            return len(answers)

        async def single() -> int:
            await link.call(ENQUEUE, job, timeout_s=CALL_S_MAX, headers={})
            return 1

        async def batches() -> Values:
            rate, cpu_us = await as_fast_as_they_go(broker, batch, BATCH_CALLERS, seconds)
            return {figures.BATCHES.id: rate, figures.BATCHES_CPU.id: cpu_us}

        async def singles() -> Values:
            rate, cpu_us = await as_fast_as_they_go(broker, single, SINGLE_CALLERS, seconds)
            return {figures.SINGLE.id: rate, figures.SINGLE_CPU.id: cpu_us}

        async def alone() -> float:
            return await median_ms(single, lone)

        try:
            await single()
            await bench.measure(figures.LONE_P50, run=alone)  # while few jobs wait
            await bench.measure(figures.SINGLE, figures.SINGLE_CPU, run=singles)
            await bench.measure(figures.BATCHES, figures.BATCHES_CPU, run=batches)
        finally:
            await links.close()


async def _shard(client: JobsClient) -> str:
    """The shard of those who have no tenant."""
    return (await client.router.refresh()).shard_of(client.tenant).id


async def as_fast_as_they_go(
    broker: Process, put: Callable[[], Awaitable[int]], callers: int, seconds: float
) -> tuple[float, float]:
    """Jobs a second, and the broker's CPU in microseconds for each."""
    began, cpu_s, jobs = time.monotonic(), broker.cpu_s, 0

    async def call() -> None:
        nonlocal jobs
        while time.monotonic() - began < seconds:
            done = await put()  # the sum is read after the wait: others add to it meanwhile
            jobs += done

    await asyncio.gather(*(call() for _ in range(callers)))
    took_s = time.monotonic() - began
    return jobs / took_s, (broker.cpu_s - cpu_s) / jobs * 1e6


async def median_ms(put: Callable[[], Awaitable[int]], times: int) -> float:
    """One after the other, with a pause between them."""
    took: list[float] = []
    for _ in range(times):
        began = time.monotonic()
        await put()
        took.append(time.monotonic() - began)
        await asyncio.sleep(LONE_PAUSE_S)
    return percentile(took, 0.5) * 1e3
