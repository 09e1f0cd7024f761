"""Twenty processes claim two thousand jobs and abandon every fifth; each job is finished exactly once."""

import asyncio
import multiprocessing
from collections import Counter
from pathlib import Path

import pytest

from argosy.base.clock import SystemClock, seeded_random
from argosy.registry import jobs, open_registry
from argosy.registry.rows import ControlJobState
from tests.servers.valkey import Valkey

PROCESSES = 20
JOBS = 2000
ABANDONED = 0.2
LEASE_MS = 500  # abandoned jobs are claimable again after this
ATTEMPTS_MAX = 100
BATCH = 50
SECONDS_MAX = 60.0
IDLE_S = 0.1

# Each process is forked from one that has imported everything.
forks = multiprocessing.get_context("forkserver")
forks.set_forkserver_preload([__name__])


async def work(url: str, number: int) -> list[str]:
    """Claim until every job has ended; return the jobs that this process finished."""
    clock, random = SystemClock(), seeded_random(number)
    store = await open_registry(url, clock=clock, random=random, namespace="claims")
    finished: list[str] = []
    while True:
        job = await store.run(jobs.claim(f"w{number}", lease_ms=LEASE_MS))
        if job is None:
            left = [
                await store.run(jobs.count(state)) for state in (ControlJobState.QUEUED, ControlJobState.IN_PROGRESS)
            ]
            if left == [0, 0]:
                break
            await clock.sleep(IDLE_S)
        elif random.random() >= ABANDONED and await store.run(jobs.complete(job.job_id, f"w{number}", job.fence)):
            finished.append(job.job_id)
    await store.close()
    return finished


def run_work(url: str, number: int) -> list[str]:
    return asyncio.run(work(url, number))


async def enqueue_jobs(url: str) -> None:
    store = await open_registry(url, clock=SystemClock(), random=seeded_random(0), namespace="claims")
    for start in range(0, JOBS, BATCH):
        batch = (jobs.enqueue(f"j{n}", "t", {}, max_attempts=ATTEMPTS_MAX) for n in range(start, start + BATCH))
        await asyncio.gather(*map(store.run, batch))
    await store.close()


async def count_by_state(url: str) -> list[int]:
    store = await open_registry(url, clock=SystemClock(), random=seeded_random(0), namespace="claims")
    counts = [await store.run(jobs.count(state)) for state in ControlJobState]
    await store.close()
    return counts


@pytest.mark.parametrize("backend", ["sqlite", "valkey"])
def test_every_job_is_finished_exactly_once(backend: str, tmp_path: Path) -> None:
    with Valkey() as server:
        url = f"sqlite:///{tmp_path}/registry.db" if backend == "sqlite" else server.url
        asyncio.run(enqueue_jobs(url))
        started_at = SystemClock().now()
        with forks.Pool(PROCESSES) as pool:
            finished = pool.starmap(run_work, [(url, number) for number in range(PROCESSES)])
        took_s = SystemClock().now() - started_at
        times = Counter(job_id for each in finished for job_id in each)
        assert times == {f"j{n}": 1 for n in range(JOBS)}
        assert asyncio.run(count_by_state(url)) == [0, 0, JOBS, 0, 0]
        assert took_s < SECONDS_MAX
