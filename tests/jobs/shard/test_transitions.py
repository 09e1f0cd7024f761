"""Every transition between states of a job, through the calls of the shard."""

import pytest

from argosy.base.errors import Conflict, Invalid, NotFound
from argosy.jobs.model import (
    LEASE_MS,
    WORKER_CRASHED,
    WORKER_STOPPED,
    AttemptStatus,
    ConcurrencyLimit,
    FloatingLimit,
    JobStatus,
    RateLimit,
    RetryPolicy,
    TaskCancelled,
    TaskFailure,
    TaskReleased,
    TaskSuccess,
)
from tests.jobs.shard.builders import NOW, T, World, new_job

RETRY = RetryPolicy(retry_count=2, initial_interval_ms=100, max_interval_ms=10_000, backoff_factor=2.0)


async def test_a_job_is_scheduled_runs_and_succeeds(world: World) -> None:
    job = await world.put(payload=b"work")
    assert await world.status(job) == JobStatus.SCHEDULED
    leased = await world.lease_one()
    assert (leased.job.payload, leased.task.attempt) == (b"work", 1)
    assert (leased.lease_ms, leased.is_last_attempt) == (LEASE_MS, True)
    assert await world.status(job) == JobStatus.RUNNING
    await world.report(leased, TaskSuccess(b"done"))
    view = await world.view(job)
    assert view.state.status == JobStatus.SUCCEEDED
    assert [(each.status, each.result) for each in view.attempts] == [(AttemptStatus.SUCCEEDED, b"done")]


async def test_a_failure_without_a_policy_is_final_and_a_dead_letter(world: World) -> None:
    job = await world.put()
    await world.report(await world.lease_one(), TaskFailure("E", b"why"))
    view = await world.view(job)
    assert (view.state.status, view.state.is_dead) == (JobStatus.FAILED, True)
    assert (view.attempts[0].error_code, view.attempts[0].error_data) == ("E", b"why")
    assert [each.job.id for each in await world.shard.find(T, is_dead=True)] == [job]


async def test_retries_wait_longer_each_time_and_then_the_job_fails(world: World) -> None:
    job = await world.put(retry=RETRY)
    for attempt, delay_ms in ((1, 200), (2, 400)):
        leased = await world.lease_one()
        assert (leased.task.attempt, leased.task.relative_attempt, leased.is_last_attempt) == (attempt, attempt, False)
        await world.report(leased, TaskFailure("E"))
        assert (await world.view(job)).state.next_start_at == world.now + delay_ms
        await world.pass_time(delay_ms - 1)
        assert await world.lease() == []
        await world.pass_time(1)
    leased = await world.lease_one()
    assert leased.is_last_attempt
    await world.report(leased, TaskFailure("E"))
    assert await world.status(job) == JobStatus.FAILED
    assert [each.number for each in (await world.view(job)).attempts] == [1, 2, 3]


async def test_a_released_task_is_retried_at_once_and_keeps_its_retries(world: World) -> None:
    job = await world.put()
    await world.report(await world.lease_one(), TaskReleased())
    view = await world.view(job)
    assert (view.state.status, view.state.attempt, view.state.relative_attempt) == (JobStatus.SCHEDULED, 2, 1)
    assert (view.attempts[0].status, view.attempts[0].error_code) == (AttemptStatus.FAILED, WORKER_STOPPED)
    again = await world.lease_one()
    assert again.is_last_attempt
    await world.report(again, TaskSuccess())
    assert await world.status(job) == JobStatus.SUCCEEDED


async def test_a_silent_worker_counts_as_crashed_after_its_lease(world: World) -> None:
    job = await world.put(retry=RETRY)
    await world.lease_one()
    await world.pass_time(LEASE_MS - 1)
    assert await world.status(job) == JobStatus.RUNNING
    await world.pass_time(1)
    view = await world.view(job)
    assert view.state.status == JobStatus.SCHEDULED
    assert (view.attempts[0].status, view.attempts[0].error_code) == (AttemptStatus.FAILED, WORKER_CRASHED)


async def test_a_heartbeat_extends_the_lease(world: World) -> None:
    job = await world.put()
    leased = await world.lease_one()
    for _ in range(3):
        await world.pass_time(LEASE_MS - 1)
        assert (await world.shard.heartbeat("w", leased.task.id, progress=b"half")).cancelled_at == 0
    view = await world.view(job)
    assert (view.state.status, view.state.progress) == (JobStatus.RUNNING, b"half")


async def test_a_heartbeat_without_the_lease_is_rejected_with_the_known_text(world: World) -> None:
    await world.put()
    leased = await world.lease_one()
    with pytest.raises(Conflict, match="lease owner mismatch"):
        await world.shard.heartbeat("other", leased.task.id)
    with pytest.raises(NotFound, match="lease not found"):
        await world.shard.heartbeat("w", "nothing")


async def test_a_second_report_finds_no_lease(world: World) -> None:
    await world.put()
    leased = await world.lease_one()
    await world.report(leased, TaskSuccess())
    (error,) = await world.shard.report([(leased.task.id, TaskSuccess())])
    assert isinstance(error, NotFound)
    assert str(error) == "lease not found"


async def test_many_outcomes_are_reported_at_once_in_order(world: World) -> None:
    jobs = [await world.put() for _ in range(3)]
    leased = await world.lease()
    outcomes = [(leased[0].task.id, TaskSuccess()), ("?", TaskSuccess()), (leased[2].task.id, TaskFailure("E"))]
    answers = await world.shard.report(outcomes)
    assert [type(answer) for answer in answers] == [type(None), NotFound, type(None)]
    assert {await world.status(job) for job in jobs} == {JobStatus.SUCCEEDED, JobStatus.RUNNING, JobStatus.FAILED}


async def test_a_report_with_a_worker_covers_only_its_leases(world: World) -> None:
    await world.put()
    leased = await world.lease_one()
    (error,) = await world.shard.report([(leased.task.id, TaskSuccess())], worker="other")
    assert isinstance(error, Conflict)
    assert await world.shard.report([(leased.task.id, TaskSuccess())], worker="w") == [None]


@pytest.mark.parametrize(
    "outcome", [TaskFailure("\ud800"), TaskFailure("x" * 2_000), TaskSuccess(b"x" * ((16 << 20) + 1))]
)
async def test_an_invalid_outcome_is_rejected_and_the_lease_stays(
    world: World, outcome: TaskFailure | TaskSuccess
) -> None:
    await world.put()
    leased = await world.lease_one()
    (error,) = await world.shard.report([(leased.task.id, outcome)])
    assert isinstance(error, Invalid)
    assert await world.shard.report([(leased.task.id, TaskSuccess())]) == [None]


async def test_a_waiting_job_is_cancelled_at_once(world: World) -> None:
    job = await world.put()
    await world.shard.cancel(T, job)
    view = await world.view(job)
    assert (view.state.status, view.state.cancelled_at, view.attempts) == (JobStatus.CANCELLED, NOW, ())
    assert await world.lease() == []
    with pytest.raises(Conflict, match="job is already cancelled"):
        await world.shard.cancel(T, job)


async def test_a_cancelled_running_job_is_marked_for_its_worker(world: World) -> None:
    job = await world.put()
    leased = await world.lease_one()
    await world.shard.cancel(T, job)
    assert await world.status(job) == JobStatus.RUNNING
    assert (await world.shard.heartbeat("w", leased.task.id)).cancelled_at == NOW
    with pytest.raises(Conflict, match="job is already cancelled"):
        await world.shard.cancel(T, job)
    await world.report(leased, TaskCancelled())
    view = await world.view(job)
    assert (view.state.status, view.attempts[0].status) == (JobStatus.CANCELLED, AttemptStatus.CANCELLED)


async def test_a_cancelled_job_that_still_succeeds_has_succeeded(world: World) -> None:
    job = await world.put()
    leased = await world.lease_one()
    await world.shard.cancel(T, job)
    await world.report(leased, TaskSuccess())
    assert await world.status(job) == JobStatus.SUCCEEDED


@pytest.mark.parametrize("outcome", [TaskSuccess(), TaskFailure("E")])
async def test_a_final_job_cannot_be_cancelled(world: World, outcome: TaskSuccess | TaskFailure) -> None:
    job = await world.put()
    await world.report(await world.lease_one(), outcome)
    with pytest.raises(Conflict, match="terminal state"):
        await world.shard.cancel(T, job)


async def test_every_call_on_a_missing_job_is_an_error(world: World) -> None:
    for call in (world.shard.cancel, world.shard.restart, world.shard.expedite):
        with pytest.raises(NotFound, match="job not found"):
            await call(T, "nothing")
    with pytest.raises(NotFound, match="job not found"):
        await world.shard.get(T, "nothing")
    with pytest.raises(NotFound):
        await world.shard.lease_job(T, "nothing", "w")


async def test_a_failed_job_is_restarted_with_all_its_retries(world: World) -> None:
    job = await world.put(retry=RetryPolicy(retry_count=0))
    await world.report(await world.lease_one(), TaskFailure("E"))
    await world.shard.restart(T, job)
    assert not (await world.view(job)).state.is_dead
    leased = await world.lease_one()
    assert (leased.task.attempt, leased.task.relative_attempt) == (2, 1)
    await world.report(leased, TaskSuccess())
    assert [each.status for each in (await world.view(job)).attempts] == [AttemptStatus.FAILED, AttemptStatus.SUCCEEDED]


async def test_a_restarted_job_cancelled_before_it_ran_starts_with_its_first_attempt(world: World) -> None:
    job = await world.put()
    await world.shard.cancel(T, job)
    await world.shard.restart(T, job)
    assert (await world.view(job)).state.cancelled_at == 0
    assert (await world.lease_one()).task.attempt == 1


async def test_only_failed_and_cancelled_jobs_are_restarted(world: World) -> None:
    job = await world.put()
    with pytest.raises(Conflict, match="it is scheduled"):
        await world.shard.restart(T, job)
    leased = await world.lease_one()
    with pytest.raises(Conflict, match="it is running"):
        await world.shard.restart(T, job)
    await world.report(leased, TaskSuccess())
    with pytest.raises(Conflict, match="it is succeeded"):
        await world.shard.restart(T, job)


async def test_a_future_job_starts_at_its_time_and_not_before(world: World) -> None:
    await world.put(start_at_ms=NOW + 500)
    await world.pass_time(499)
    assert await world.lease() == []
    await world.pass_time(1)
    assert len(await world.lease()) == 1


async def test_a_future_job_is_expedited_and_keeps_its_attempt(world: World) -> None:
    job = await world.put(start_at_ms=NOW + 500)
    await world.shard.expedite(T, job)
    assert (await world.view(job)).state.next_start_at == NOW
    assert (await world.lease_one()).task.attempt == 1
    await world.pass_time(500)
    assert await world.lease() == []


async def test_a_due_running_cancelled_or_finished_job_cannot_be_expedited(world: World) -> None:
    job = await world.put()
    with pytest.raises(Conflict, match="time has come"):
        await world.shard.expedite(T, job)
    leased = await world.lease_one()
    with pytest.raises(Conflict, match="it is running"):
        await world.shard.expedite(T, job)
    await world.report(leased, TaskCancelled())
    with pytest.raises(Conflict, match="it is cancelled"):
        await world.shard.expedite(T, job)


async def test_a_named_job_is_leased_before_its_start(world: World) -> None:
    job = await world.put(start_at_ms=NOW + 500)
    leased = await world.shard.lease_job(T, job, "w")
    assert (leased.job.id, leased.task.attempt) == (job, 1)
    with pytest.raises(Conflict, match="it is running"):
        await world.shard.lease_job(T, job, "w")
    await world.pass_time(500)
    assert await world.lease() == []


async def test_only_a_final_job_is_deleted_and_deleting_is_idempotent(world: World) -> None:
    job = await world.put(metadata={"k": "v"})
    with pytest.raises(Conflict, match="it is scheduled"):
        await world.shard.delete(T, job)
    await world.report(await world.lease_one(), TaskSuccess())
    await world.shard.delete(T, job)
    await world.shard.delete(T, job)
    assert await world.shard.find(T) == []
    assert await world.shard.find(T, metadata=("k", "v")) == []
    assert len(world.store.visible) <= 1  # only a barrier


async def test_a_given_id_is_accepted_once(world: World) -> None:
    first, second, other = await world.shard.enqueue([new_job(id="a"), new_job(id="a"), new_job(id="a", tenant="x")])
    assert (first, other) == ("a", "a")
    assert isinstance(second, Conflict)
    (again,) = await world.shard.enqueue([new_job(id="a")])
    assert isinstance(again, Conflict)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tenant": ""}, "tenant must not be empty"),
        ({"tenant": "x" * 65}, "tenant may have 64"),
        ({"task_group": ""}, "task_group"),
        ({"priority": 100}, "priority"),
        ({"metadata": {str(n): "" for n in range(17)}}, "16 pairs"),
        ({"metadata": {"k": "x" * 65_535}}, "65534"),
        ({"metadata": {"k" * 64: ""}}, "63"),
        ({"id": "\ud800"}, "valid Unicode"),
        ({"payload": b"x" * ((16 << 20) + 1)}, "payload"),
        ({"after": ("a",), "id": "a"}, "after itself"),
        ({"retry": RetryPolicy(backoff_factor=float("nan"))}, "backoff_factor"),
        ({"limits": (ConcurrencyLimit("k", 0),)}, "max_concurrency"),
        ({"limits": tuple(FloatingLimit("k", 1, 1, {"m": "x" * 1_000}) for _ in range(20))}, "16384 bytes"),
        ({"limits": (RateLimit("n", "k", 1 << 70, 1),)}, "rate limit's limit"),
    ],
)
async def test_an_invalid_job_is_rejected_without_affecting_others(
    world: World, fields: dict[str, object], message: str
) -> None:
    bad, good = await world.shard.enqueue([new_job(**fields), new_job(id="good")])
    assert isinstance(bad, Invalid)
    assert message in str(bad)
    assert good == "good"


async def test_the_largest_metadata_value_is_stored_and_found(world: World) -> None:
    value = "x" * 65_534
    job = await world.put(metadata={"k": value})
    await world.put(metadata={"k": value[:-1]})
    assert [each.job.id for each in await world.shard.find(T, metadata=("k", value))] == [job]


async def test_a_large_batch_is_enqueued_in_several_transactions(world: World) -> None:
    answers = await world.shard.enqueue([new_job(id=f"{n}", payload=b"x" * (7 << 20)) for n in range(6)])
    assert answers == [f"{n}" for n in range(6)]
    leased = await world.lease(6)
    assert 0 < sum(len(each.job.payload) for each in leased) < 6 * (7 << 20)  # an answer has a bound, too
    assert len(leased) + len(await world.lease(6)) == 6


async def test_too_many_jobs_at_once_are_rejected_whole(world: World) -> None:
    with pytest.raises(Invalid, match="1000"):
        await world.shard.enqueue([new_job()] * 1_001)
    with pytest.raises(Invalid, match="1000"):
        await world.shard.report([("t", TaskSuccess())] * 1_001)
    with pytest.raises(Invalid, match="tasks_max"):
        await world.shard.lease("g", "w", 1_001)
    assert await world.shard.find(T) == []
