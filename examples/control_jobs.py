"""A durable queue of background jobs in one file, with nothing but this library: queue, claim, finish."""

# ruff: noqa: T201  (an example prints)

import asyncio
import tempfile
from pathlib import Path

from argosy.base.clock import SystemClock, system_random
from argosy.registry import jobs, open_registry
from argosy.registry.rows import ControlJobState


async def main(path: Path) -> None:
    store = await open_registry(f"sqlite:///{path}", clock=SystemClock(), random=system_random())
    try:
        for number in range(3):
            await store.run(jobs.enqueue(f"job-{number}", "greet", {"name": f"repo {number}"}))
        # Claimed under a lease: were this worker to die, another would get the job when the lease is over.
        while (job := await store.run(jobs.claim("worker-1", lease_ms=30_000))) is not None:
            print(f"hello, {job.params['name']}")
            assert await store.run(jobs.complete(job.job_id, "worker-1", job.fence))
        done = await store.run(jobs.count(ControlJobState.COMPLETED))
        print(f"{done} jobs done")
    finally:
        await store.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder) / "registry.db"))
