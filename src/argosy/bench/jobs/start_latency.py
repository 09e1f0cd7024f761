"""How soon a job starts: at its due time while a thousand workers wait, and beside another tenant's hundred
thousand."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from argosy.base.errors import Unavailable
from argosy.bench.harness import Bench, Values, percentile
from argosy.bench.jobs import figures
from argosy.bench.jobs.broker import start_broker
from argosy.jobs import JobsClient, TaskContext, Worker
from argosy.jobs.api import argosy_jobs_pb2 as pb
from argosy.jobs.model import NewJob
from argosy.jobs.sdk.links import LEASE

# -- due jobs ---------------------------------------------------------------------------------------------------------

DUE_GROUP = "due"
AHEAD_S = 0.5  # from enqueueing a job until it is due
APART_S = 0.05
POLL_S = 30.0
SETTLE_S = 2.0  # for all workers to have started polling
CHANNELS = 10  # a hundred workers share a connection, as the threads of one process would
LEASED_S_MAX = 30.0


async def measure_due_jobs(bench: Bench, scratch: Path, jobs: int, repeats: int, pollers: int) -> None:
    async with start_broker(scratch / "due") as (_, address):
        clients = [JobsClient.connect(address) for _ in range(CHANNELS)]
        leased: asyncio.Queue[tuple[str, float]] = asyncio.Queue()
        polling = [
            asyncio.create_task(_poll(clients[number % CHANNELS], address, f"worker-{number}", leased))
            for number in range(pollers)
        ]
        try:
            await asyncio.sleep(SETTLE_S)

            async def run() -> Values:
                late = await _late_s(clients[0], leased, jobs)
                p50, p99 = (percentile(late, share) * 1e3 for share in (0.5, 0.99))
                return {figures.DUE_P50.id: p50, figures.DUE_P99.id: p99}

            await bench.measure(figures.DUE_P50, figures.DUE_P99, run=run, repeats=repeats)
        finally:
            for each in polling:
                each.cancel()
            await asyncio.gather(*polling, return_exceptions=True)
            for client in clients:
                await client.close()


async def _poll(client: JobsClient, address: str, worker: str, leased: "asyncio.Queue[tuple[str, float]]") -> None:
    """Never reports an outcome: completing a task is no part of this figure."""
    request = pb.LeaseTasksRequest(worker_id=worker, task_group=DUE_GROUP, max_tasks=1, wait_ms=int(POLL_S * 1000))
    while True:
        response = await client.router.call(address, LEASE, request, timeout_s=POLL_S + LEASED_S_MAX)
        now = time.time()  # due times are wall time, on the same machine
        for each in response.tasks:
            leased.put_nowait((each.task.job_id, now))


async def _late_s(client: JobsClient, leased: "asyncio.Queue[tuple[str, float]]", jobs: int) -> list[float]:
    """For each job, the time from its due instant until a worker has it.

    A task lease that expires is leased again, so only the first lease of a job counts.
    """
    base_ms = int((time.time() + AHEAD_S) * 1000)
    due_ms = {f"{base_ms}-{number}": base_ms + int(number * APART_S * 1000) for number in range(jobs)}
    late: dict[str, float] = {}
    raise_first(
        await client.enqueue_many([NewJob(DUE_GROUP, id=name, start_at_ms=at_ms) for name, at_ms in due_ms.items()])
    )
    try:
        async with asyncio.timeout(AHEAD_S + jobs * APART_S + LEASED_S_MAX):
            while len(late) < jobs:
                name, at = await leased.get()
                if name in due_ms:
                    late.setdefault(name, at - due_ms[name] / 1000)
    except TimeoutError as error:
        raise Unavailable(f"{jobs - len(late)} of {jobs} jobs were not leased") from error
    return list(late.values())


def raise_first(results: Sequence[object]) -> None:
    for result in results:
        if isinstance(result, Exception):
            raise result


# -- fairness ---------------------------------------------------------------------------------------------------------

SHARED_GROUP = "shared"
BATCH = 500
CALLERS = 4
HANDLER_S = 0.02
CONCURRENCY = 16
BEFORE = 100  # noisy jobs that have run before the quiet tenant enqueues its first
QUIET_APART_S = 0.2
START_S_MAX = 60.0


async def measure_fairness(bench: Bench, scratch: Path, noisy: int, quiet: int, repeats: int) -> None:
    """A quiet tenant beside a noisy one whose jobs keep all workers busy: same shard, same group, so only the order in
    which the broker leases tasks can help it."""
    async with (
        start_broker(scratch / "noisy", jobs_shards=1, jobs_with_tenants="true") as (_, address),
        JobsClient.connect(address, tenant="noisy") as client,
    ):
        bench.progress(f"enqueueing {noisy:,} jobs of one tenant")
        await _enqueue_noisy(client, noisy)
        is_busy, starts = asyncio.Event(), dict[str, float]()
        started: asyncio.Queue[str] = asyncio.Queue()
        worker = Worker(client, concurrency=CONCURRENCY)
        remaining = BEFORE

        @worker.handler(SHARED_GROUP)
        async def handle(payload: bytes | None, context: TaskContext) -> None:
            nonlocal remaining
            if context.tenant != "noisy":
                starts[context.job_id] = time.monotonic()
                started.put_nowait(context.job_id)
            remaining -= 1
            if remaining == 0:
                is_busy.set()
            await asyncio.sleep(HANDLER_S)

        working = asyncio.create_task(worker.run())
        try:
            async with asyncio.timeout(START_S_MAX):
                await is_busy.wait()

            # The slowest of few jobs and not a percentile: a tenant with twenty jobs notices each of them.
            async def slowest() -> float:
                return max(await _start_times_s(client, starts, started, quiet))

            await bench.measure(figures.NOISY, run=slowest, repeats=repeats)
            bench.notes.append(f"noisy: {noisy:,} jobs of another tenant waited in the same shard and group")
        finally:
            worker.stop()
            await working


async def _enqueue_noisy(client: JobsClient, jobs: int) -> None:
    sizes = iter([min(BATCH, jobs - begin) for begin in range(0, jobs, BATCH)])

    async def enqueue() -> None:
        for size in sizes:
            raise_first(await client.enqueue_many([NewJob(SHARED_GROUP, tenant="noisy") for _ in range(size)]))

    await asyncio.gather(*(enqueue() for _ in range(CALLERS)))


async def _start_times_s(
    client: JobsClient, starts: dict[str, float], started: "asyncio.Queue[str]", jobs: int
) -> list[float]:
    """From each enqueue until the handler of the job runs."""
    took = []
    for _ in range(jobs):
        enqueued_at = time.monotonic()
        handle = await client.enqueue(SHARED_GROUP, tenant="quiet")
        async with asyncio.timeout(START_S_MAX):
            while handle.id not in starts:
                await started.get()
        took.append(starts[handle.id] - enqueued_at)
        await asyncio.sleep(QUIET_APART_S)
    return took
