"""The bench of the job broker: each measure with the broker it needs, everything in a folder that is then removed."""

import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from argosy.base.errors import ArgosyError
from argosy.bench.harness import Bench, Figure
from argosy.bench.jobs import figures
from argosy.bench.jobs.due_latency import measure_polling
from argosy.bench.jobs.enqueue_rate import measure_enqueueing
from argosy.bench.jobs.fairness import measure_fairness
from argosy.bench.jobs.queue_race import measure_race
from argosy.bench.jobs.schedules import measure_schedules
from argosy.bench.jobs.waiting_jobs import measure_waiting


@dataclass(frozen=True)
class Plan:
    """How much is done."""

    enqueue_s: float
    lone: int  # jobs put one at a time
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


FULL = Plan(5.0, 200, 5_000, 3, 200, figures.POLLERS, 3, 1_000_000, 300, 3, 100_000, 20, 3, 10_000, 3)
QUICK = Plan(2.0, 50, 500, 3, 100, figures.POLLERS, 1, 100_000, 100, 1, 20_000, 10, 1, 10_000, 1)


async def jobs(bench: Bench) -> None:
    """The job broker with fsync: enqueues, whole jobs beside other queues, waiting workers, waiting jobs, fairness."""
    plan = QUICK if bench.is_quick else FULL
    with tempfile.TemporaryDirectory(prefix="argosy-bench-") as folder:
        at = Path(folder)
        parts: list[tuple[Sequence[Figure], Callable[[], Awaitable[None]]]] = [
            (figures.ENQUEUES, lambda: measure_enqueueing(bench, at, plan.enqueue_s, plan.lone)),
            (figures.RACES, lambda: measure_race(bench, at, plan.raced, plan.races)),
            (figures.DUES, lambda: measure_polling(bench, at, plan.due, plan.polls, plan.pollers)),
            ((figures.NOISY,), lambda: measure_fairness(bench, at, plan.noisy, plan.quiet, plan.fairs)),
            (figures.SCHEDULES, lambda: measure_schedules(bench, at, plan.schedules, plan.firings)),
            (
                (figures.opened(plan.waiting), *figures.WAITS),
                lambda: measure_waiting(bench, at, plan.waiting, plan.leases, plan.openings),
            ),
        ]
        for wanted, measure in parts:
            await _tried(bench, wanted, measure)


async def _tried(bench: Bench, wanted: Sequence[Figure], measure: Callable[[], Awaitable[None]]) -> None:
    """Measures if it is asked for; what could not be measured says why."""
    if not bench.wants(*[figure.id for figure in wanted]):
        return
    try:
        await measure()
    except ArgosyError as error:
        told = {result.figure.id for result in bench.results}
        bench.give_up([figure for figure in wanted if figure.id not in told], error)
