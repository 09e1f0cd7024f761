"""Jobs enqueued, leased and completed: one producer and one worker process, for each queue with its own server.

The clock runs from the first enqueue until the function of the last job has run, for all queues. Whether the outcomes
of the last few jobs are durable by then is not part of the figure, because some queues do not store outcomes at all.
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
from argosy.bench.jobs import figures
from argosy.bench.jobs.broker import start_broker
from argosy.bench.jobs.race_program import DONE, ENQUEUED, READY, STARTED

RACE_S_MAX = 300.0
ERROR_CHARACTERS_MAX = 800  # of the error output of a process
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
OURS = "argosy"


@dataclass(frozen=True)
class RacingQueue:
    """A queue of the race: its programs, the Python that runs them, and its server."""

    name: str
    python: str
    module: str  # run with the name of the queue
    url: str
    environment: Mapping[str, str]
    directory: Path  # of the error output of its processes
    is_peer: bool = True

    @asynccontextmanager
    async def start(self, what: str, jobs: int) -> AsyncIterator[Process]:
        with self.error_log(what).open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                self.python,
                "-m",
                self.module,
                self.name,
                what,
                self.url,
                str(jobs),
                stdout=PIPE,
                stderr=errors,
                env=self.environment,
            )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()  # drains the pipe: asyncio warns about one that is closed with data in it

    def error_log(self, what: str) -> Path:
        return self.directory / f"{self.name}-{what}.log"

    async def wait_event(self, process: Process, what: str, event: str) -> float:
        """Wait until the process reports an event; returns when that was."""
        assert process.stdout is not None
        async for line in process.stdout:
            words = line.split()
            if len(words) == 2 and words[0].decode() == event:
                return float(words[1])
        errors = self.error_log(what).read_text(errors="replace").strip()[-ERROR_CHARACTERS_MAX:]
        raise Unavailable(f"{self.name}: its {what} process exited before the event {event!r}: {errors}")


async def run_race(queue: RacingQueue, jobs: int) -> dict[str, float]:
    """Completed jobs a second, by the id of the figure."""
    if queue.is_peer:
        await _empty(queue.url)
    try:
        async with asyncio.timeout(RACE_S_MAX), queue.start("work", jobs) as worker:
            # One job first: it shows that the worker has started, which is not part of the race.
            async with queue.start("produce", 1) as first:
                await queue.wait_event(first, "produce", ENQUEUED)
            await queue.wait_event(worker, "work", READY)
            async with queue.start("produce", jobs) as producer:
                started = await queue.wait_event(producer, "produce", STARTED)
                await queue.wait_event(producer, "produce", ENQUEUED)
                done = await queue.wait_event(worker, "work", DONE)
    except TimeoutError as error:
        raise Unavailable(f"{queue.name}: {jobs} jobs were not done within {RACE_S_MAX:g} s") from error
    return {figures.COMPLETED.id: jobs / (done - started)}


async def _empty(url: str) -> None:
    """Removes what the previous race left: its unfinished jobs would run in this one."""
    client = Redis.from_url(url)
    await client.flushall()
    await client.aclose()


async def measure_race(bench: Bench, scratch: Path, jobs: int, repeats: int) -> None:
    """Argosy and the peers alternate; their Valkey syncs the disk before it responds, as the broker does."""
    directory = scratch / "race"
    directory.mkdir()
    adapters = bench.load_peers()
    async with start_broker(directory / "broker") as (_, address):
        own = RacingQueue(
            OURS, sys.executable, f"{__package__}.race_program", address, os.environ, directory, is_peer=False
        )
        if adapters is None:
            await bench.measure(figures.COMPLETED, run=_run(own, jobs), repeats=repeats)
            return
        with Valkey(options=DURABLE) as valkey:
            queues: dict[str, RacingQueue] = await adapters.find_queues(bench, valkey.url, directory)
            for name in list(queues):
                try:
                    await run_race(queues[name], 1)  # one that does not run at all must not fail the others
                except ArgosyError as error:
                    bench.notes.append(f"{name}: not measured, {error}")
                    del queues[name]
            peers = {name: _run(queue, jobs) for name, queue in queues.items()}
            await bench.measure(figures.COMPLETED, run=_run(own, jobs), peers=peers, repeats=repeats)
    _record_ratio(bench)


def _run(queue: RacingQueue, jobs: int) -> Run:
    return lambda: run_race(queue, jobs)


def _record_ratio(bench: Bench) -> None:
    """How many times the rate of the best peer."""
    ours = next((each for each in bench.results if each.figure == figures.COMPLETED), None)
    if ours is not None and ours.value is not None and ours.peers:
        bench.record(figures.COMPLETED_TIMES, [ours.value / max(ours.peers.values())])
    else:
        bench.record_error([figures.COMPLETED_TIMES], Unavailable("no peer was measured; the notes have the reasons"))
