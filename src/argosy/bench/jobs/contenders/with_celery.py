"""Celery: put by several threads; acknowledged when a job has run, so that none is lost with its worker."""

from concurrent.futures import ThreadPoolExecutor

from celery import Celery  # type: ignore[import-not-found, unused-ignore]

from argosy.bench.jobs.contenders.protocol import BEGAN, COUNT, GROUP, PAYLOAD, main, say

CALLERS = 16
THREADS = 8


def _app(url: str) -> Celery:
    app = Celery(GROUP, broker=url)
    app.conf.update(
        task_ignore_result=True,
        task_acks_late=True,
        worker_prefetch_multiplier=32,
        broker_pool_limit=CALLERS,
        worker_send_task_events=False,
        worker_redirect_stdouts=False,
        broker_connection_retry_on_startup=True,
    )

    @app.task(name="race")  # type: ignore[untyped-decorator, unused-ignore]
    def race(payload: str) -> None:
        COUNT.one()

    return app


def work(url: str) -> None:
    arguments = ["worker", "--pool", "threads", "--concurrency", str(THREADS), "--loglevel", "ERROR"]
    _app(url).worker_main([*arguments, "--without-gossip", "--without-mingle", "--without-heartbeat"])


def produce(url: str, jobs: int) -> None:
    app = _app(url)
    race = app.tasks["race"]
    say(BEGAN)
    with ThreadPoolExecutor(CALLERS) as threads:
        for _ in threads.map(lambda _: race.delay(PAYLOAD), range(jobs)):
            pass


if __name__ == "__main__":
    main(work, produce)
