"""The processes of the race: what each reports, the same for all queues; and Argosy's own worker and producer.

    python -m argosy.bench.jobs.race_program argosy work|produce URL COUNT

Times are of the machine's monotonic clock, which its processes share. The programs of the peers import this module in
an environment that has their library and not Argosy's dependencies, so nothing but the standard library is imported at
the top.
"""

import asyncio
import sys
import threading
import time
from collections.abc import Callable

READY, STARTED, ENQUEUED, DONE = "ready", "started", "enqueued", "done"
GROUP = "race"
PAYLOAD = "x" * 100
CONCURRENCY = 256
BATCH = 100
CALLERS = 4


class JobCounter:
    """Jobs that have run in this process.

    The first one only shows that the worker works: importing, connecting and forking are no part of the race.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._remaining = -1

    def expect(self, jobs: int) -> None:
        self._remaining = jobs + 1
        self._first = self._remaining

    def count(self) -> None:
        with self._lock:
            self._remaining -= 1
            remaining = self._remaining
        if remaining == self._first - 1:
            report(READY)
        if remaining == 0:
            report(DONE)


def report(event: str) -> None:
    sys.stdout.write(f"{event} {time.monotonic()}\n")
    sys.stdout.flush()


COUNTER = JobCounter()


def run(what: str, url: str, jobs: int, work: Callable[[str], None], produce: Callable[[str, int], None]) -> None:
    """Run one side. `produce` itself reports STARTED, once it is connected."""
    if what == "work":
        COUNTER.expect(jobs)
        work(url)
    else:
        produce(url, jobs)
        report(ENQUEUED)


# -- Argosy, through the SDK as applications use it -------------------------------------------------------------------


def work(url: str) -> None:
    from argosy.jobs import JobsClient, Worker

    worker = Worker(JobsClient.connect(url), concurrency=CONCURRENCY)

    @worker.handler(GROUP)
    async def count(payload: str) -> None:
        COUNTER.count()

    worker.run_forever()


def produce(url: str, jobs: int) -> None:
    asyncio.run(_produce(url, jobs))


async def _produce(url: str, jobs: int) -> None:
    from argosy.jobs import JobsClient
    from argosy.jobs.sdk.client import new_job

    async with JobsClient.connect(url) as client:
        await client.shards()  # the shard map is fetched before the clock starts, as a connected client has it
        sizes = iter([min(BATCH, jobs - begin) for begin in range(0, jobs, BATCH)])

        async def enqueue() -> None:
            for size in sizes:
                for result in await client.enqueue_many([new_job(GROUP, PAYLOAD) for _ in range(size)]):
                    if isinstance(result, Exception):
                        raise result

        report(STARTED)
        await asyncio.gather(*(enqueue() for _ in range(CALLERS)))


if __name__ == "__main__":
    run(sys.argv[2], sys.argv[3], int(sys.argv[4]), work, produce)
