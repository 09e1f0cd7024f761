"""arq: put side by side, which its connections turn into few round trips."""

import asyncio
from typing import Any

from arq import create_pool  # type: ignore[import-not-found, unused-ignore]
from arq.connections import RedisSettings  # type: ignore[import-not-found, unused-ignore]
from arq.worker import Worker  # type: ignore[import-not-found, unused-ignore]

from argosy.bench.jobs.contenders.protocol import BEGAN, COUNT, PAYLOAD, main, say

CONCURRENCY = 256
CALLERS = 64
POLL_S = 0.01  # it asks for jobs this often; by default twice a second


async def race(_: Any, payload: str) -> None:
    COUNT.one()


def work(url: str) -> None:
    asyncio.set_event_loop(asyncio.new_event_loop())
    Worker(
        functions=[race],
        redis_settings=RedisSettings.from_dsn(url),
        max_jobs=CONCURRENCY,
        poll_delay=POLL_S,
        queue_read_limit=CONCURRENCY * 4,
        keep_result=0,
    ).run()


def produce(url: str, jobs: int) -> None:
    asyncio.run(_produce(url, jobs))


async def _produce(url: str, jobs: int) -> None:
    pool = await create_pool(RedisSettings.from_dsn(url))
    left = iter(range(jobs))

    async def put() -> None:
        for _ in left:
            await pool.enqueue_job("race", PAYLOAD)

    say(BEGAN)
    await asyncio.gather(*(put() for _ in range(CALLERS)))
    await pool.aclose()


if __name__ == "__main__":
    main(work, produce)
