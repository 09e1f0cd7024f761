"""A quiet tenant beside a noisy one whose jobs keep all workers busy, in the same shard and the same group."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from argosy.bench.harness import Bench
from argosy.bench.jobs import figures
from argosy.bench.jobs.broker import broker_in
from argosy.jobs import JobsClient, TaskContext, Worker
from argosy.jobs.model import NewJob

GROUP = "shared"
BATCH = 500
CALLERS = 4
HANDLER_S = 0.02
CONCURRENCY = 16
BEFORE = 100  # noisy jobs that have run before the quiet tenant comes
APART_S = 0.2
START_S_MAX = 60.0


async def measure_fairness(bench: Bench, scratch: Path, noisy: int, quiet: int, repeats: int) -> None:
    async with (
        broker_in(scratch / "noisy", jobs_shards=1, jobs_with_tenants="true") as (_, address),
        JobsClient.connect(address, tenant="noisy") as client,
    ):
        bench.say(f"putting {noisy:,} jobs of one tenant")
        await _put(client, noisy)
        busy, starts = asyncio.Event(), dict[str, float]()
        started: asyncio.Queue[str] = asyncio.Queue()
        worker = Worker(client, concurrency=CONCURRENCY)
        left = BEFORE

        @worker.handler(GROUP)
        async def handle(payload: bytes | None, context: TaskContext) -> None:
            nonlocal left
            if context.tenant != "noisy":
                starts[context.job_id] = time.monotonic()
                started.put_nowait(context.job_id)
            left -= 1
            if left == 0:
                busy.set()
            await asyncio.sleep(HANDLER_S)

        working = asyncio.create_task(worker.run())
        try:
            async with asyncio.timeout(START_S_MAX):
                await busy.wait()

            async def slowest() -> float:
                return max(await _quiet(client, starts, started, quiet))

            await bench.measure(figures.NOISY, run=slowest, repeats=repeats)
            bench.notes.append(f"noisy: {noisy:,} jobs of another tenant waited in the same shard and group")
        finally:
            worker.stop()
            await working


async def _put(client: JobsClient, jobs: int) -> None:
    sizes = iter([min(BATCH, jobs - begin) for begin in range(0, jobs, BATCH)])

    async def put() -> None:
        for size in sizes:
            raise_any(await client.enqueue_many([NewJob(GROUP, tenant="noisy") for _ in range(size)]))

    await asyncio.gather(*(put() for _ in range(CALLERS)))


async def _quiet(client: JobsClient, starts: dict[str, float], started: "asyncio.Queue[str]", jobs: int) -> list[float]:
    """From each put until its handler runs."""
    took = []
    for _ in range(jobs):
        began = time.monotonic()
        handle = await client.enqueue(GROUP, tenant="quiet")
        async with asyncio.timeout(START_S_MAX):
            while handle.id not in starts:
                await started.get()
        took.append(starts[handle.id] - began)
        await asyncio.sleep(APART_S)
    return took


def raise_any(answers: Sequence[object]) -> None:
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
