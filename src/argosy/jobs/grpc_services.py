"""The calls of `silo.v1.Silo` and `argosy.jobs.v1.Jobs` by their wire names, and the server of both.

It stands above `api`, `silo`, `sql` and `rpc`, so that none of these imports another one that imports it.
"""

import grpc  # type: ignore[import-untyped, unused-ignore]

from argosy.base.clock import Clock, SystemClock
from argosy.base.metrics import Metrics
from argosy.jobs.api import argosy_jobs_pb2 as pb
from argosy.jobs.api.calls import ApiCalls
from argosy.jobs.ports import Broker
from argosy.jobs.rpc.call_context import Access, Tenancy
from argosy.jobs.rpc.server import CallInterceptor, Method, RpcServer, RpcService
from argosy.jobs.silo import silo_pb2 as silo_pb
from argosy.jobs.silo.calls import ArrowEncoder, JobCalls, QueryEngine, SqlCalls
from argosy.jobs.silo.diagnostics import ProcessDiagnostics
from argosy.jobs.silo.operator_calls import Diagnostics, ShardOperations
from argosy.jobs.sql.engine import SqlEngine
from argosy.jobs.sql.tables import PyArrowEncoder, SqlLimits

SILO_SERVICE = "silo.v1.Silo"
JOBS_SERVICE = "argosy.jobs.v1.Jobs"


def silo_service(
    broker: Broker,
    tenancy: Tenancy,
    *,
    engine: QueryEngine,
    arrow: ArrowEncoder | None,
    diagnostics: Diagnostics,
    is_dev: bool = False,
) -> RpcService:
    jobs = JobCalls(broker, tenancy)
    operations = ShardOperations(broker, diagnostics, is_dev=is_dev)
    sql = SqlCalls(broker, tenancy, engine, arrow)
    return RpcService(
        SILO_SERVICE,
        {
            "GetClusterInfo": Method(operations.get_cluster_info, silo_pb.GetClusterInfoRequest),
            "GetNodeInfo": Method(operations.get_node_info, silo_pb.GetNodeInfoRequest),
            "Enqueue": Method(jobs.enqueue, silo_pb.EnqueueRequest),
            "GetJob": Method(jobs.get_job, silo_pb.GetJobRequest),
            "GetJobResult": Method(jobs.get_job_result, silo_pb.GetJobResultRequest),
            "DeleteJob": Method(jobs.delete_job, silo_pb.DeleteJobRequest),
            "CancelJob": Method(jobs.cancel_job, silo_pb.CancelJobRequest),
            "DropTenantHolders": Method(jobs.drop_tenant_holders, silo_pb.DropTenantHoldersRequest),
            "RestartJob": Method(jobs.restart_job, silo_pb.RestartJobRequest),
            "ExpediteJob": Method(jobs.expedite_job, silo_pb.ExpediteJobRequest),
            "LeaseTask": Method(jobs.lease_task, silo_pb.LeaseTaskRequest),
            "LeaseTasks": Method(jobs.lease_tasks, silo_pb.LeaseTasksRequest),
            "ReportOutcome": Method(jobs.report_outcome, silo_pb.ReportOutcomeRequest),
            "ReportRefreshOutcome": Method(jobs.report_refresh_outcome, silo_pb.ReportRefreshOutcomeRequest),
            "Heartbeat": Method(jobs.heartbeat, silo_pb.HeartbeatRequest),
            "Query": Method(sql.query, silo_pb.QueryRequest),
            "QueryArrow": Method(sql.query_arrow, silo_pb.QueryArrowRequest, is_stream=True),
            "CpuProfile": Method(operations.cpu_profile, silo_pb.CpuProfileRequest),
            "HeapProfile": Method(operations.heap_profile, silo_pb.HeapProfileRequest),
            "RequestSplit": Method(operations.request_split, silo_pb.RequestSplitRequest),
            "GetSplitStatus": Method(operations.get_split_status, silo_pb.GetSplitStatusRequest),
            "ConfigureShard": Method(operations.configure_shard, silo_pb.ConfigureShardRequest),
            "ImportJobs": Method(jobs.import_jobs, silo_pb.ImportJobsRequest),
            "ResetShards": Method(operations.reset_shards, silo_pb.ResetShardsRequest),
            "ForceReleaseShard": Method(operations.force_release_shard, silo_pb.ForceReleaseShardRequest),
            "CompactShard": Method(operations.compact_shard, silo_pb.CompactShardRequest),
            "FlushShard": Method(operations.flush_shard, silo_pb.FlushShardRequest),
            "GetShardStorageInfo": Method(operations.get_shard_storage_info, silo_pb.GetShardStorageInfoRequest),
            "DumpTasks": Method(operations.dump_tasks, silo_pb.DumpTasksRequest),
        },
    )


def api_service(broker: Broker, tenancy: Tenancy) -> RpcService:
    calls = ApiCalls(broker, tenancy)
    return RpcService(
        JOBS_SERVICE,
        {
            "EnqueueBatch": Method(calls.enqueue_batch, pb.EnqueueBatchRequest),
            "LeaseTasks": Method(calls.lease_tasks, pb.LeaseTasksRequest),
            "ReportOutcomes": Method(calls.report_outcomes, pb.ReportOutcomesRequest),
            "Heartbeats": Method(calls.heartbeats, pb.HeartbeatsRequest),
            "GetJob": Method(calls.get_job, pb.GetJobRequest),
            "FindJobs": Method(calls.find_jobs, pb.FindJobsRequest),
            "RequeueDead": Method(calls.requeue_dead, pb.RequeueDeadRequest),
            "PutSchedule": Method(calls.put_schedule, pb.PutScheduleRequest),
            "ListSchedules": Method(calls.list_schedules, pb.ListSchedulesRequest),
            "DeleteSchedule": Method(calls.delete_schedule, pb.DeleteScheduleRequest),
        },
    )


async def serve(
    broker: Broker,
    address: str,
    *,
    with_tenants: bool = False,
    is_dev: bool = False,
    access: Access | None = None,
    credentials: grpc.ServerCredentials | None = None,
    metrics: Metrics | None = None,
    clock: Clock | None = None,
    sql_limits: SqlLimits | None = None,
) -> RpcServer:
    """Serves both services on `host:port`; port 0 selects a free one."""
    clock = clock or SystemClock()
    tenancy = Tenancy(broker, is_on=with_tenants)
    silo = silo_service(
        broker,
        tenancy,
        engine=SqlEngine(clock, sql_limits),
        arrow=_arrow(),
        diagnostics=ProcessDiagnostics(),
        is_dev=is_dev,
    )
    interceptor = CallInterceptor(access or Access(), metrics or Metrics(), clock)
    return await RpcServer.start(
        [silo, api_service(broker, tenancy)], address, interceptor=interceptor, credentials=credentials
    )


def _arrow() -> ArrowEncoder | None:
    try:
        return PyArrowEncoder()
    except ImportError:
        return None  # QueryArrow then names the missing package
