"""The field numbers of `argosy.jobs.v1` never change once released; new fields get new numbers."""

from argosy.jobs.api import argosy_jobs_pb2 as pb
from argosy.jobs.api.codec import from_new_job, to_new_job
from argosy.jobs.model import (
    ConcurrencyLimit,
    FloatingLimit,
    NewJob,
    RateLimit,
    RateLimitRetry,
    RetryPolicy,
)

WIRE = """
Error: 1 code, 2 message, 3 owner_address
NewJob: 1 tenant, 2 id, 3 task_group, 4 payload, 5 priority, 6 start_at_ms, 7 retry_policy, 8 limits, 9 metadata,
    10 unique_key, 11 unique_for_ms, 12 after, 13 retention_ms, 14 trace
EnqueueBatchRequest: 1 jobs
EnqueueResult: 1 id, 2 error
EnqueueBatchResponse: 1 results
LeaseTasksRequest: 1 shard, 2 worker_id, 3 task_group, 4 max_tasks, 5 wait_ms
LeasedTask: 1 task, 2 trace, 3 schedule
LeaseTasksResponse: 1 tasks, 2 refresh_tasks
TaskOutcome: 1 shard, 2 task_id, 3 success, 4 failure, 5 cancelled, 6 released
Released:
Failure: 1 code, 2 data
Cancelled:
ReportOutcomesRequest: 1 worker_id, 2 outcomes
ReportResult: 1 error
ReportOutcomesResponse: 1 results
Heartbeat: 1 shard, 2 task_id, 3 progress
HeartbeatsRequest: 1 worker_id, 2 heartbeats
HeartbeatResult: 1 cancelled_at_ms, 2 error
HeartbeatsResponse: 1 results
GetJobRequest: 1 tenant, 2 id, 3 with_attempts
Job: 1 job, 2 tenant, 3 progress, 4 is_dead, 5 waiting_for, 6 cancelled_at_ms, 7 unique_key, 8 after, 9 schedule,
    10 trace, 11 attempt
FindJobsRequest: 1 tenant, 2 status, 3 metadata_key, 4 metadata_value, 5 is_dead, 6 after, 7 limit
FindJobsResponse: 1 jobs
RequeueDeadRequest: 1 tenant, 2 ids, 3 limit
RequeueResult: 1 id, 2 error
RequeueDeadResponse: 1 results
Schedule: 1 tenant, 2 name, 3 cron, 4 timezone, 5 job, 6 is_paused, 7 next_at_ms
PutScheduleRequest: 1 schedule
PutScheduleResponse:
ListSchedulesRequest: 1 tenant
ListSchedulesResponse: 1 schedules
DeleteScheduleRequest: 1 tenant, 2 name
DeleteScheduleResponse:
"""


def test_field_numbers_do_not_change() -> None:
    spelled = [
        " ".join([f"{name}:", ", ".join(f"{field.number} {field.name}" for field in message.fields)]).rstrip()
        for name, message in pb.DESCRIPTOR.message_types_by_name.items()
    ]
    assert spelled == WIRE.replace("\n   ", "").strip().splitlines()


def test_the_service_has_its_methods() -> None:
    service = pb.DESCRIPTOR.services_by_name["Jobs"]
    assert service.full_name == "argosy.jobs.v1.Jobs"
    assert [method.name for method in service.methods] == [
        "EnqueueBatch",
        "LeaseTasks",
        "ReportOutcomes",
        "Heartbeats",
        "GetJob",
        "FindJobs",
        "RequeueDead",
        "PutSchedule",
        "ListSchedules",
        "DeleteSchedule",
    ]


def test_a_job_round_trips_over_the_wire() -> None:
    job = NewJob(
        "group",
        b"\x00\xff",
        "acme",
        "id",
        99,
        123,
        RetryPolicy(3, 10, 100, True, 1.5),
        (
            ConcurrencyLimit("k", 2),
            FloatingLimit("f", 3, 1000, {"a": "b"}),
            RateLimit("n", "u", 10, 1000, 2, 1, 16, RateLimitRetry(1, 2, 3.0, 4)),
            RateLimit("n", "u", 1, 1),
        ),
        {"k": "v"},
        "unique",
        5,
        ("first", "second"),
        6,
        "trace",
    )
    sent = pb.NewJob.FromString(to_new_job(job).SerializeToString())
    assert from_new_job(sent, "acme") == job
    plain = from_new_job(pb.NewJob(task_group="g"), "acme", "of the call")
    assert plain == NewJob("g", tenant="acme", trace="of the call")
