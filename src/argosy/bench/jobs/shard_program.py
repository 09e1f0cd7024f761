"""One shard in a process of its own, so that its memory and its opening can be told from everything else.

    python -m argosy.bench.jobs.shard_program fill|open|schedules FOLDER COUNT

`fill` puts so many jobs; `open` opens what is there, leases so many one at a time, and prints what it took as JSON.
`schedules` stores so many minutely schedules, moves the clock by a minute and prints what their firing took as JSON.
"""

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

from argosy.base.clock import SystemClock, system_random
from argosy.jobs.backends.shard_store import SlateShardStore
from argosy.jobs.group_commit import GroupCommitStore
from argosy.jobs.model import NewJob, Schedule
from argosy.jobs.shard.shard import ShardService
from argosy.throttle.limits.factory import open_limiter

SHARD = "bench"
GROUP = "bench"
TENANTS = 100
BATCH = 1_000
CALLERS = 2  # one batch is made while another goes to the disk
PAYLOAD = b"x" * 100
MINUTE_MS = 60_000
START_MS = 30_000_000 * MINUTE_MS + 1_000  # of the clock of `schedules`: a second after a full minute
SCHEDULE_CALLERS = 64
PROBE_S = 0.001  # between two looks at the event loop
FIRE_S_MAX = 600.0


@asynccontextmanager
async def opened(
    folder: str, now_ms: Callable[[], int] | None = None
) -> AsyncIterator[tuple[ShardService, float, int]]:
    """The shard, how long it took to open, and by how many bytes this process has grown meanwhile."""
    clock = SystemClock()
    shards = await SlateShardStore.open(f"file://{folder}")
    limiter = await open_limiter("memory://", clock=clock)
    before_bytes, began = resident_bytes(), time.monotonic()
    store = GroupCommitStore(await shards.shard(SHARD))
    shard = ShardService(
        store,
        now_ms=now_ms or (lambda: int(clock.wall() * 1000)),
        new_id=lambda: str(uuid4()),
        random=system_random(),
        limiter=limiter,
    )
    await shard.start()
    took_s = time.monotonic() - began
    try:
        yield shard, took_s, resident_bytes() - before_bytes
    finally:
        await shard.close()
        await store.close()
        await limiter.close()
        await shards.close()


async def fill(folder: str, count: int) -> dict[str, float]:
    async with opened(folder) as (shard, _, _):
        begins = iter(range(0, count, BATCH))

        async def put() -> None:
            for begin in begins:
                numbers = range(begin, min(begin + BATCH, count))
                jobs = [NewJob(GROUP, PAYLOAD, f"tenant-{number % TENANTS}", str(uuid4())) for number in numbers]
                for answer in await shard.enqueue(jobs):
                    if isinstance(answer, Exception):
                        raise answer

        began = time.monotonic()
        await asyncio.gather(*(put() for _ in range(CALLERS)))
        return {"fill_s": time.monotonic() - began}


async def open_and_lease(folder: str, leases: int) -> dict[str, float]:
    async with opened(folder) as (shard, took_s, grown_bytes):
        took: list[float] = []
        waiting = shard.queues.tasks.waiting
        for _ in range(leases):
            began = time.monotonic()
            tasks, _ = await shard.lease(GROUP, "bench", 1)
            took.append(time.monotonic() - began)
            assert len(tasks) == 1, "a job that waits was not leased"
        return {
            "open_s": took_s,
            "grown_bytes": grown_bytes,
            "waiting": waiting,
            "lease_ms": statistics.median(took) * 1e3,
        }


async def fire_schedules(folder: str, count: int) -> dict[str, float]:
    """All schedules are due at once, on a clock that stands still before and after."""
    now_ms = START_MS
    async with opened(folder, lambda: now_ms) as (shard, _, _):
        await put_schedules(shard, count)
        now_ms += MINUTE_MS
        stalled_s, began_cpu, began = 0.0, time.process_time(), time.monotonic()
        # A shard looks at its clock after every step.
        await shard.enqueue([NewJob("another group", PAYLOAD, "tenant-0", "wakes the shard")])
        async with asyncio.timeout(FIRE_S_MAX):
            while shard.queues.tasks.waiting <= count:
                looked = time.monotonic()
                await asyncio.sleep(PROBE_S)
                stalled_s = max(stalled_s, time.monotonic() - looked - PROBE_S)
        took_s, cpu_s = time.monotonic() - began, time.process_time() - began_cpu
        return {"rate": count / took_s, "cpu_us": cpu_s / count * 1e6, "stall_ms": stalled_s * 1e3}


async def put_schedules(shard: ShardService, count: int) -> None:
    numbers = iter(range(count))

    async def put() -> None:
        for number in numbers:
            tenant = f"tenant-{number % TENANTS}"
            job = NewJob(GROUP, PAYLOAD, tenant)
            await shard.put_schedule(Schedule(f"schedule-{number}", tenant, "* * * * *", "Europe/Berlin", job, 0))

    await asyncio.gather(*(put() for _ in range(SCHEDULE_CALLERS)))


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    what, folder, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    run = {"fill": fill, "open": open_and_lease, "schedules": fire_schedules}[what]
    sys.stdout.write(json.dumps(asyncio.run(run(folder, count))) + "\n")
