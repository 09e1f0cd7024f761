"""The jobs benchmark: each measurement with the broker it needs, everything in a directory that is then removed."""

import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from argosy.bench.harness import Bench, Figure
from argosy.bench.jobs import figures
from argosy.bench.jobs.enqueue_rate import measure_enqueueing
from argosy.bench.jobs.large_shard import measure_schedules, measure_waiting_jobs
from argosy.bench.jobs.queue_race import measure_race
from argosy.bench.jobs.start_latency import measure_due_jobs, measure_fairness


@dataclass(frozen=True)
class JobsSizes:
    """How much is measured."""

    enqueue_s: float
    lone: int  # jobs enqueued one at a time
    raced: int
    races: int
    due: int
    pollers: int
    polls: int  # repeats
    waiting: int
    leases: int
    openings: int
    noisy: int
    quiet: int
    fairs: int  # repeats
    schedules: int
    firings: int  # repeats


FULL = JobsSizes(5.0, 200, 5_000, 3, 200, figures.POLLERS, 3, 1_000_000, 300, 3, 100_000, 20, 3, 10_000, 3)
QUICK = JobsSizes(2.0, 50, 500, 3, 100, figures.POLLERS, 1, 100_000, 100, 1, 20_000, 10, 1, 10_000, 1)


async def jobs(bench: Bench) -> None:
    """The job broker with fsync: enqueues, whole jobs beside other queues, waiting workers, waiting jobs, fairness."""
    sizes = QUICK if bench.is_quick else FULL
    with tempfile.TemporaryDirectory(prefix="argosy-bench-") as directory:
        at = Path(directory)
        parts: list[tuple[Sequence[Figure], Callable[[], Awaitable[None]]]] = [
            (figures.ENQUEUES, lambda: measure_enqueueing(bench, at, sizes.enqueue_s, sizes.lone)),
            (figures.RACES, lambda: measure_race(bench, at, sizes.raced, sizes.races)),
            (figures.DUES, lambda: measure_due_jobs(bench, at, sizes.due, sizes.polls, sizes.pollers)),
            ((figures.NOISY,), lambda: measure_fairness(bench, at, sizes.noisy, sizes.quiet, sizes.fairs)),
            (figures.SCHEDULES, lambda: measure_schedules(bench, at, sizes.schedules, sizes.firings)),
            (
                (figures.open_time(sizes.waiting), *figures.WAITS),
                lambda: measure_waiting_jobs(bench, at, sizes.waiting, sizes.leases, sizes.openings),
            ),
        ]
        for part_figures, measure in parts:
            await bench.attempt(part_figures, measure)
