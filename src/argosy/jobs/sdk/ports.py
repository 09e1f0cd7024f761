"""The calls that the SDK makes, and the port it needs: a link to each node."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from argosy.jobs.api import argosy_jobs_pb2 as api
from argosy.jobs.silo import silo_pb2 as silo

SILO = "silo.v1.Silo"
JOBS = "argosy.jobs.v1.Jobs"


@dataclass(frozen=True)
class RpcMethod:
    service: str
    method: str
    answer: Any

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.method}"


CLUSTER = RpcMethod(SILO, "GetClusterInfo", silo.GetClusterInfoResponse)
CANCEL = RpcMethod(SILO, "CancelJob", silo.CancelJobResponse)
RESTART = RpcMethod(SILO, "RestartJob", silo.RestartJobResponse)
EXPEDITE = RpcMethod(SILO, "ExpediteJob", silo.ExpediteJobResponse)
DELETE = RpcMethod(SILO, "DeleteJob", silo.DeleteJobResponse)
SPLIT = RpcMethod(SILO, "RequestSplit", silo.RequestSplitResponse)
SPLIT_STATUS = RpcMethod(SILO, "GetSplitStatus", silo.GetSplitStatusResponse)
REPORT_REFRESH = RpcMethod(SILO, "ReportRefreshOutcome", silo.ReportRefreshOutcomeResponse)
ENQUEUE = RpcMethod(JOBS, "EnqueueBatch", api.EnqueueBatchResponse)
LEASE = RpcMethod(JOBS, "LeaseTasks", api.LeaseTasksResponse)
REPORT = RpcMethod(JOBS, "ReportOutcomes", api.ReportOutcomesResponse)
HEARTBEATS = RpcMethod(JOBS, "Heartbeats", api.HeartbeatsResponse)
GET = RpcMethod(JOBS, "GetJob", api.Job)
FIND = RpcMethod(JOBS, "FindJobs", api.FindJobsResponse)
REQUEUE = RpcMethod(JOBS, "RequeueDead", api.RequeueDeadResponse)
PUT_SCHEDULE = RpcMethod(JOBS, "PutSchedule", api.PutScheduleResponse)
SCHEDULES = RpcMethod(JOBS, "ListSchedules", api.ListSchedulesResponse)
DELETE_SCHEDULE = RpcMethod(JOBS, "DeleteSchedule", api.DeleteScheduleResponse)


class NodeLink(Protocol):
    """A connection to one node. Failures are raised as Argosy's errors."""

    async def call(self, call: RpcMethod, request: Any, *, timeout_s: float, headers: Mapping[str, str]) -> Any: ...


class NodeLinks(Protocol):
    """Links to all nodes, by address."""

    def link(self, address: str) -> NodeLink:
        """Unavailable if the address is empty."""
        ...

    async def close(self) -> None: ...
