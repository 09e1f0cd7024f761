"""How soon a job that becomes due is in a worker's hands, while a thousand workers wait and have nothing to do."""

import asyncio
import time
from pathlib import Path

from argosy.base.errors import Unavailable
from argosy.bench.fleet.query_load import percentile
from argosy.bench.harness import Bench, Values
from argosy.bench.jobs import figures
from argosy.bench.jobs.broker import broker_in
from argosy.jobs import JobsClient
from argosy.jobs.api import argosy_jobs_pb2 as pb
from argosy.jobs.model import NewJob
from argosy.jobs.sdk.links import LEASE

GROUP = "due"
AHEAD_S = 0.5  # when a job is put, until it is due
APART_S = 0.05
POLL_S = 30.0
SETTLE_S = 2.0  # for all workers to have asked
CHANNELS = 10  # a hundred workers share a connection, as threads of one process would
LEASED_S_MAX = 30.0


async def measure_polling(bench: Bench, scratch: Path, jobs: int, repeats: int, pollers: int) -> None:
    async with broker_in(scratch / "polling") as (_, address):
        clients = [JobsClient.connect(address) for _ in range(CHANNELS)]
        leased: asyncio.Queue[tuple[str, float]] = asyncio.Queue()
        waiting = [
            asyncio.create_task(_poll(clients[number % CHANNELS], address, f"worker-{number}", leased))
            for number in range(pollers)
        ]
        try:
            await asyncio.sleep(SETTLE_S)

            async def due() -> Values:
                late = await _late_s(clients[0], leased, jobs)
                p50, p99 = (percentile(late, share) * 1e3 for share in (0.5, 0.99))
                return {figures.DUE_P50.id: p50, figures.DUE_P99.id: p99}

            await bench.measure(figures.DUE_P50, figures.DUE_P99, run=due, repeats=repeats)
        finally:
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            for client in clients:
                await client.close()


async def _poll(client: JobsClient, address: str, worker: str, leased: "asyncio.Queue[tuple[str, float]]") -> None:
    """A task that it gets it keeps: what becomes of it is no part of this figure."""
    request = pb.LeaseTasksRequest(worker_id=worker, task_group=GROUP, max_tasks=1, wait_ms=int(POLL_S * 1000))
    while True:
        answer = await client.router.call(address, LEASE, request, timeout_s=POLL_S + LEASED_S_MAX)
        now = time.time()
        for each in answer.tasks:
            leased.put_nowait((each.task.job_id, now))


async def _late_s(client: JobsClient, leased: "asyncio.Queue[tuple[str, float]]", jobs: int) -> list[float]:
    """For each job, from the instant it was due until a worker had it. Some are leased again when they run out."""
    base_ms = int((time.time() + AHEAD_S) * 1000)
    named = {f"{base_ms}-{number}": base_ms + int(number * APART_S * 1000) for number in range(jobs)}
    late: dict[str, float] = {}
    for answer in await client.enqueue_many(
        [NewJob(GROUP, id=name, start_at_ms=at_ms) for name, at_ms in named.items()]
    ):
        if isinstance(answer, Exception):
            raise answer
    try:
        async with asyncio.timeout(AHEAD_S + jobs * APART_S + LEASED_S_MAX):
            while len(late) < jobs:
                name, at = await leased.get()
                if name in named:
                    late.setdefault(name, at - named[name] / 1000)
    except TimeoutError as error:
        raise Unavailable(f"{jobs - len(late)} of {jobs} jobs were leased by nobody") from error
    return list(late.values())
