"""One shard with very many waiting jobs, or very many schedules.

Waiting jobs: how long the shard takes to open, the memory of each job, and what a lease costs. Schedules: how fast they
fire when all are due at once, and how long that blocks the event loop.
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

from argosy.base.errors import Unavailable
from argosy.bench.harness import Bench, Values
from argosy.bench.jobs import figures

PROGRAM_S_MAX = 1800.0
ERROR_CHARACTERS_MAX = 800  # of the error output of a process


async def measure_waiting_jobs(bench: Bench, scratch: Path, jobs: int, leases: int, repeats: int) -> None:
    few, many = scratch / "few", scratch / "many"
    bench.progress(f"enqueueing {jobs:,} jobs in one shard")
    await run_shard_program("fill", few, figures.FEW)
    filled = await run_shard_program("fill", many, jobs)
    bench.notes.append(
        f"waiting: {jobs:,} jobs of 100 tenants with 100 bytes each, enqueued in {filled['fill_s']:.0f} s"
    )
    opened = figures.open_time(jobs)

    async def run() -> Values:
        small, large = await run_shard_program("open", few, leases), await run_shard_program("open", many, leases)
        # The difference of two processes: what the store and the interpreter take in any case cancels out.
        grown = large["grown_bytes"] - small["grown_bytes"]
        return {
            opened.id: large["open_s"],
            figures.BYTES.id: grown / (large["waiting"] - small["waiting"]),
            figures.LEASE_FEW.id: small["lease_ms"],
            figures.LEASE_MANY.id: large["lease_ms"],
            figures.LEASE_TIMES.id: large["lease_ms"] / small["lease_ms"],
        }

    await bench.measure(opened, *figures.WAITS, run=run, repeats=repeats)


async def measure_schedules(bench: Bench, scratch: Path, schedules: int, repeats: int) -> None:
    bench.notes.append(f"schedules: {schedules:,} of 100 tenants, `* * * * *` in Europe/Berlin, all due at once")

    async def run() -> Values:
        found = await run_shard_program("schedules", scratch / f"schedules-{uuid4()}", schedules)
        return {
            figures.SCHEDULES_RATE.id: found["rate"],
            figures.SCHEDULES_CPU.id: found["cpu_us"],
            figures.SCHEDULES_STALL.id: found["stall_ms"],
        }

    await bench.measure(*figures.SCHEDULES, run=run, repeats=repeats)


async def run_shard_program(what: str, directory: Path, count: int) -> dict[str, float]:
    command = [sys.executable, "-m", f"{__package__}.shard_program", what, str(directory), str(count)]

    def run() -> "subprocess.CompletedProcess[str]":
        return subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_S_MAX)

    try:
        done = await asyncio.to_thread(run)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"the shard program {what!r} timed out after {PROGRAM_S_MAX:g} s") from error
    if done.returncode:
        raise Unavailable(f"the shard program {what!r} failed: {done.stderr.strip()[-ERROR_CHARACTERS_MAX:]}")
    values: dict[str, float] = json.loads(done.stdout)
    return values
