"""Messages of `silo.v1` to and from the values of `model`. Fields that a later protocol adds are ignored."""

from collections.abc import Iterable
from typing import cast

from argosy.base.errors import Invalid
from argosy.jobs.model import (
    NO_TENANT,
    Attempt,
    AttemptStatus,
    ConcurrencyLimit,
    FloatingLimit,
    ImportedJob,
    JobStatus,
    JobView,
    LeasedRefresh,
    LeasedTask,
    Limit,
    NewJob,
    RateLimit,
    RateLimitRetry,
    RetryPolicy,
    TaskCancelled,
    TaskFailure,
    TaskOutcome,
    TaskSuccess,
)
from argosy.jobs.silo import silo_pb2 as pb

ALGORITHMS = (0, 1)  # token bucket, leaky bucket


def to_msgpack(data: bytes) -> pb.SerializedBytes:
    return pb.SerializedBytes(msgpack=data)


def from_retry(retry: pb.RetryPolicy) -> RetryPolicy:
    return RetryPolicy(
        retry.retry_count,
        retry.initial_interval_ms,
        retry.max_interval_ms,
        retry.randomize_interval,
        retry.backoff_factor,
    )


def to_status(status: JobStatus) -> pb.JobStatus:
    """The numbers are the same; the cast is for the type checker."""
    return cast("pb.JobStatus", int(status))


def to_retry(retry: RetryPolicy | None) -> pb.RetryPolicy | None:
    if retry is None:
        return None
    return pb.RetryPolicy(
        retry_count=retry.retry_count,
        initial_interval_ms=retry.initial_interval_ms,
        max_interval_ms=retry.max_interval_ms,
        randomize_interval=retry.randomize_interval,
        backoff_factor=retry.backoff_factor,
    )


def from_limit(limit: pb.Limit) -> Limit:
    match limit.WhichOneof("limit"):
        case "concurrency":
            return ConcurrencyLimit(limit.concurrency.key, limit.concurrency.max_concurrency)
        case "rate_limit":
            return _from_rate_limit(limit.rate_limit)
        case "floating_concurrency":
            floating = limit.floating_concurrency
            return FloatingLimit(
                floating.key, floating.default_max_concurrency, floating.refresh_interval_ms, dict(floating.metadata)
            )
    raise Invalid("a limit must be a concurrency, rate or floating concurrency limit; this one is empty")


def _from_rate_limit(rate: pb.GubernatorRateLimit) -> RateLimit:
    if rate.algorithm not in ALGORITHMS:
        raise Invalid(f"a rate limit's algorithm is 0 (token bucket) or 1 (leaky bucket); got {rate.algorithm}")
    # A limit without a policy waits by the defaults; proto3's zeros would mean no wait between checks.
    retry = RateLimitRetry()
    if rate.HasField("retry_policy"):
        policy = rate.retry_policy
        retry = RateLimitRetry(
            policy.initial_backoff_ms, policy.max_backoff_ms, policy.backoff_multiplier, policy.max_retries
        )
    return RateLimit(
        rate.name, rate.unique_key, rate.limit, rate.duration_ms, rate.hits, int(rate.algorithm), rate.behavior, retry
    )


def to_limit(limit: Limit) -> pb.Limit:
    match limit:
        case ConcurrencyLimit():
            concurrency = pb.ConcurrencyLimit(key=limit.key, max_concurrency=limit.max_concurrency)
            return pb.Limit(concurrency=concurrency)
        case RateLimit():
            return pb.Limit(rate_limit=_to_rate_limit(limit))
        case FloatingLimit():
            return pb.Limit(
                floating_concurrency=pb.FloatingConcurrencyLimit(
                    key=limit.key,
                    default_max_concurrency=limit.default_max_concurrency,
                    refresh_interval_ms=limit.refresh_interval_ms,
                    metadata=limit.metadata,
                )
            )


def _to_rate_limit(limit: RateLimit) -> pb.GubernatorRateLimit:
    return pb.GubernatorRateLimit(
        name=limit.name,
        unique_key=limit.unique_key,
        limit=limit.limit,
        duration_ms=limit.duration_ms,
        hits=limit.hits,
        algorithm=cast("pb.GubernatorAlgorithm", limit.algorithm),
        behavior=limit.behavior,
        retry_policy=pb.RateLimitRetryPolicy(
            initial_backoff_ms=limit.retry.initial_backoff_ms,
            max_backoff_ms=limit.retry.max_backoff_ms,
            backoff_multiplier=limit.retry.backoff_multiplier,
            max_retries=limit.retry.max_retries,
        ),
    )


def to_limits(limits: Iterable[Limit]) -> list[pb.Limit]:
    return [to_limit(limit) for limit in limits]


def from_enqueue(request: pb.EnqueueRequest | pb.ImportJobRequest, tenant: str, trace: str = "") -> NewJob:
    return NewJob(
        task_group=request.task_group,
        payload=request.payload.msgpack,
        tenant=tenant,
        id=request.id,
        # Without presence in silo.v1: an omitted priority is 0, the highest.
        priority=request.priority,
        start_at_ms=request.start_at_ms,
        retry=from_retry(request.retry_policy) if request.HasField("retry_policy") else None,
        limits=tuple([from_limit(limit) for limit in request.limits]),
        metadata=dict(request.metadata),
        trace=trace,
    )


def from_import(request: pb.ImportJobRequest, tenant: str) -> ImportedJob:
    attempts = [_from_import_attempt(attempt, number) for number, attempt in enumerate(request.attempts, 1)]
    return ImportedJob(from_enqueue(request, tenant), request.enqueue_time_ms, tuple(attempts))


def _from_import_attempt(attempt: pb.ImportAttempt, number: int) -> Attempt:
    # proto3 enums are open: a newer client may send a number that is not known here.
    if int(attempt.status) not in set(AttemptStatus):
        raise Invalid(f"attempt {number} has the unknown status {attempt.status}")
    return Attempt(
        number,
        "",
        AttemptStatus(attempt.status),
        attempt.started_at_ms,
        finished_at=attempt.finished_at_ms,
        result=attempt.result.msgpack if attempt.HasField("result") else None,
        error_code=attempt.error_code,
        error_data=attempt.error_data.msgpack,
    )


def to_attempt(job: str, attempt: Attempt) -> pb.JobAttempt:
    is_failed = attempt.status == AttemptStatus.FAILED
    return pb.JobAttempt(
        job_id=job,
        attempt_number=attempt.number,
        task_id=attempt.task_id,
        status=cast("pb.AttemptStatus", int(attempt.status)),
        started_at_ms=attempt.started_at,
        # Absent fields, not zeros: silo's clients distinguish "no result" from an empty one.
        finished_at_ms=attempt.finished_at if attempt.status != AttemptStatus.RUNNING else None,
        result=None if attempt.result is None else to_msgpack(attempt.result),
        error_code=attempt.error_code if is_failed else None,
        error_data=to_msgpack(attempt.error_data) if is_failed else None,
    )


def to_job(view: JobView, *, with_attempts: bool) -> pb.GetJobResponse:
    """The message includes the result if the view has the attempts: the caller reads them if the job has succeeded."""
    job, state = view.job, view.state
    result = last_result(view)
    return pb.GetJobResponse(
        id=job.id,
        priority=job.priority,
        enqueue_time_ms=job.enqueued_at,
        payload=to_msgpack(job.payload),
        retry_policy=to_retry(job.retry),
        limits=to_limits(job.limits),
        metadata=job.metadata,
        status=to_status(state.status),
        status_changed_at_ms=state.changed_at,
        attempts=[to_attempt(job.id, attempt) for attempt in view.attempts] if with_attempts else [],
        next_attempt_starts_after_ms=state.next_start_at if state.status == JobStatus.SCHEDULED else None,
        task_group=job.task_group,
        result=None if result is None else to_msgpack(result),
    )


def last_result(view: JobView) -> bytes | None:
    """The result of a job that has succeeded, else None."""
    if view.state.status != JobStatus.SUCCEEDED or not view.attempts:
        return None
    # A success without data is an empty result, not a missing one.
    return view.attempts[-1].result or b""


def to_result(view: JobView) -> pb.GetJobResultResponse:
    """The result of a finished job, from a view with its attempts."""
    state = view.state
    last = view.attempts[-1] if view.attempts else None
    answer = pb.GetJobResultResponse(id=view.job.id, status=to_status(state.status), finished_at_ms=state.changed_at)
    match state.status:
        case JobStatus.SUCCEEDED:
            answer.success_data.msgpack = last_result(view) or b""
        case JobStatus.FAILED:
            answer.failure.error_code = last.error_code if last else ""
            answer.failure.error_data.msgpack = last.error_data if last else b""
        case _:
            answer.cancelled.cancelled_at_ms = state.cancelled_at or state.changed_at
    return answer


def to_task(leased: LeasedTask, shard: str) -> pb.Task:
    task, job = leased.task, leased.job
    return pb.Task(
        id=task.id,
        job_id=task.job,
        tenant_id=to_tenant(task.tenant),
        # `attempt` counts for the job's whole life, `relative_attempt` since its latest restart.
        attempt_number=task.attempt,
        relative_attempt_number=task.relative_attempt,
        is_last_attempt=leased.is_last_attempt,
        metadata=job.metadata,
        limits=to_limits(job.limits),
        payload=to_msgpack(job.payload),
        priority=job.priority,
        shard=shard,
        task_group=job.task_group,
        lease_ms=leased.lease_ms,
    )


def to_refresh(leased: LeasedRefresh, shard: str) -> pb.RefreshFloatingLimitTask:
    task, state = leased.task, leased.state
    return pb.RefreshFloatingLimitTask(
        id=task.id,
        queue_key=task.key,
        current_max_concurrency=state.max_concurrency,
        last_refreshed_at_ms=state.refreshed_at,
        metadata=state.metadata,
        lease_ms=leased.lease_ms,
        shard=shard,
        task_group=task.task_group,
        tenant_id=to_tenant(task.tenant),
    )


def to_tenant(tenant: str) -> str | None:
    # "-" is how silo stores the jobs of a broker without tenants; on the wire such jobs have no tenant.
    return None if tenant == NO_TENANT else tenant


def from_outcome(request: pb.ReportOutcomeRequest) -> TaskOutcome:
    match request.WhichOneof("outcome"):
        case "success":
            return TaskSuccess(request.success.msgpack)
        case "failure":
            return TaskFailure(request.failure.code, request.failure.data.msgpack)
        case "cancelled":
            return TaskCancelled()
    raise Invalid("an outcome is required: success, failure or cancelled")
