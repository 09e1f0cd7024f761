"""The service `silo.v1.Silo`: which call answers which method."""

from argosy.jobs.broker import Broker
from argosy.jobs.rpc.call_context import Tenancy
from argosy.jobs.rpc.server import Method, Service
from argosy.jobs.silo import silo_pb2 as pb
from argosy.jobs.silo.calls import JobCalls
from argosy.jobs.silo.operator_calls import Diagnostics, ShardOperations
from argosy.jobs.silo.sql_calls import ArrowEncoder, QueryEngine, SqlCalls

NAME = "silo.v1.Silo"


def silo_service(
    broker: Broker,
    tenancy: Tenancy,
    *,
    engine: QueryEngine,
    arrow: ArrowEncoder | None,
    diagnostics: Diagnostics,
    is_dev: bool = False,
) -> Service:
    jobs = JobCalls(broker, tenancy)
    operations = ShardOperations(broker, diagnostics, is_dev=is_dev)
    sql = SqlCalls(broker, tenancy, engine, arrow)
    return Service(
        NAME,
        {
            "GetClusterInfo": Method(operations.get_cluster_info, pb.GetClusterInfoRequest),
            "GetNodeInfo": Method(operations.get_node_info, pb.GetNodeInfoRequest),
            "Enqueue": Method(jobs.enqueue, pb.EnqueueRequest),
            "GetJob": Method(jobs.get_job, pb.GetJobRequest),
            "GetJobResult": Method(jobs.get_job_result, pb.GetJobResultRequest),
            "DeleteJob": Method(jobs.delete_job, pb.DeleteJobRequest),
            "CancelJob": Method(jobs.cancel_job, pb.CancelJobRequest),
            "DropTenantHolders": Method(jobs.drop_tenant_holders, pb.DropTenantHoldersRequest),
            "RestartJob": Method(jobs.restart_job, pb.RestartJobRequest),
            "ExpediteJob": Method(jobs.expedite_job, pb.ExpediteJobRequest),
            "LeaseTask": Method(jobs.lease_task, pb.LeaseTaskRequest),
            "LeaseTasks": Method(jobs.lease_tasks, pb.LeaseTasksRequest),
            "ReportOutcome": Method(jobs.report_outcome, pb.ReportOutcomeRequest),
            "ReportRefreshOutcome": Method(jobs.report_refresh_outcome, pb.ReportRefreshOutcomeRequest),
            "Heartbeat": Method(jobs.heartbeat, pb.HeartbeatRequest),
            "Query": Method(sql.query, pb.QueryRequest),
            "QueryArrow": Method(sql.query_arrow, pb.QueryArrowRequest, is_stream=True),
            "CpuProfile": Method(operations.cpu_profile, pb.CpuProfileRequest),
            "HeapProfile": Method(operations.heap_profile, pb.HeapProfileRequest),
            "RequestSplit": Method(operations.request_split, pb.RequestSplitRequest),
            "GetSplitStatus": Method(operations.get_split_status, pb.GetSplitStatusRequest),
            "ConfigureShard": Method(operations.configure_shard, pb.ConfigureShardRequest),
            "ImportJobs": Method(jobs.import_jobs, pb.ImportJobsRequest),
            "ResetShards": Method(operations.reset_shards, pb.ResetShardsRequest),
            "ForceReleaseShard": Method(operations.force_release_shard, pb.ForceReleaseShardRequest),
            "CompactShard": Method(operations.compact_shard, pb.CompactShardRequest),
            "FlushShard": Method(operations.flush_shard, pb.FlushShardRequest),
            "GetShardStorageInfo": Method(operations.get_shard_storage_info, pb.GetShardStorageInfoRequest),
            "DumpTasks": Method(operations.dump_tasks, pb.DumpTasksRequest),
        },
    )
