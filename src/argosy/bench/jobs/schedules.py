"""Very many minutely schedules in one shard: how fast they fire, and how long that holds up the event loop."""

from pathlib import Path
from uuid import uuid4

from argosy.bench.harness import Bench, Values
from argosy.bench.jobs import figures
from argosy.bench.jobs.waiting_jobs import program


async def measure_schedules(bench: Bench, scratch: Path, schedules: int, repeats: int) -> None:
    bench.notes.append(f"schedules: {schedules:,} of 100 tenants, `* * * * *` in Europe/Berlin, all due at once")

    async def once() -> Values:
        found = await program("schedules", scratch / f"schedules-{uuid4()}", schedules)
        return {
            figures.SCHEDULES_RATE.id: found["rate"],
            figures.SCHEDULES_CPU.id: found["cpu_us"],
            figures.SCHEDULES_STALL.id: found["stall_ms"],
        }

    await bench.measure(*figures.SCHEDULES, run=once, repeats=repeats)
