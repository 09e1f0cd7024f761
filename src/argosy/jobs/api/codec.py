"""Messages of `argosy.jobs.v1` to and from the values of `model`."""

from argosy.base.errors import ArgosyError, Invalid
from argosy.jobs.api import argosy_jobs_pb2 as pb
from argosy.jobs.model import (
    PRIORITY_DEFAULT,
    JobView,
    LeasedTask,
    NewJob,
    Schedule,
    TaskCancelled,
    TaskFailure,
    TaskOutcome,
    TaskReleased,
    TaskSuccess,
)
from argosy.jobs.rpc.status import OWNER_ADDRESS, Code, call_error
from argosy.jobs.silo import codec as silo

DEFAULT_TIMEZONE = "UTC"


def to_error(error: ArgosyError, code: Code | None = None) -> pb.Error:
    """`code` overrides the default where the protocol has a specific one."""
    status = call_error(error)
    return pb.Error(
        code=code or status.code, message=status.details, owner_address=dict(status.trailing).get(OWNER_ADDRESS, "")
    )


def from_new_job(new: pb.NewJob, tenant: str, trace: str = "") -> NewJob:
    return NewJob(
        task_group=new.task_group,
        payload=new.payload,
        tenant=tenant,
        id=new.id,
        # proto3's default is 0, which is the highest priority; silo.v1 has no way to leave it out.
        priority=new.priority if new.HasField("priority") else PRIORITY_DEFAULT,
        start_at_ms=new.start_at_ms,
        retry=silo.from_retry(new.retry_policy) if new.HasField("retry_policy") else None,
        limits=tuple([silo.from_limit(limit) for limit in new.limits]),
        metadata=dict(new.metadata),
        unique_key=new.unique_key,
        unique_for_ms=new.unique_for_ms,
        after=tuple(new.after),
        retention_ms=new.retention_ms,
        trace=new.trace or trace,  # a batch has one header, but its jobs may come from several spans
    )


def to_new_job(job: NewJob) -> pb.NewJob:
    return pb.NewJob(
        tenant=silo.to_tenant(job.tenant),
        id=job.id,
        task_group=job.task_group,
        payload=job.payload,
        priority=job.priority,
        start_at_ms=job.start_at_ms,
        retry_policy=silo.to_retry(job.retry),
        limits=silo.to_limits(job.limits),
        metadata=job.metadata,
        unique_key=job.unique_key,
        unique_for_ms=job.unique_for_ms,
        after=job.after,
        retention_ms=job.retention_ms,
        trace=job.trace,
    )


def to_job(view: JobView, *, with_attempts: bool) -> pb.Job:
    job, state = view.job, view.state
    return pb.Job(
        # silo's message with our additions beside it, so that both services describe a job in one way.
        job=silo.to_job(view, with_attempts=with_attempts),
        tenant=silo.to_tenant(job.tenant),
        progress=state.progress,
        is_dead=state.is_dead,
        waiting_for=state.waiting_for,
        cancelled_at_ms=state.cancelled_at or None,
        unique_key=job.unique_key,
        after=job.after,
        schedule=job.schedule,
        trace=job.trace,
        attempt=state.attempt,
    )


def to_task(leased: LeasedTask, shard: str) -> pb.LeasedTask:
    return pb.LeasedTask(task=silo.to_task(leased, shard), trace=leased.job.trace, schedule=leased.job.schedule)


def from_outcome(outcome: pb.TaskOutcome) -> TaskOutcome:
    match outcome.WhichOneof("outcome"):
        case "success":
            return TaskSuccess(outcome.success)
        case "failure":
            return TaskFailure(outcome.failure.code, outcome.failure.data)
        case "cancelled":
            return TaskCancelled()
        case "released":
            return TaskReleased()
    raise Invalid("an outcome is required: success, failure, cancelled or released")


def from_schedule(schedule: pb.Schedule, tenant: str) -> Schedule:
    """The shard computes when the schedule is next due."""
    return Schedule(
        schedule.name,
        tenant,
        schedule.cron,
        schedule.timezone or DEFAULT_TIMEZONE,
        from_new_job(schedule.job, tenant),
        next_at=0,
        is_paused=schedule.is_paused,
    )


def to_schedule(schedule: Schedule) -> pb.Schedule:
    return pb.Schedule(
        tenant=silo.to_tenant(schedule.tenant),
        name=schedule.name,
        cron=schedule.cron,
        timezone=schedule.timezone,
        job=to_new_job(schedule.job),
        is_paused=schedule.is_paused,
        next_at_ms=schedule.next_at,
    )
