"""Dramatiq: put by several threads; a worker with as many threads as serve it best."""

import threading
from concurrent.futures import ThreadPoolExecutor

import dramatiq  # type: ignore[import-not-found, unused-ignore]
from dramatiq.brokers.redis import RedisBroker  # type: ignore[import-not-found, unused-ignore]

from argosy.bench.jobs.contenders.protocol import BEGAN, COUNT, GROUP, PAYLOAD, main, say

CALLERS = 16
THREADS = 8


def _actor(url: str) -> tuple[RedisBroker, "dramatiq.Actor"]:
    broker = RedisBroker(url=url)

    def race(payload: str) -> None:
        COUNT.one()

    return broker, dramatiq.actor(race, broker=broker, queue_name=GROUP)


def work(url: str) -> None:
    broker, _ = _actor(url)
    dramatiq.Worker(broker, worker_threads=THREADS).start()
    threading.Event().wait()


def produce(url: str, jobs: int) -> None:
    _, race = _actor(url)
    say(BEGAN)
    with ThreadPoolExecutor(CALLERS) as threads:
        for _ in threads.map(lambda _: race.send(PAYLOAD), range(jobs)):
            pass


if __name__ == "__main__":
    main(work, produce)
