"""The calls of `argosy.jobs.v1.Jobs`: silo's calls as batches, with waiting polls, and what silo does not have.

A gRPC call costs the server 0.3 to 0.5 ms, so the calls of the hot path (enqueue, heartbeat, report) take many items. A
batch is split by shard, and the answers are returned in its order. Items run concurrently, because changes that are
staged together become durable together.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from argosy.base.errors import ArgosyError, Conflict, Invalid
from argosy.jobs.api import argosy_jobs_pb2 as pb
from argosy.jobs.api import codec
from argosy.jobs.model import FIND_DEFAULT, FIND_MAX, JobStatus, JobView, LeasedRefresh, LeasedTask
from argosy.jobs.ports import Broker, ShardCalls
from argosy.jobs.rpc.call_context import CallContext, Tenancy
from argosy.jobs.rpc.status import Code
from argosy.jobs.silo import codec as silo
from argosy.jobs.silo.calls import LEASED_MAX, check_group, check_worker

T = TypeVar("T")
R = TypeVar("R")

# Of all shards together: a batch is split by shard, and each shard has a bound of its own.
BATCH_MAX = 10_000  # items of one call
WAIT_S_MAX = 60.0  # of one poll
CONCURRENT_MAX = 256  # concurrent calls of one batch
ANSWER_S = 0.25  # of a caller's deadline, for the response to arrive: tasks of a late response would stay leased


class ApiCalls:
    """Independent of gRPC."""

    def __init__(self, broker: Broker, tenancy: Tenancy) -> None:
        self._broker = broker
        self._tenancy = tenancy

    async def enqueue_batch(self, request: pb.EnqueueBatchRequest, context: CallContext) -> pb.EnqueueBatchResponse:
        check_batch(request.jobs)

        def locate(job: pb.NewJob) -> tuple[str, str]:
            tenant = self._tenancy.tenant(context, job.tenant)
            return self._broker.shard_of(tenant), tenant

        async def enqueue(shard: ShardCalls, jobs: list[tuple[pb.NewJob, str]]) -> list[pb.EnqueueResult | ArgosyError]:
            new = [try_build(codec.from_new_job, job, tenant, context.trace) for job, tenant in jobs]
            good = [job for job in new if not isinstance(job, ArgosyError)]
            ids = iter(await shard.enqueue(good) if good else ())
            return [job if isinstance(job, ArgosyError) else _to_enqueue_result(next(ids)) for job in new]

        # Located here and not by the client: its map may be old, and a job that lands on the right node anyway is
        # enqueued.
        answers = await self._by_shard(request.jobs, locate, enqueue)
        return pb.EnqueueBatchResponse(
            results=[
                pb.EnqueueResult(error=codec.to_error(answer)) if isinstance(answer, ArgosyError) else answer
                for answer in answers
            ]
        )

    async def lease_tasks(self, request: pb.LeaseTasksRequest, context: CallContext) -> pb.LeaseTasksResponse:
        """Waits as long as requested, within the caller's deadline."""
        context.caller.check_all_tenants("lease tasks, which are of all tenants")
        check_worker(request.worker_id)
        check_group(request.task_group)
        group, worker = request.task_group, request.worker_id
        wanted = min(request.max_tasks or 1, LEASED_MAX)
        wait_s = min(request.wait_ms / 1000, WAIT_S_MAX)
        if context.remaining_s is not None:
            wait_s = max(0.0, min(wait_s, context.remaining_s - ANSWER_S))
        answer = pb.LeaseTasksResponse()
        # A named shard is for tests and tools; workers poll all shards of a node with one call.
        if request.HasField("shard"):
            leased = await self._tenancy.shard(request.shard).lease(group, worker, wanted, wait_s=wait_s)
            _add(answer, request.shard, *leased)
        else:
            for polled in await self._broker.lease(group, worker, wanted, wait_s=wait_s):
                _add(answer, polled.shard_id, polled.tasks, polled.refreshes)
        return answer

    async def report_outcomes(
        self, request: pb.ReportOutcomesRequest, context: CallContext
    ) -> pb.ReportOutcomesResponse:
        context.caller.check_all_tenants("report outcomes")
        check_batch(request.outcomes)

        async def report(shard: ShardCalls, reported: list[tuple[pb.TaskOutcome, str]]) -> list[ArgosyError | None]:
            outcomes = [try_build(codec.from_outcome, each) for each, _ in reported]
            good = [
                (each.task_id, outcome)
                for (each, _), outcome in zip(reported, outcomes, strict=True)
                if not isinstance(outcome, ArgosyError)
            ]
            answers = iter(await shard.report(good, worker=request.worker_id) if good else ())
            return [outcome if isinstance(outcome, ArgosyError) else next(answers) for outcome in outcomes]

        answers = await self._by_shard(request.outcomes, _shard_of_item, report)
        results = [pb.ReportResult(error=codec.to_error(answer) if answer else None) for answer in answers]
        return pb.ReportOutcomesResponse(results=results)

    async def heartbeats(self, request: pb.HeartbeatsRequest, context: CallContext) -> pb.HeartbeatsResponse:
        context.caller.check_all_tenants("send heartbeats")
        check_worker(request.worker_id)
        check_batch(request.heartbeats)

        async def heartbeat(shard: ShardCalls, beats: list[tuple[pb.Heartbeat, str]]) -> list[int | ArgosyError]:
            async def one(each: pb.Heartbeat) -> int:
                progress = each.progress if each.HasField("progress") else None
                return (await shard.heartbeat(request.worker_id, each.task_id, progress=progress)).cancelled_at

            return await gather_bounded(one, [each for each, _ in beats])

        answers = await self._by_shard(request.heartbeats, _shard_of_item, heartbeat)
        return pb.HeartbeatsResponse(results=[_to_heartbeat_result(answer) for answer in answers])

    async def get_job(self, request: pb.GetJobRequest, context: CallContext) -> pb.Job:
        tenant, shard = self._tenant_shard(context, request.tenant)
        view = await shard.get(tenant, request.id, with_attempts=request.with_attempts)
        if view.state.status == JobStatus.SUCCEEDED and not request.with_attempts:
            view = await shard.get(tenant, request.id, with_attempts=True)  # the result is stored with the last attempt
        return codec.to_job(view, with_attempts=request.with_attempts)

    async def find_jobs(self, request: pb.FindJobsRequest, context: CallContext) -> pb.FindJobsResponse:
        tenant, shard = self._tenant_shard(context, request.tenant)
        if request.HasField("status") and int(request.status) not in set(JobStatus):
            raise Invalid(f"unknown status {request.status}")
        found = await shard.find(
            tenant,
            status=JobStatus(request.status) if request.HasField("status") else None,
            metadata=(request.metadata_key, request.metadata_value) if request.metadata_key else None,
            is_dead=request.is_dead,
            after=request.after,
            limit=_limit(request.limit),
        )
        return pb.FindJobsResponse(jobs=[codec.to_job(view, with_attempts=False) for view in found])

    async def requeue_dead(self, request: pb.RequeueDeadRequest, context: CallContext) -> pb.RequeueDeadResponse:
        """Each job is restarted independently of the others."""
        tenant, shard = self._tenant_shard(context, request.tenant)
        check_batch(request.ids)
        ids: Sequence[str] = request.ids
        # Without ids the latest dead letters, up to the limit.
        if not ids:
            ids = [view.job.id for view in await shard.find(tenant, is_dead=True, limit=_limit(request.limit))]

        async def requeue(id: str) -> None:
            # Checked first, because a restart would also accept a job that was cancelled on purpose.
            _check_dead(await shard.get(tenant, id))
            await shard.restart(tenant, id)

        results = [pb.RequeueResult(id=id) for id in ids]
        for result, answer in zip(results, await gather_bounded(requeue, ids), strict=True):
            if answer is not None:
                result.error.CopyFrom(codec.to_error(answer))
        return pb.RequeueDeadResponse(results=results)

    async def put_schedule(self, request: pb.PutScheduleRequest, context: CallContext) -> pb.PutScheduleResponse:
        tenant, shard = self._tenant_shard(context, request.schedule.tenant)
        await shard.put_schedule(codec.from_schedule(request.schedule, tenant))
        return pb.PutScheduleResponse()

    async def list_schedules(self, request: pb.ListSchedulesRequest, context: CallContext) -> pb.ListSchedulesResponse:
        tenant, shard = self._tenant_shard(context, request.tenant)
        found = await shard.schedules(tenant)
        return pb.ListSchedulesResponse(schedules=[codec.to_schedule(schedule) for schedule in found])

    async def delete_schedule(
        self, request: pb.DeleteScheduleRequest, context: CallContext
    ) -> pb.DeleteScheduleResponse:
        tenant, shard = self._tenant_shard(context, request.tenant)
        await shard.delete_schedule(tenant, request.name)
        return pb.DeleteScheduleResponse()

    def _tenant_shard(self, context: CallContext, given: str) -> tuple[str, ShardCalls]:
        tenant = self._tenancy.tenant(context, given)
        return tenant, self._tenancy.shard(self._broker.shard_of(tenant))

    async def _by_shard(
        self,
        items: Iterable[T],
        locate: Callable[[T], tuple[str, str]],
        call: Callable[[ShardCalls, list[tuple[T, str]]], Awaitable[Sequence[R | ArgosyError]]],
    ) -> list[R | ArgosyError]:
        """Calls each shard once with its items; one answer per item. An error of a shard answers all its items."""
        by_shard: dict[str, list[tuple[int, T, str]]] = {}
        answers: dict[int, R | ArgosyError] = {}
        for at, item in enumerate(items):
            try:
                shard_id, tenant = locate(item)
                by_shard.setdefault(shard_id, []).append((at, item, tenant))
            except ArgosyError as error:
                # One item's error does not fail the others: the caller gets every answer in its place.
                answers[at] = error

        async def call_one(shard_id: str) -> None:
            entries = by_shard[shard_id]
            replies: Sequence[R | ArgosyError]
            try:
                replies = await call(self._tenancy.shard(shard_id), [(item, tenant) for _, item, tenant in entries])
            except ArgosyError as error:
                replies = [error] * len(entries)
            answers.update(zip((at for at, _, _ in entries), replies, strict=True))

        await gather_bounded(call_one, list(by_shard))
        return [answers[at] for at in range(len(answers))]


async def gather_bounded(call: Callable[[T], Awaitable[R]], items: Sequence[T]) -> list[R | ArgosyError]:
    """Results or errors in order, with a bounded number of concurrent calls."""
    answers: list[R | ArgosyError] = []
    # In groups and not by a semaphore: a batch of 10,000 would otherwise be 10,000 tasks at once.
    for start in range(0, len(items), CONCURRENT_MAX):
        calls = (call(item) for item in items[start : start + CONCURRENT_MAX])
        for answer in await asyncio.gather(*calls, return_exceptions=True):
            # A bug fails the whole call: its other items may be in any state, and the log has the cause.
            if isinstance(answer, BaseException) and not isinstance(answer, ArgosyError):
                raise answer
            answers.append(answer)
    return answers


def check_batch(items: Sequence[object]) -> None:
    if len(items) > BATCH_MAX:
        raise Invalid(f"a call may have at most {BATCH_MAX} items; got {len(items)}")


def try_build(make: Callable[..., T], *arguments: object) -> T | ArgosyError:
    """Returns the error for one bad item of a batch."""
    try:
        return make(*arguments)
    except ArgosyError as error:
        return error


def _shard_of_item(item: pb.TaskOutcome | pb.Heartbeat) -> tuple[str, str]:
    return item.shard, ""


def _add(
    answer: pb.LeaseTasksResponse, shard_id: str, tasks: Sequence[LeasedTask], refreshes: Sequence[LeasedRefresh]
) -> None:
    answer.tasks.extend(codec.to_task(task, shard_id) for task in tasks)
    answer.refresh_tasks.extend(silo.to_refresh(refresh, shard_id) for refresh in refreshes)


def _to_enqueue_result(answer: str | ArgosyError) -> pb.EnqueueResult:
    """A Conflict for one job means that its id exists."""
    if not isinstance(answer, ArgosyError):
        return pb.EnqueueResult(id=answer)
    is_taken = isinstance(answer, Conflict)
    return pb.EnqueueResult(error=codec.to_error(answer, Code.ALREADY_EXISTS if is_taken else None))


def _to_heartbeat_result(answer: int | ArgosyError) -> pb.HeartbeatResult:
    if isinstance(answer, ArgosyError):
        return pb.HeartbeatResult(error=codec.to_error(answer))
    return pb.HeartbeatResult(cancelled_at_ms=answer or None)


def _limit(requested: int) -> int:
    return min(requested or FIND_DEFAULT, FIND_MAX)


def _check_dead(view: JobView) -> None:
    if not view.state.is_dead:
        raise Conflict(f"job {view.job.id} is not a dead letter: it is {view.state.status.name.lower()}")
