"""Jobs put, leased and completed: one producer and one worker, each a process, before each contender's own server.

The clock runs from the first put until the last job's function has run, for everybody; whether the outcome of the last
few is durable by then is not asked of anybody.
"""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from redis.asyncio import Redis

from argosy.base.backends.servers import Valkey
from argosy.base.errors import ArgosyError, Unavailable
from argosy.bench.harness import Bench, Run
from argosy.bench.jobs import figures, peers
from argosy.bench.jobs.broker import broker_in
from argosy.bench.jobs.contenders.protocol import BEGAN, DONE, PUT, READY

RACE_S_MAX = 300.0
SAID_MAX = 800  # characters of what a process complained about
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
OURS = "argosy"


@dataclass(frozen=True)
class Contender:
    """Who races, by which Python, and against which server."""

    name: str
    python: str
    url: str
    variables: Mapping[str, str]
    folder: Path  # where its processes complain
    is_peer: bool = True

    @asynccontextmanager
    async def process(self, what: str, jobs: int) -> AsyncIterator[Process]:
        module = f"{__package__}.contenders.with_{self.name}"
        with self.complaints(what).open("ab") as complaints:
            started = await asyncio.create_subprocess_exec(
                self.python,
                "-m",
                module,
                what,
                self.url,
                str(jobs),
                stdout=PIPE,
                stderr=complaints,
                env=self.variables,
            )
        try:
            yield started
        finally:
            if started.returncode is None:
                started.kill()
            await started.communicate()  # its pipe is ours to drain, or closing it is a complaint of asyncio's

    def complaints(self, what: str) -> Path:
        return self.folder / f"{self.name}-{what}.log"

    async def heard(self, process: Process, what: str, event: str) -> float:
        """Waits for an event, and tells when it was."""
        assert process.stdout is not None
        async for line in process.stdout:
            words = line.split()
            if len(words) == 2 and words[0].decode() == event:
                return float(words[1])
        said = self.complaints(what).read_text(errors="replace").strip()[-SAID_MAX:]
        raise Unavailable(f"{self.name}: its {what} process ended before it was {event}: {said}")


async def race(contender: Contender, jobs: int) -> dict[str, float]:
    """Completed jobs a second, by the figure's id."""
    if contender.is_peer:
        await _empty(contender.url)
    try:
        async with asyncio.timeout(RACE_S_MAX), contender.process("work", jobs) as worker:
            async with contender.process("produce", 1) as first:
                await contender.heard(first, "produce", PUT)
            await contender.heard(worker, "work", READY)
            async with contender.process("produce", jobs) as producer:
                began = await contender.heard(producer, "produce", BEGAN)
                await contender.heard(producer, "produce", PUT)
                done = await contender.heard(worker, "work", DONE)
    except TimeoutError as error:
        raise Unavailable(f"{contender.name}: {jobs} jobs were not done within {RACE_S_MAX:g} s") from error
    return {figures.COMPLETED.id: jobs / (done - began)}


async def _empty(url: str) -> None:
    """What the last race left half-done would else be done in this one."""
    client = Redis.from_url(url)
    await client.flushall()
    await client.aclose()


async def measure_race(bench: Bench, scratch: Path, jobs: int, repeats: int) -> None:
    """Ours and the others take turns; their Valkey waits for the disk before it answers, as our broker does."""
    folder = scratch / "race"
    folder.mkdir()
    found = await others(bench)
    with Valkey(options=DURABLE) as valkey:
        async with broker_in(folder / "broker") as (_, address):
            own = Contender(OURS, sys.executable, address, os.environ, folder, is_peer=False)
            rivals = {
                name: Contender(name, str(python), valkey.url, peers.variables(), folder)
                for name, python in found.items()
            }
            for name in list(rivals):
                try:
                    await race(rivals[name], 1)  # one that cannot race at all is told, and the others do
                except ArgosyError as error:
                    bench.notes.append(f"{name}: not measured, {error}")
                    del rivals[name]
            runs = {name: _run(rival, jobs) for name, rival in rivals.items()}
            await bench.measure(figures.COMPLETED, run=_run(own, jobs), peers=runs, repeats=repeats)
    _compare(bench)


def _run(contender: Contender, jobs: int) -> Run:
    return lambda: race(contender, jobs)


async def others(bench: Bench) -> dict[str, Path]:
    """The Python of each peer that is here; the rest is told in the notes."""
    bench.say("installing the peers")
    bench.notes.append("procrastinate: not measured, it needs a PostgreSQL, which the environment does not have")
    try:
        python = await asyncio.to_thread(peers.environment)
        there = await asyncio.to_thread(peers.versions, python)
    except ArgosyError as error:
        bench.notes.append(f"{', '.join(peers.NAMES)}: not measured, {error}")
        return {}
    bench.details["peers"] = there
    for name in peers.NAMES:
        if name not in there:
            bench.notes.append(f"{name}: not measured, it is not in the environment of the peers")
    return dict.fromkeys(there, python)


def _compare(bench: Bench) -> None:
    """How many times the best of the others we do."""
    ours = next((each for each in bench.results if each.figure == figures.COMPLETED), None)
    if ours is not None and ours.value is not None and ours.peers:
        bench.record(figures.COMPLETED_TIMES, [ours.value / max(ours.peers.values())])
    else:
        bench.give_up([figures.COMPLETED_TIMES], Unavailable("there was no peer to compare with: see the notes"))
