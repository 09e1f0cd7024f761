"""The calls of `silo.v1.Silo` about jobs, tasks and SQL: each checks the tenant, calls the shard
and builds the response.

Nothing here depends on gRPC; a call raises Argosy's errors, or a `CallError` where silo's clients expect a specific
code.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

import msgspec

from argosy.base.errors import ArgosyError, Conflict, Invalid, NotFound
from argosy.jobs.model import GROUP_CHARS_MAX, NO_TENANT, ImportedJob, JobStatus, JobView, LeasedRefresh, LeasedTask
from argosy.jobs.ports import Broker, RowReader
from argosy.jobs.rpc.call_context import CallContext, Tenancy
from argosy.jobs.rpc.status import CallError, Code, call_error
from argosy.jobs.silo import codec
from argosy.jobs.silo import silo_pb2 as pb
from argosy.jobs.sql.tables import SqlResult, StatementTimeout, StatementTooLarge, Value

LEASED_MAX = 1_000  # tasks in one response; a larger request gets so many
IMPORTED_MAX = 1_000  # jobs in one call
WORKER_CHARS_MAX = 256
RUNNING_CANNOT_BE_IMPORTED = "a job that is running cannot be imported"


class JobCalls:
    """The calls about jobs and tasks."""

    def __init__(self, broker: Broker, tenancy: Tenancy) -> None:
        self._broker = broker
        self._tenancy = tenancy

    async def enqueue(self, request: pb.EnqueueRequest, context: CallContext) -> pb.EnqueueResponse:
        tenant = self._tenancy.tenant(context, request.tenant)
        shard = self._tenancy.shard(request.shard, tenant)
        [answer] = await shard.enqueue([codec.from_enqueue(request, tenant, context.trace)])
        # silo answers INTERNAL to a duplicate id. With ALREADY_EXISTS a client can distinguish it from a failure, and
        # retrying an enqueue with its own id is safe.
        if isinstance(answer, Conflict):
            raise CallError(Code.ALREADY_EXISTS, str(answer))
        if isinstance(answer, ArgosyError):
            raise answer
        return pb.EnqueueResponse(id=answer)

    async def get_job(self, request: pb.GetJobRequest, context: CallContext) -> pb.GetJobResponse:
        view = await self._view(request, context, with_attempts=request.include_attempts)
        if view.state.status == JobStatus.SUCCEEDED and not request.include_attempts:
            view = await self._view(request, context, with_attempts=True)  # the result is stored with the last attempt
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
            pass  # deleting is idempotent
        return pb.DeleteJobResponse()

    async def drop_tenant_holders(
        self, request: pb.DropTenantHoldersRequest, context: CallContext
    ) -> pb.DropTenantHoldersResponse:
        tenant = self._tenancy.tenant(context, request.tenant)
        dropped = await self._tenancy.shard(request.shard, tenant).drop_holders(tenant)
        return pb.DropTenantHoldersResponse(holders_dropped=dropped)

    async def import_jobs(self, request: pb.ImportJobsRequest, context: CallContext) -> pb.ImportJobsResponse:
        """Each job names its shard. If one of them is running here, the whole call is rejected
        before any change."""
        if len(request.jobs) > IMPORTED_MAX:
            raise Invalid(f"one call may import {IMPORTED_MAX} jobs; got {len(request.jobs)}")
        by_shard: dict[str, list[tuple[int, ImportedJob]]] = {}
        results = [pb.ImportJobResult(id=job.id) for job in request.jobs]
        for at, job in enumerate(request.jobs):
            try:
                tenant = self._tenancy.tenant(context, job.tenant)
                self._tenancy.shard(job.shard, tenant)
                if not job.id:
                    raise Invalid("an imported job must have an id")
                by_shard.setdefault(job.shard, []).append((at, codec.from_import(job, tenant)))
            except (Invalid, Conflict) as error:
                results[at].error = str(error)
        for shard_id, numbered in by_shard.items():
            # All shards are checked before any is changed, as silo's clients expect of one call.
            await self._check_none_runs(shard_id, [job for _, job in numbered])
        for shard_id, numbered in by_shard.items():
            answers = await self._tenancy.shard(shard_id).import_jobs([job for _, job in numbered])
            for (at, _), answer in zip(numbered, answers, strict=True):
                _set_result(results[at], answer)
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
        context.caller.check_all_tenants("lease tasks")
        check_worker(request.worker_id)
        tenant = self._tenancy.tenant(context, request.tenant)
        leased = await self._tenancy.shard(request.shard, tenant).lease_job(tenant, request.id, request.worker_id)
        return pb.LeaseTaskResponse(task=codec.to_task(leased, request.shard))

    async def lease_tasks(self, request: pb.LeaseTasksRequest, context: CallContext) -> pb.LeaseTasksResponse:
        """From the shard that is named, or from all that this node serves."""
        context.caller.check_all_tenants("lease tasks, which are of all tenants")
        check_worker(request.worker_id)
        check_group(request.task_group)
        answer = pb.LeaseTasksResponse()
        wanted = min(request.max_tasks, LEASED_MAX)
        # silo's polls never wait: its clients poll once a second. Waiting polls are in argosy.jobs.v1.
        if request.HasField("shard"):
            shard = self._tenancy.shard(request.shard)
            if wanted:
                _add(answer, request.shard, *await shard.lease(request.task_group, request.worker_id, wanted))
        elif wanted:
            for polled in await self._broker.lease(request.task_group, request.worker_id, wanted):
                _add(answer, polled.shard_id, polled.tasks, polled.refreshes)
        return answer

    async def report_outcome(self, request: pb.ReportOutcomeRequest, context: CallContext) -> pb.ReportOutcomeResponse:
        context.caller.check_all_tenants("report outcomes")
        self._tenancy.tenant_of_task(request.tenant_id)
        shard = self._tenancy.shard(request.shard, request.tenant_id)
        # Without a worker's id, which the message lacks: the task id alone identifies the lease.
        [error] = await shard.report([(request.task_id, codec.from_outcome(request))])
        if error is not None:
            raise error
        return pb.ReportOutcomeResponse()

    async def report_refresh_outcome(
        self, request: pb.ReportRefreshOutcomeRequest, context: CallContext
    ) -> pb.ReportRefreshOutcomeResponse:
        context.caller.check_all_tenants("report outcomes")
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
        context.caller.check_all_tenants("send heartbeats")
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


NO_ARROW = "Arrow is not available: the broker lacks the package pyarrow; use Query instead"
INT64_MAX = (1 << 63) - 1


class QueryEngine(Protocol):
    """Executes statements."""

    async def query(
        self, shard_id: str, rows: RowReader, sql: str, parameters: Mapping[str, Value], *, tenant: str | None
    ) -> SqlResult: ...


class ArrowEncoder(Protocol):
    """Encodes results in the Arrow format."""

    def messages(self, result: SqlResult) -> list[bytes]:
        """Whole IPC streams of one record batch each; the first has the schema even if there are no rows."""
        ...


class SqlCalls:
    """Requests that name a tenant, and callers with a tenant's key, see only that tenant's rows."""

    def __init__(self, broker: Broker, tenancy: Tenancy, engine: QueryEngine, arrow: ArrowEncoder | None) -> None:
        self._broker = broker
        self._tenancy = tenancy
        self._engine = engine
        self._arrow = arrow

    async def query(self, request: pb.QueryRequest, context: CallContext) -> pb.QueryResponse:
        result = await self._result(request, context)
        names = [name for name, _ in result.columns]
        encode = msgspec.msgpack.Encoder().encode
        return pb.QueryResponse(
            columns=[pb.ColumnInfo(name=name, data_type=kind) for name, kind in result.columns],
            rows=[codec.to_msgpack(encode(dict(zip(names, row, strict=True)))) for row in result.rows],
            row_count=len(result.rows),
        )

    async def query_arrow(
        self, request: pb.QueryArrowRequest, context: CallContext
    ) -> AsyncIterator[pb.ArrowIpcMessage]:
        if self._arrow is None:
            raise CallError(Code.UNIMPLEMENTED, NO_ARROW)
        for message in self._arrow.messages(await self._result(request, context)):
            yield pb.ArrowIpcMessage(ipc_data=message)

    async def _result(self, request: pb.QueryRequest | pb.QueryArrowRequest, context: CallContext) -> SqlResult:
        tenant = self._tenancy.tenant_or_all(context, request.tenant)
        self._tenancy.shard(request.shard, tenant)
        if not self._tenancy.is_on:
            tenant = NO_TENANT  # the only tenant; with its name the indexes, which begin with it, can be used
        parameters = {str(at): _value(parameter) for at, parameter in enumerate(request.parameters, 1)}
        rows = self._broker.rows(request.shard)
        try:
            return await self._engine.query(request.shard, rows, request.sql, parameters, tenant=tenant)
        except StatementTimeout as error:
            raise CallError(Code.DEADLINE_EXCEEDED, str(error)) from error
        except StatementTooLarge as error:
            raise CallError(Code.RESOURCE_EXHAUSTED, str(error)) from error


def _value(parameter: pb.QueryParameter) -> Value:
    kind = parameter.WhichOneof("value")
    if kind is None:
        raise Invalid("a parameter has no value; send null_value for NULL")
    if kind == "null_value":
        return None
    value: Value = getattr(parameter, kind)
    # SQLite's integers have 64 bits with a sign; Python's driver would raise OverflowError.
    if kind == "uint64_value" and isinstance(value, int) and value > INT64_MAX:
        raise Invalid(f"a parameter may be at most {INT64_MAX}; got {value}")
    return value
