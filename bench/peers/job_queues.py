"""Worker and producer of each queue in the race, run in the environment that has them.

    python -m bench.peers.job_queues arq|celery|dramatiq|rq work|produce URL COUNT

Nothing but the standard library and the race's own protocol is imported at the top, because each process needs the
library of one queue. The settings were chosen so that each queue is fast and loses no job with its worker; none was
tuned beyond that.
"""

import asyncio
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from argosy.bench.jobs.race_program import COUNTER, GROUP, PAYLOAD, STARTED, report, run

Work = Callable[[str], None]
Produce = Callable[[str, int], None]


# -- arq: enqueued concurrently on one event loop, whose connections combine the commands ------------------------------

ARQ_CONCURRENCY = 256
ARQ_CALLERS = 64
ARQ_POLL_S = 0.01  # by default it polls twice a second, which would be most of the figure


async def arq_race(_: Any, payload: str) -> None:
    COUNTER.count()


def work_arq(url: str) -> None:
    from arq.connections import RedisSettings  # type: ignore[import-not-found, unused-ignore]
    from arq.worker import Worker, func  # type: ignore[import-not-found, unused-ignore]

    asyncio.set_event_loop(asyncio.new_event_loop())
    Worker(
        functions=[func(arq_race, name="race")],
        redis_settings=RedisSettings.from_dsn(url),
        max_jobs=ARQ_CONCURRENCY,
        poll_delay=ARQ_POLL_S,
        queue_read_limit=ARQ_CONCURRENCY * 4,
        keep_result=0,
    ).run()


def produce_arq(url: str, jobs: int) -> None:
    asyncio.run(_produce_arq(url, jobs))


async def _produce_arq(url: str, jobs: int) -> None:
    from arq import create_pool  # type: ignore[import-not-found, unused-ignore]
    from arq.connections import RedisSettings  # type: ignore[import-not-found, unused-ignore]

    pool = await create_pool(RedisSettings.from_dsn(url))
    remaining = iter(range(jobs))

    async def enqueue() -> None:
        for _ in remaining:
            await pool.enqueue_job("race", PAYLOAD)

    report(STARTED)
    await asyncio.gather(*(enqueue() for _ in range(ARQ_CALLERS)))
    await pool.aclose()


# -- Celery: enqueued by several threads; acknowledged after a job has run, so that none is lost with its worker -------

CALLERS = 16
THREADS = 8


def _celery_app(url: str) -> Any:
    from celery import Celery  # type: ignore[import-not-found, unused-ignore]

    app = Celery(GROUP, broker=url)
    app.conf.update(
        task_ignore_result=True,
        task_acks_late=True,
        worker_prefetch_multiplier=32,
        broker_pool_limit=CALLERS,
        worker_send_task_events=False,
        worker_redirect_stdouts=False,  # the race reads its standard output
        broker_connection_retry_on_startup=True,
    )

    @app.task(name="race")  # type: ignore[untyped-decorator, unused-ignore]
    def race(payload: str) -> None:
        COUNTER.count()

    return app


def work_celery(url: str) -> None:
    arguments = ["worker", "--pool", "threads", "--concurrency", str(THREADS), "--loglevel", "ERROR"]
    _celery_app(url).worker_main([*arguments, "--without-gossip", "--without-mingle", "--without-heartbeat"])


def produce_celery(url: str, jobs: int) -> None:
    race = _celery_app(url).tasks["race"]
    report(STARTED)
    with ThreadPoolExecutor(CALLERS) as threads:
        for _ in threads.map(lambda _: race.delay(PAYLOAD), range(jobs)):
            pass


# -- Dramatiq: enqueued by several threads -----------------------------------------------------------------------------


def _dramatiq_actor(url: str) -> tuple[Any, Any]:
    import dramatiq  # type: ignore[import-not-found, unused-ignore]
    from dramatiq.brokers.redis import RedisBroker  # type: ignore[import-not-found, unused-ignore]

    broker = RedisBroker(url=url)

    def race(payload: str) -> None:
        COUNTER.count()

    return broker, dramatiq.actor(race, broker=broker, queue_name=GROUP)


def work_dramatiq(url: str) -> None:
    import dramatiq  # type: ignore[import-not-found, unused-ignore]

    broker, _ = _dramatiq_actor(url)
    dramatiq.Worker(broker, worker_threads=THREADS).start()
    threading.Event().wait()


def produce_dramatiq(url: str, jobs: int) -> None:
    _, race = _dramatiq_actor(url)
    report(STARTED)
    with ThreadPoolExecutor(CALLERS) as threads:
        for _ in threads.map(lambda _: race.send(PAYLOAD), range(jobs)):
            pass


# -- RQ: enqueued in batches by `enqueue_many`; its worker without a fork for each job, which is its fastest -----------

RQ_BATCH = 100


def rq_race(payload: str) -> None:
    COUNTER.count()


def work_rq(url: str) -> None:
    from redis import Redis
    from rq import Queue, SimpleWorker  # type: ignore[import-not-found, unused-ignore]

    connection = Redis.from_url(url)
    SimpleWorker([Queue(GROUP, connection=connection)], connection=connection).work(logging_level="ERROR")


def produce_rq(url: str, jobs: int) -> None:
    from redis import Redis
    from rq import Queue  # type: ignore[import-not-found, unused-ignore]

    queue = Queue(GROUP, connection=Redis.from_url(url))
    # The worker imports the function by this name, in a second copy of this module; the counter is shared by both,
    # because it is in another module.
    name = f"{__package__}.job_queues.rq_race"
    report(STARTED)
    for begin in range(0, jobs, RQ_BATCH):
        size = min(RQ_BATCH, jobs - begin)
        queue.enqueue_many([Queue.prepare_data(name, (PAYLOAD,), result_ttl=0) for _ in range(size)])


PROGRAMS: dict[str, tuple[Work, Produce]] = {
    "arq": (work_arq, produce_arq),
    "celery": (work_celery, produce_celery),
    "dramatiq": (work_dramatiq, produce_dramatiq),
    "rq": (work_rq, produce_rq),
}


if __name__ == "__main__":
    work, produce = PROGRAMS[sys.argv[1]]
    run(sys.argv[2], sys.argv[3], int(sys.argv[4]), work, produce)
