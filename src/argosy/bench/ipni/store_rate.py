"""The store alone beside other stores that Python has for the same job: blind puts of digests, and lookups."""

import asyncio
import json
import shutil
import sys
from itertools import count
from pathlib import Path

from argosy.base.errors import ArgosyError, Unavailable
from argosy.bench.harness import Bench, Run, Values
from argosy.bench.ipni import figures
from argosy.bench.jobs import peers

OTHERS = ("rocksdict", "sqlite")  # in our own environment; lmdb is in that of the peers
RUN_S_MAX = 600.0
SAID_MAX = 500  # characters of what a program complained about


async def measure_stores(bench: Bench, scratch: Path, multihashes: int, repeats: int) -> None:
    runs: dict[str, Run] = {name: _run(scratch, name, sys.executable, multihashes) for name in OTHERS}
    try:
        python = await asyncio.to_thread(peers.environment)
        await program(scratch / "lmdb-tried", "lmdb", str(python), 1)
        runs["lmdb"] = _run(scratch, "lmdb", str(python), multihashes)
    except ArgosyError as error:
        bench.notes.append(f"lmdb: not measured, {error}")
    own = _run(scratch, "argosy", sys.executable, multihashes)
    await bench.measure(*figures.STORES, run=own, peers=runs, repeats=repeats)
    bench.notes.append(
        f"store: {multihashes:,} digests in chunks, closing included; ours keeps inverse lists besides, the others "
        "only the keys. storetheindex, the original, is a Go program and is not to be had here"
    )


_numbers = count()


def _run(scratch: Path, name: str, python: str, multihashes: int) -> Run:
    async def run() -> Values:
        told = await program(scratch / f"store-{name}-{next(_numbers)}", name, python, multihashes)
        return {f"store.{figure}": value for figure, value in told.items()}

    return run


async def program(folder: Path, name: str, python: str, multihashes: int) -> dict[str, float]:
    """Runs the program on a new folder, and removes the folder."""
    ran = await asyncio.create_subprocess_exec(
        python,
        "-m",
        f"{__package__}.store_program",
        name,
        str(folder),
        str(multihashes),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=peers.variables(),
    )
    try:
        async with asyncio.timeout(RUN_S_MAX):
            said, complained = await ran.communicate()
    except TimeoutError as error:
        raise Unavailable(f"the store {name} was not done within {RUN_S_MAX:g} s") from error
    finally:
        if ran.returncode is None:
            ran.kill()
            await ran.communicate()
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    if ran.returncode:
        raise Unavailable(f"the store {name} failed: {_last_line(complained)}")
    told: dict[str, float] = json.loads(said)
    return told


def _last_line(complained: bytes) -> str:
    """Of a traceback: what was wrong."""
    return (complained.decode(errors="replace").strip().splitlines() or ["it did not say why"])[-1][-SAID_MAX:]
