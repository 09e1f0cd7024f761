"""The methods of the wire that the SDK asks, with the message each is answered by."""

from dataclasses import dataclass
from typing import Any

from argosy.jobs.api import argosy_jobs_pb2 as api
from argosy.jobs.silo import silo_pb2 as silo

SILO = "silo.v1.Silo"
JOBS = "argosy.jobs.v1.Jobs"


@dataclass(frozen=True)
class Call:
    service: str
    method: str
    answer: Any

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.method}"


CLUSTER = Call(SILO, "GetClusterInfo", silo.GetClusterInfoResponse)
CANCEL = Call(SILO, "CancelJob", silo.CancelJobResponse)
RESTART = Call(SILO, "RestartJob", silo.RestartJobResponse)
EXPEDITE = Call(SILO, "ExpediteJob", silo.ExpediteJobResponse)
DELETE = Call(SILO, "DeleteJob", silo.DeleteJobResponse)
SPLIT = Call(SILO, "RequestSplit", silo.RequestSplitResponse)
SPLIT_STATUS = Call(SILO, "GetSplitStatus", silo.GetSplitStatusResponse)
REPORT_REFRESH = Call(SILO, "ReportRefreshOutcome", silo.ReportRefreshOutcomeResponse)
ENQUEUE = Call(JOBS, "EnqueueBatch", api.EnqueueBatchResponse)
LEASE = Call(JOBS, "LeaseTasks", api.LeaseTasksResponse)
REPORT = Call(JOBS, "ReportOutcomes", api.ReportOutcomesResponse)
HEARTBEATS = Call(JOBS, "Heartbeats", api.HeartbeatsResponse)
GET = Call(JOBS, "GetJob", api.Job)
FIND = Call(JOBS, "FindJobs", api.FindJobsResponse)
REQUEUE = Call(JOBS, "RequeueDead", api.RequeueDeadResponse)
PUT_SCHEDULE = Call(JOBS, "PutSchedule", api.PutScheduleResponse)
SCHEDULES = Call(JOBS, "ListSchedules", api.ListSchedulesResponse)
DELETE_SCHEDULE = Call(JOBS, "DeleteSchedule", api.DeleteScheduleResponse)
