"""Very many waiting jobs in one shard: how long it takes to open, what each takes in memory, and what a lease costs."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from argosy.base.errors import Unavailable
from argosy.bench.harness import Bench, Values
from argosy.bench.jobs import figures

PROGRAM_S_MAX = 1800.0
SAID_MAX = 800  # characters of what the process complained about


async def measure_waiting(bench: Bench, scratch: Path, jobs: int, leases: int, repeats: int) -> None:
    few, many = scratch / "few", scratch / "many"
    bench.say(f"putting {jobs:,} jobs into one shard")
    await program("fill", few, figures.FEW)
    filled = await program("fill", many, jobs)
    bench.notes.append(f"waiting: {jobs:,} jobs of 100 tenants with 100 bytes each, put in {filled['fill_s']:.0f} s")
    opened = figures.opened(jobs)

    async def once() -> Values:
        a_few, a_lot = await program("open", few, leases), await program("open", many, leases)
        grown = a_lot["grown_bytes"] - a_few["grown_bytes"]
        return {
            opened.id: a_lot["open_s"],
            figures.BYTES.id: grown / (a_lot["waiting"] - a_few["waiting"]),
            figures.LEASE_FEW.id: a_few["lease_ms"],
            figures.LEASE_MANY.id: a_lot["lease_ms"],
            figures.LEASE_TIMES.id: a_lot["lease_ms"] / a_few["lease_ms"],
        }

    await bench.measure(opened, *figures.WAITS, run=once, repeats=repeats)


async def program(what: str, folder: Path, count: int) -> dict[str, float]:
    """Runs `shard_program`."""
    command = [sys.executable, "-m", f"{__package__}.shard_program", what, str(folder), str(count)]

    def run() -> "subprocess.CompletedProcess[str]":
        return subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_S_MAX)

    try:
        ran = await asyncio.to_thread(run)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"the shard was not done with `{what}` after {PROGRAM_S_MAX:g} s") from error
    if ran.returncode:
        raise Unavailable(f"the shard failed at `{what}`: {ran.stderr.strip()[-SAID_MAX:]}")
    told: dict[str, float] = json.loads(ran.stdout)
    return told
