"""The service `argosy.jobs.v1.Jobs`, and the server that offers it beside `silo.v1.Silo` on one port."""

import grpc  # type: ignore[import-untyped, unused-ignore]

from argosy.base.clock import Clock, SystemClock
from argosy.base.metrics import Metrics
from argosy.jobs.api import argosy_jobs_pb2 as pb
from argosy.jobs.api.service import ApiCalls
from argosy.jobs.broker import Broker
from argosy.jobs.rpc.access import Access
from argosy.jobs.rpc.call_context import Tenancy
from argosy.jobs.rpc.server import CallInterceptor, Method, RpcServer, Service
from argosy.jobs.silo.backends.diagnostics import ProcessDiagnostics
from argosy.jobs.silo.grpc import silo_service
from argosy.jobs.silo.sql_calls import ArrowEncoder
from argosy.jobs.sql.backends.arrow import PyArrowEncoder
from argosy.jobs.sql.model import SqlLimits
from argosy.jobs.sql.service import SqlEngine

NAME = "argosy.jobs.v1.Jobs"


def api_service(broker: Broker, tenancy: Tenancy) -> Service:
    calls = ApiCalls(broker, tenancy)
    return Service(
        NAME,
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
    """Both services on `host:port`; port 0 takes a free one."""
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
        return None  # QueryArrow says then what to install
