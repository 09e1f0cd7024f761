"""Ourselves, through the SDK as everybody uses it: a client that puts jobs, and a worker."""

import asyncio

from argosy.bench.jobs.contenders.protocol import BEGAN, COUNT, GROUP, PAYLOAD, main, say
from argosy.jobs import JobsClient, Worker
from argosy.jobs.sdk.client import new_job

CONCURRENCY = 256
BATCH = 100
CALLERS = 4


def work(url: str) -> None:
    worker = Worker(JobsClient.connect(url), concurrency=CONCURRENCY)

    @worker.handler(GROUP)
    async def nothing(payload: str) -> None:
        COUNT.one()

    worker.run_forever()


def produce(url: str, jobs: int) -> None:
    asyncio.run(_produce(url, jobs))


async def _produce(url: str, jobs: int) -> None:
    async with JobsClient.connect(url) as client:
        await client.shards()
        batches = iter([min(BATCH, jobs - begin) for begin in range(0, jobs, BATCH)])

        async def put() -> None:
            for size in batches:
                for answer in await client.enqueue_many([new_job(GROUP, PAYLOAD) for _ in range(size)]):
                    if isinstance(answer, Exception):
                        raise answer

        say(BEGAN)
        await asyncio.gather(*(put() for _ in range(CALLERS)))


if __name__ == "__main__":
    main(work, produce)
