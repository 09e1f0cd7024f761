"""Known defects of a comparable broker, each as a test that this one does not have it."""

import pytest

from argosy.base.errors import Conflict
from argosy.jobs.model import (
    LEASE_MS,
    RATE_LIMITED,
    ConcurrencyLimit,
    JobStatus,
    RateLimit,
    RateLimitRetry,
    RetryPolicy,
    TaskFailure,
    TaskSuccess,
)
from argosy.jobs.shard.rows import decode_task, scheduled_task_key
from argosy.throttle.limits.model import RateLimitResponse, Status
from tests.jobs.shard.builders import NOW, T, World, new_job

RETRY = RetryPolicy(retry_count=5, initial_interval_ms=100, max_interval_ms=1_000)
ONE = ConcurrencyLimit("one", 1)


async def test_03_a_cancelled_job_of_a_crashed_worker_is_cancelled_for_any_tenant(world: World) -> None:
    job = await world.put(retry=RETRY, tenant="customer-123")
    await world.lease_one()
    await world.shard.cancel("customer-123", job)
    await world.pass_time(LEASE_MS)
    assert await world.status(job, tenant="customer-123") == JobStatus.CANCELLED


async def test_03_the_cancel_mark_survives_reopening(world: World) -> None:
    job = await world.put(retry=RETRY)
    await world.lease_one()
    await world.shard.cancel(T, job)
    await world.reopen()
    await world.pass_time(LEASE_MS)
    assert await world.status(job) == JobStatus.CANCELLED


async def test_04_a_cancelled_job_that_fails_is_not_retried(world: World) -> None:
    job = await world.put(retry=RETRY)
    leased = await world.lease_one()
    await world.shard.cancel(T, job)
    await world.report(leased, TaskFailure("E"))
    assert await world.status(job) == JobStatus.CANCELLED


async def test_05_a_restarted_job_passes_its_limits(world: World) -> None:
    job = await world.put(limits=(ONE,))
    await world.report(await world.lease_one(), TaskFailure("E"))
    await world.put(limits=(ONE,))
    await world.shard.restart(T, job)
    leased = await world.lease()
    assert len(leased) == 1
    assert leased[0].job.id != job
    assert leased[0].task.held == ("one",)


async def test_05_a_restarted_job_has_its_rate_checked(world: World) -> None:
    job = await world.put(limits=(RateLimit("n", "k", 1, 1_000),))
    await world.pass_time(0)
    await world.report(await world.lease_one(), TaskFailure("E"))
    await world.shard.restart(T, job)
    assert await world.lease() == []
    await world.pass_time(0)
    assert len(world.limiter.requests) == 2


async def test_06_a_job_that_exhausts_its_rate_retries_fails(world: World) -> None:
    job = await world.put(limits=(RateLimit("n", "k", 1, 1_000, retry=RateLimitRetry(max_retries=3)),))
    world.limiter.response = RateLimitResponse(Status.OVER_LIMIT)
    for _ in range(4):
        assert await world.status(job) == JobStatus.SCHEDULED
        await world.pass_time(30_000)
    view = await world.view(job)
    assert (view.state.status, view.state.is_dead) == (JobStatus.FAILED, True)
    assert view.attempts[0].error_code == RATE_LIMITED


async def test_07_an_error_response_does_not_count_as_under_limit(world: World) -> None:
    await world.put(limits=(RateLimit("n", "k", 1, 1_000),))
    world.limiter.response = RateLimitResponse(Status.UNDER_LIMIT, error="no such thing")
    await world.pass_time(0)
    assert await world.lease() == []


@pytest.mark.parametrize("call", ["cancel", "expedite", "lease_job"])
async def test_09_after_a_rate_retry_the_state_names_the_task(world: World, call: str) -> None:
    job = await world.put(limits=(ONE, RateLimit("n", "k", 1, 1_000)))
    world.limiter.response = RateLimitResponse(Status.OVER_LIMIT, reset_time=NOW + 5_000)
    await world.pass_time(0)
    view = await world.view(job)
    row = await world.store.get(scheduled_task_key(view.job, view.state))
    assert row is not None
    assert decode_task(row).start_at == NOW + 5_000
    if call == "cancel":
        await world.shard.cancel(T, job)
        assert world.shard.queues.slots.count((T, "one")) == 0
    elif call == "expedite":
        await world.shard.expedite(T, job)
        assert world.shard.queues.checks.next_at() == NOW
    else:
        await world.shard.lease_job(T, job, "w")
        assert world.shard.queues.slots.count((T, "one")) == 0


async def test_10_leasing_a_job_by_name_frees_its_slots_and_knows_its_relative_attempt(world: World) -> None:
    job = await world.put(limits=(ONE,), retry=RetryPolicy(retry_count=3))
    await world.report(await world.lease_one(), TaskFailure("E"))
    await world.pass_time(0)
    assert world.shard.queues.slots.count((T, "one")) == 1
    leased = await world.shard.lease_job(T, job, "w")
    assert (leased.task.attempt, leased.task.relative_attempt) == (2, 2)
    assert world.shard.queues.slots.count((T, "one")) == 0


async def test_11_a_deleted_job_leaves_no_attempts_for_a_reused_id(world: World) -> None:
    job = await world.put(id="again")
    await world.report(await world.lease_one(), TaskSuccess())
    await world.shard.delete(T, job)
    await world.put(id="again")
    assert (await world.view(job)).attempts == ()


async def test_12_a_duplicate_id_and_a_delete_in_progress_are_conflicts(world: World) -> None:
    job = await world.put(id="a")
    (answer,) = await world.shard.enqueue([new_job(id="a")])
    assert isinstance(answer, Conflict)
    with pytest.raises(Conflict):
        await world.shard.delete(T, job)


async def test_13_the_enqueue_time_is_the_time_of_the_enqueue(world: World) -> None:
    job = await world.put(start_at_ms=NOW + 9_000)
    assert (await world.view(job)).job.enqueued_at == NOW


async def test_14_the_first_retry_waits_the_initial_interval_times_the_factor(world: World) -> None:
    job = await world.put(retry=RetryPolicy(1, 100, 10_000, False, 3.0))
    await world.report(await world.lease_one(), TaskFailure("E"))
    assert (await world.view(job)).state.next_start_at == NOW + 300


async def test_14_a_maximum_interval_of_0_means_no_wait(world: World) -> None:
    job = await world.put(retry=RetryPolicy(1, 100, 0))
    await world.report(await world.lease_one(), TaskFailure("E"))
    assert (await world.view(job)).state.next_start_at == NOW


async def test_15_a_report_can_require_the_lease_owner(world: World) -> None:
    await world.put()
    leased = await world.lease_one(worker="mine")
    (error,) = await world.shard.report([(leased.task.id, TaskSuccess())], worker="other")
    assert isinstance(error, Conflict)
    assert str(error) == "lease owner mismatch"
