"""One shard in a process of its own, so that its memory and the time to open it are not mixed with anything else.

    python -m argosy.bench.jobs.shard_program fill|open|schedules DIRECTORY COUNT

`fill` enqueues COUNT jobs. `open` opens the shard and leases COUNT tasks one at a time. `schedules` stores COUNT
minutely schedules and moves the clock by a minute, so that all fire. Each prints its measurements as JSON.
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
CALLERS = 2  # one batch is encoded while another is written to disk
PAYLOAD = b"x" * 100
MINUTE_MS = 60_000
START_MS = 30_000_000 * MINUTE_MS + 1_000  # of the clock of `schedules`: a second past a full minute
SCHEDULE_CALLERS = 64
PROBE_S = 0.001  # a sleep this long that takes longer shows a blocked event loop
FIRE_S_MAX = 600.0


@asynccontextmanager
async def open_shard(
    directory: str, now_ms: Callable[[], int] | None = None
) -> AsyncIterator[tuple[ShardService, float, int]]:
    """The shard, how long it took to open, and by how many bytes this process grew meanwhile."""
    clock = SystemClock()
    shards = await SlateShardStore.open(f"file://{directory}")
    limiter = await open_limiter("memory://", clock=clock)
    # Measured here and not by the parent, which would also see the interpreter and its imports.
    before_bytes, started = resident_bytes(), time.monotonic()
    store = GroupCommitStore(await shards.shard(SHARD))
    shard = ShardService(
        store,
        now_ms=now_ms or (lambda: int(clock.wall() * 1000)),
        new_id=lambda: str(uuid4()),
        random=system_random(),
        limiter=limiter,
    )
    await shard.start()
    took_s = time.monotonic() - started
    try:
        yield shard, took_s, resident_bytes() - before_bytes
    finally:
        await shard.close()
        await store.close()
        await limiter.close()
        await shards.close()


async def fill(directory: str, count: int) -> dict[str, float]:
    async with open_shard(directory) as (shard, _, _):
        begins = iter(range(0, count, BATCH))

        async def enqueue() -> None:
            for begin in begins:
                numbers = range(begin, min(begin + BATCH, count))
                jobs = [NewJob(GROUP, PAYLOAD, f"tenant-{number % TENANTS}", str(uuid4())) for number in numbers]
                for result in await shard.enqueue(jobs):
                    if isinstance(result, Exception):
                        raise result

        started = time.monotonic()
        await asyncio.gather(*(enqueue() for _ in range(CALLERS)))
        return {"fill_s": time.monotonic() - started}


async def open_and_lease(directory: str, leases: int) -> dict[str, float]:
    async with open_shard(directory) as (shard, took_s, grown_bytes):
        took: list[float] = []
        waiting = shard.queues.tasks.waiting
        for _ in range(leases):
            started = time.monotonic()
            tasks, _ = await shard.lease(GROUP, "bench", 1)
            took.append(time.monotonic() - started)
            assert len(tasks) == 1, "a waiting job was not leased"
        return {
            "open_s": took_s,
            "grown_bytes": grown_bytes,
            "waiting": waiting,
            "lease_ms": statistics.median(took) * 1e3,
        }


async def fire_schedules(directory: str, count: int) -> dict[str, float]:
    """All schedules are due at once, on a clock that stands still before and after: the worst case of a full minute."""
    now_ms = START_MS
    async with open_shard(directory, lambda: now_ms) as (shard, _, _):
        await put_schedules(shard, count)
        now_ms += MINUTE_MS
        stalled_s, started_cpu, started = 0.0, time.process_time(), time.monotonic()
        # A shard reads its clock after every step, so it takes a call to make it see the new time.
        await shard.enqueue([NewJob("another group", PAYLOAD, "tenant-0", "wakes the shard")])
        async with asyncio.timeout(FIRE_S_MAX):
            while shard.queues.tasks.waiting <= count:
                probed_at = time.monotonic()
                await asyncio.sleep(PROBE_S)
                stalled_s = max(stalled_s, time.monotonic() - probed_at - PROBE_S)
        took_s, cpu_s = time.monotonic() - started, time.process_time() - started_cpu
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
    what, directory, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    run = {"fill": fill, "open": open_and_lease, "schedules": fire_schedules}[what]
    sys.stdout.write(json.dumps(asyncio.run(run(directory, count))) + "\n")
