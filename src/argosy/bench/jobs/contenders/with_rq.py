"""RQ: put in batches by `enqueue_many`; its worker without a fork for each job, which is its fastest."""

from redis import Redis
from rq import Queue, SimpleWorker  # type: ignore[import-not-found, unused-ignore]

from argosy.bench.jobs.contenders.protocol import BEGAN, COUNT, GROUP, PAYLOAD, main, say

BATCH = 100


def race(payload: str) -> None:
    COUNT.one()


def work(url: str) -> None:
    connection = Redis.from_url(url)
    SimpleWorker([Queue(GROUP, connection=connection)], connection=connection).work(logging_level="ERROR")


def produce(url: str, jobs: int) -> None:
    queue = Queue(GROUP, connection=Redis.from_url(url))
    name = f"{__package__}.with_rq.race"
    say(BEGAN)
    for begin in range(0, jobs, BATCH):
        size = min(BATCH, jobs - begin)
        queue.enqueue_many([Queue.prepare_data(name, (PAYLOAD,), result_ttl=0) for _ in range(size)])


if __name__ == "__main__":
    main(work, produce)
