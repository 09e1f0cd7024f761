"""The calls of clients and workers: each checks the tenant, asks the shard, and puts the answer into its message.

Nothing here knows of gRPC; a call raises errors by remedy, or a `CallError` where the wire wants a code of its own.
"""

from collections.abc import Sequence

from argosy.base.errors import ArgosyError, Conflict, Invalid, NotFound
from argosy.jobs.broker import Broker
from argosy.jobs.model import GROUP_CHARS_MAX, ImportedJob, JobStatus, JobView, LeasedRefresh, LeasedTask
from argosy.jobs.rpc.call_context import CallContext, Tenancy
from argosy.jobs.rpc.status import CallError, Code, call_error
from argosy.jobs.silo import codec
from argosy.jobs.silo import silo_pb2 as pb

LEASED_MAX = 1_000  # tasks for one call, whatever it asks for
IMPORTED_MAX = 1_000  # jobs in one call
WORKER_CHARS_MAX = 256
RUNNING_CANNOT_BE_IMPORTED = "a job that is running cannot be imported"


class JobCalls:
    """`silo.v1.Silo`, as far as it is about jobs and tasks."""

    def __init__(self, broker: Broker, tenancy: Tenancy) -> None:
        self._broker = broker
        self._tenancy = tenancy

    async def enqueue(self, request: pb.EnqueueRequest, context: CallContext) -> pb.EnqueueResponse:
        tenant = self._tenancy.tenant(context, request.tenant)
        shard = self._tenancy.shard(request.shard, tenant)
        [answer] = await shard.enqueue([codec.from_enqueue(request, tenant, context.trace)])
        if isinstance(answer, Conflict):
            raise CallError(Code.ALREADY_EXISTS, str(answer))
        if isinstance(answer, ArgosyError):
            raise answer
        return pb.EnqueueResponse(id=answer)

    async def get_job(self, request: pb.GetJobRequest, context: CallContext) -> pb.GetJobResponse:
        view = await self._view(request, context, with_attempts=request.include_attempts)
        if view.state.status == JobStatus.SUCCEEDED and not request.include_attempts:
            view = await self._view(request, context, with_attempts=True)  # the result lies with the last attempt
        return codec.to_job(view, with_attempts=request.include_attempts)

    async def get_job_result(self, request: pb.GetJobResultRequest, context: CallContext) -> pb.GetJobResultResponse:
        view = await self._view(request, context, with_attempts=True)
        if not view.state.status.is_final:
            raise Conflict(f"job is not complete: it is {view.state.status.name.lower()}")
        return codec.to_result(view)

    async def _view(
        self, request: pb.GetJobRequest | pb.GetJobResultRequest, context: CallContext, *, with_attempts: bool
    ) -> JobView:
        tenant = self._tenancy.tenant(context, request.tenant)
        shard = self._tenancy.shard(request.shard, tenant)
        return await shard.get(tenant, request.id, with_attempts=with_attempts)

    async def cancel_job(self, request: pb.CancelJobRequest, context: CallContext) -> pb.CancelJobResponse:
        tenant = self._tenancy.tenant(context, request.tenant)
        await self._tenancy.shard(request.shard, tenant).cancel(tenant, request.id)
        return pb.CancelJobResponse()

    async def restart_job(self, request: pb.RestartJobRequest, context: CallContext) -> pb.RestartJobResponse:
        tenant = self._tenancy.tenant(context, request.tenant)
        await self._tenancy.shard(request.shard, tenant).restart(tenant, request.id)
        return pb.RestartJobResponse()

    async def expedite_job(self, request: pb.ExpediteJobRequest, context: CallContext) -> pb.ExpediteJobResponse:
        tenant = self._tenancy.tenant(context, request.tenant)
        await self._tenancy.shard(request.shard, tenant).expedite(tenant, request.id)
        return pb.ExpediteJobResponse()

    async def delete_job(self, request: pb.DeleteJobRequest, context: CallContext) -> pb.DeleteJobResponse:
        tenant = self._tenancy.tenant(context, request.tenant)
        shard = self._tenancy.shard(request.shard, tenant)
        try:
            await shard.delete(tenant, request.id)
        except NotFound:
            pass  # it is gone, which is what was asked for
        return pb.DeleteJobResponse()

    async def drop_tenant_holders(
        self, request: pb.DropTenantHoldersRequest, context: CallContext
    ) -> pb.DropTenantHoldersResponse:
        tenant = self._tenancy.tenant(context, request.tenant)
        dropped = await self._tenancy.shard(request.shard, tenant).drop_holders(tenant)
        return pb.DropTenantHoldersResponse(holders_dropped=dropped)

    async def import_jobs(self, request: pb.ImportJobsRequest, context: CallContext) -> pb.ImportJobsResponse:
        """Each job says where it goes; a running one among them refuses them all."""
        if len(request.jobs) > IMPORTED_MAX:
            raise Invalid(f"one call may import {IMPORTED_MAX} jobs; got {len(request.jobs)}")
        by_shard: dict[str, list[tuple[int, ImportedJob]]] = {}
        results = [pb.ImportJobResult(id=job.id) for job in request.jobs]
        for place, job in enumerate(request.jobs):
            try:
                tenant = self._tenancy.tenant(context, job.tenant)
                self._tenancy.shard(job.shard, tenant)
                if not job.id:
                    raise Invalid("an imported job must have an id")
                by_shard.setdefault(job.shard, []).append((place, codec.from_import(job, tenant)))
            except (Invalid, Conflict) as error:
                results[place].error = str(error)
        for shard_id, numbered in by_shard.items():
            await self._check_none_runs(shard_id, [job for _, job in numbered])
        for shard_id, numbered in by_shard.items():
            answers = await self._tenancy.shard(shard_id).import_jobs([job for _, job in numbered])
            for (place, _), answer in zip(numbered, answers, strict=True):
                _set_result(results[place], answer)
        return pb.ImportJobsResponse(results=results)

    async def _check_none_runs(self, shard_id: str, jobs: list[ImportedJob]) -> None:
        shard = self._tenancy.shard(shard_id)
        for job in jobs:
            try:
                view = await shard.get(job.job.tenant, job.job.id)
            except NotFound:
                continue
            if view.state.status == JobStatus.RUNNING:
                raise Conflict(f"{RUNNING_CANNOT_BE_IMPORTED}: {job.job.id}; nothing of this call was imported")

    async def lease_task(self, request: pb.LeaseTaskRequest, context: CallContext) -> pb.LeaseTaskResponse:
        context.caller.check_whole("lease tasks")
        check_worker(request.worker_id)
        tenant = self._tenancy.tenant(context, request.tenant)
        leased = await self._tenancy.shard(request.shard, tenant).lease_job(tenant, request.id, request.worker_id)
        return pb.LeaseTaskResponse(task=codec.to_task(leased, request.shard))

    async def lease_tasks(self, request: pb.LeaseTasksRequest, context: CallContext) -> pb.LeaseTasksResponse:
        """From the shard named, or from all that are here."""
        context.caller.check_whole("lease tasks, which are of all tenants")
        check_worker(request.worker_id)
        check_group(request.task_group)
        answer = pb.LeaseTasksResponse()
        wanted = min(request.max_tasks, LEASED_MAX)
        if request.HasField("shard"):
            shard = self._tenancy.shard(request.shard)
            if wanted:
                _add(answer, request.shard, *await shard.lease(request.task_group, request.worker_id, wanted))
        elif wanted:
            for polled in await self._broker.lease(request.task_group, request.worker_id, wanted):
                _add(answer, polled.shard_id, polled.tasks, polled.refreshes)
        return answer

    async def report_outcome(self, request: pb.ReportOutcomeRequest, context: CallContext) -> pb.ReportOutcomeResponse:
        context.caller.check_whole("report outcomes")
        self._tenancy.tenant_of_task(request.tenant_id)
        shard = self._tenancy.shard(request.shard, request.tenant_id)
        [error] = await shard.report([(request.task_id, codec.from_outcome(request))])
        if error is not None:
            raise error
        return pb.ReportOutcomeResponse()

    async def report_refresh_outcome(
        self, request: pb.ReportRefreshOutcomeRequest, context: CallContext
    ) -> pb.ReportRefreshOutcomeResponse:
        context.caller.check_whole("report outcomes")
        self._tenancy.tenant_of_task(request.tenant_id)
        shard = self._tenancy.shard(request.shard, request.tenant_id)
        match request.WhichOneof("outcome"):
            case "success":
                await shard.report_refresh(request.task_id, request.success.new_max_concurrency)
            case "failure":
                why = f"{request.failure.code}: {request.failure.message}"
                await shard.report_refresh(request.task_id, None, why=why)
            case _:
                raise Invalid("an outcome is required: success or failure")
        return pb.ReportRefreshOutcomeResponse()

    async def heartbeat(self, request: pb.HeartbeatRequest, context: CallContext) -> pb.HeartbeatResponse:
        context.caller.check_whole("send heartbeats")
        check_worker(request.worker_id)
        self._tenancy.tenant_of_task(request.tenant_id)
        shard = self._tenancy.shard(request.shard, request.tenant_id)
        beat = await shard.heartbeat(request.worker_id, request.task_id)
        return pb.HeartbeatResponse(cancelled=bool(beat.cancelled_at), cancelled_at_ms=beat.cancelled_at or None)


def check_worker(worker: str) -> None:
    if not 0 < len(worker) <= WORKER_CHARS_MAX:
        raise Invalid(f"worker_id must have 1 to {WORKER_CHARS_MAX} characters; got {len(worker)}")


def check_group(task_group: str) -> None:
    if not 0 < len(task_group) <= GROUP_CHARS_MAX:
        raise Invalid(f"task_group must have 1 to {GROUP_CHARS_MAX} characters; got {len(task_group)}")


def _add(
    answer: pb.LeaseTasksResponse, shard_id: str, tasks: Sequence[LeasedTask], refreshes: Sequence[LeasedRefresh]
) -> None:
    answer.tasks.extend(codec.to_task(task, shard_id) for task in tasks)
    answer.refresh_tasks.extend(codec.to_refresh(refresh, shard_id) for refresh in refreshes)


def _set_result(result: pb.ImportJobResult, answer: JobStatus | ArgosyError) -> None:
    if isinstance(answer, ArgosyError):
        result.error = call_error(answer).details
    else:
        result.success = True
        result.status = codec.to_status(answer)
