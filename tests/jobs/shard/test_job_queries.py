"""Finding jobs, and importing jobs."""

import pytest

from argosy.base.errors import Conflict, Gone, Invalid
from argosy.jobs.model import (
    Attempt,
    AttemptStatus,
    ImportedJob,
    JobStatus,
    NewJob,
    RetryPolicy,
    TaskFailure,
    TaskSuccess,
)
from tests.jobs.shard.builders import NOW, T, World, new_job


async def three_done(world: World) -> list[str]:
    """Newest first."""
    done = []
    for at in range(3):
        done.insert(0, await world.put(metadata={"colour": "red" if at else "blue"}))
        await world.report(await world.lease_one(), TaskSuccess())
        world.now += 1
    return done


async def test_jobs_of_a_status_are_found_newest_first_in_pages(world: World) -> None:
    done = await three_done(world)
    await world.put(tenant="other")
    first = await world.shard.find(T, status=JobStatus.SUCCEEDED, limit=2)
    assert [view.job.id for view in first] == done[:2]
    second = await world.shard.find(T, status=JobStatus.SUCCEEDED, after=first[-1].job.id, limit=2)
    assert [view.job.id for view in second] == done[2:]


async def test_jobs_of_any_status_are_found_newest_first(world: World) -> None:
    done = await three_done(world)
    waiting = await world.put(start_at_ms=world.now + 10)
    assert [view.job.id for view in await world.shard.find(T)] == [waiting, *done]
    assert [view.job.id for view in await world.shard.find(T, after=waiting, limit=1)] == done[:1]


async def test_jobs_are_found_by_metadata_in_the_order_of_ids(world: World) -> None:
    done = await three_done(world)
    views = await world.shard.find(T, metadata=("colour", "red"))
    assert [view.job.id for view in views] == sorted(done[:2])
    views = await world.shard.find(T, metadata=("colour", "red"), after=views[0].job.id)
    assert [view.job.id for view in views] == sorted(done[:2])[1:]
    assert await world.shard.find(T, metadata=("colour", "red"), status=JobStatus.FAILED) == []


async def test_a_page_after_a_deleted_job_is_an_error(world: World) -> None:
    with pytest.raises(Gone, match="list again"):
        await world.shard.find(T, after="gone")
    with pytest.raises(Invalid):
        await world.shard.find(T, limit=0)
    with pytest.raises(Invalid):
        await world.shard.find(T, status=JobStatus.RUNNING, is_dead=True)


# -- import -----------------------------------------------------------------------------------------------------------


def attempt(status: AttemptStatus = AttemptStatus.FAILED, at: int = 1) -> Attempt:
    return Attempt(0, "", status, started_at=at, finished_at=at + 1, error_code="E")


def imported_job(*attempts: Attempt, retries: int = 0, **fields: object) -> ImportedJob:
    new: NewJob = new_job(**{"id": "i", "retry": RetryPolicy(retry_count=retries), **fields})
    return ImportedJob(new, NOW - 5_000, attempts)


@pytest.mark.parametrize(
    ("attempts", "retries", "status"),
    [
        ((), 0, JobStatus.SCHEDULED),
        ((attempt(AttemptStatus.SUCCEEDED),), 0, JobStatus.SUCCEEDED),
        ((attempt(), attempt(AttemptStatus.CANCELLED)), 0, JobStatus.CANCELLED),
        ((attempt(),), 0, JobStatus.FAILED),
        ((attempt(),), 1, JobStatus.SCHEDULED),
        ((attempt(), attempt()), 1, JobStatus.FAILED),
    ],
)
async def test_an_imported_jobs_status_follows_its_attempts(
    world: World, attempts: tuple[Attempt, ...], retries: int, status: JobStatus
) -> None:
    assert await world.shard.import_jobs([imported_job(*attempts, retries=retries)]) == [status]
    view = await world.view("i")
    assert (view.state.status, len(view.attempts), view.job.enqueued_at) == (status, len(attempts), NOW - 5_000)
    if status == JobStatus.SCHEDULED:
        leased = await world.lease_one()
        assert (leased.task.attempt, leased.task.relative_attempt) == (len(attempts) + 1, len(attempts) + 1)


async def test_a_job_is_imported_again_with_more_attempts_only(world: World) -> None:
    first, second = attempt(at=1), attempt(at=2)
    assert await world.shard.import_jobs([imported_job(first, retries=5, metadata={"k": "old"})]) == [
        JobStatus.SCHEDULED
    ]
    for attempts in ((first,), (second, first), ()):
        (error,) = await world.shard.import_jobs([imported_job(*attempts, retries=5)])
        assert isinstance(error, Conflict)
    again = imported_job(first, second, retries=5, metadata={"k": "new"})
    assert await world.shard.import_jobs([again]) == [JobStatus.SCHEDULED]
    assert (await world.lease_one()).task.attempt == 3
    assert await world.lease() == []
    assert await world.shard.find(T, metadata=("k", "old")) == []


async def test_a_running_job_rejects_the_whole_import_and_a_succeeded_one_its_item(world: World) -> None:
    await world.put(id="i")
    leased = await world.lease_one()
    with pytest.raises(Conflict, match="running"):
        await world.shard.import_jobs([imported_job(id="other"), imported_job(attempt())])
    assert await world.lease() == []
    await world.report(leased, TaskSuccess())
    answers = await world.shard.import_jobs([imported_job(id="other"), imported_job(attempt(), attempt())])
    assert answers[0] == JobStatus.SCHEDULED
    assert isinstance(answers[1], Conflict)


@pytest.mark.parametrize(
    "bad",
    [
        imported_job(attempt(AttemptStatus.RUNNING)),
        imported_job(attempt(AttemptStatus.SUCCEEDED), attempt()),
        imported_job(id=""),
        imported_job(unique_key="u"),
    ],
)
async def test_an_invalid_import_is_rejected_in_its_position(world: World, bad: ImportedJob) -> None:
    answers = await world.shard.import_jobs([bad, imported_job(id="good")])
    assert isinstance(answers[0], Invalid)
    assert answers[1] == JobStatus.SCHEDULED


async def test_a_failed_job_can_be_imported_again_and_continues(world: World) -> None:
    await world.put(id="i")
    await world.report(await world.lease_one(), TaskFailure("E"))
    tried = (await world.view("i")).attempts
    assert await world.shard.import_jobs([imported_job(*tried, attempt(at=9), retries=2)]) == [JobStatus.SCHEDULED]
