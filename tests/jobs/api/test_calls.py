"""`argosy.jobs.v1.Jobs` over real gRPC and real shards."""

import asyncio
from typing import Any

import grpc
import pytest

from argosy.jobs.api import argosy_jobs_pb2 as pb
from argosy.jobs.silo import silo_pb2
from tests.jobs.rpc.stage import ELSEWHERE, HERE, NOW, OTHER_NODE, Client, Stage, code_and_details, rejection

GROUP = "mail"
ELSEWHERE_TENANT = "away-9"  # its hash begins with e
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def api(stage: Stage) -> Client:
    return stage.client.of("argosy.jobs.v1.Jobs")


async def put(stage: Stage, *jobs: pb.NewJob) -> list[pb.EnqueueResult]:
    return list((await api(stage)("EnqueueBatch", jobs=jobs)).results)


async def lease(stage: Stage, **fields: Any) -> list[pb.LeasedTask]:
    answer = await api(stage)("LeaseTasks", worker_id="w", task_group=GROUP, max_tasks=100, **fields)
    return list(answer.tasks)


async def end(stage: Stage, *outcomes: pb.TaskOutcome, worker: str = "w") -> list[pb.ReportResult]:
    return list((await api(stage)("ReportOutcomes", worker_id=worker, outcomes=outcomes)).results)


def failure_of(task: pb.LeasedTask) -> pb.TaskOutcome:
    return pb.TaskOutcome(shard=task.task.shard, task_id=task.task.id, failure=pb.Failure(code="X", data=b"why"))


async def test_many_jobs_are_enqueued_leased_and_done(stage: Stage) -> None:
    results = await put(stage, *(pb.NewJob(task_group=GROUP, payload=b"%d" % at) for at in range(500)))
    assert len({result.id for result in results}) == 500
    tasks = await lease(stage)
    while len(tasks) < 500:
        more = await lease(stage)
        assert more
        tasks += more
    outcomes = [pb.TaskOutcome(shard=t.task.shard, task_id=t.task.id, success=t.task.payload.msgpack) for t in tasks]
    assert not any(result.HasField("error") for result in await end(stage, *outcomes))
    job = await api(stage)("GetJob", id=results[7].id)
    assert (job.job.status, job.job.result.msgpack) == (silo_pb2.JOB_STATUS_SUCCEEDED, b"7")


async def test_each_item_has_its_result_in_its_position(tenant_stage: Stage) -> None:
    results = await put(
        tenant_stage,
        pb.NewJob(task_group=GROUP, tenant="tenant-0", id="a"),
        pb.NewJob(task_group=GROUP, tenant="tenant-0", id="a"),
        pb.NewJob(task_group=GROUP),
        pb.NewJob(task_group=GROUP, tenant="tenant-0", limits=[silo_pb2.Limit()]),
        pb.NewJob(tenant="tenant-0"),
        pb.NewJob(task_group=GROUP, tenant=ELSEWHERE_TENANT),
        pb.NewJob(task_group=GROUP, tenant="customer-123", id="b"),
    )
    assert [result.id or result.error.code for result in results] == [
        "a",
        "ALREADY_EXISTS",
        "INVALID_ARGUMENT",
        "INVALID_ARGUMENT",
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "b",
    ]
    assert (results[5].error.message, results[5].error.owner_address) == ("shard not found", OTHER_NODE[1])


async def test_a_rejected_tenant_is_not_reported_as_a_taken_id(stage: Stage) -> None:
    wrong, right = await put(stage, pb.NewJob(task_group=GROUP, tenant="acme"), pb.NewJob(task_group=GROUP, id="a"))
    assert (wrong.error.code, right.id) == ("FAILED_PRECONDITION", "a")


async def test_a_job_has_every_requested_field(stage: Stage) -> None:
    await put(stage, pb.NewJob(task_group=GROUP, id="first"))
    retry = silo_pb2.RetryPolicy(retry_count=2, initial_interval_ms=5, max_interval_ms=10, backoff_factor=2)
    new_job = pb.NewJob(
        task_group=GROUP,
        id="second",
        payload=b"p",
        retry_policy=retry,
        metadata={"k": "v"},
        unique_key="u",
        unique_for_ms=1000,
        after=["first"],
        retention_ms=5,
        trace=TRACE,
    )
    assert [result.id for result in await put(stage, new_job)] == ["second"]
    [duplicate] = await put(stage, pb.NewJob(task_group=GROUP, unique_key="u", unique_for_ms=1000))
    assert duplicate.id == "second", "the result names the holder of the unique key"
    job = await api(stage)("GetJob", id="second")
    assert (job.job.priority, job.job.retry_policy, dict(job.job.metadata)) == (50, retry, {"k": "v"})
    assert (job.unique_key, list(job.after), list(job.waiting_for), job.trace) == ("u", ["first"], ["first"], TRACE)
    [first] = await lease(stage)
    await end(stage, pb.TaskOutcome(shard=HERE, task_id=first.task.id, success=b""))
    [second] = await lease(stage, wait_ms=5_000)
    assert (second.task.job_id, second.trace) == ("second", TRACE)


async def test_jobs_get_the_trace_of_the_call(stage: Stage) -> None:
    traced = stage.client.with_metadata(traceparent=TRACE).of("argosy.jobs.v1.Jobs")
    await traced("EnqueueBatch", jobs=[pb.NewJob(task_group=GROUP, id="job")])
    assert (await api(stage)("GetJob", id="job")).trace == TRACE


async def test_a_poll_waits_for_the_first_task(stage: Stage) -> None:
    waiting = asyncio.ensure_future(lease(stage, wait_ms=15_000))
    while not stage.node.shards[HERE]._waiting:
        assert not waiting.done()
        await api(stage)("ListSchedules")
    await put(stage, pb.NewJob(task_group=GROUP, id="job"))
    [task] = await waiting
    assert task.task.job_id == "job"


async def test_a_poll_at_one_shard(stage: Stage) -> None:
    await put(stage, pb.NewJob(task_group=GROUP, id="job"))
    [task] = await lease(stage, shard=HERE)
    assert (task.task.shard, task.task.attempt_number) == (HERE, 1)
    unserved = lease(stage, shard=ELSEWHERE)
    assert code_and_details(await rejection(unserved)) == ("NOT_FOUND", "shard not found")


async def test_a_poll_without_a_deadline(stage: Stage) -> None:
    call = stage.client.channel.unary_unary(
        "/argosy.jobs.v1.Jobs/LeaseTasks", pb.LeaseTasksRequest.SerializeToString, pb.LeaseTasksResponse.FromString
    )
    assert not (await call(pb.LeaseTasksRequest(worker_id="w", task_group=GROUP, wait_ms=1))).tasks


async def test_outcomes_are_accepted_from_the_lease_owner_only(stage: Stage) -> None:
    await put(stage, pb.NewJob(task_group=GROUP, id="job"))
    [task] = await lease(stage)
    [theft] = await end(stage, failure_of(task), worker="thief")
    assert (theft.error.code, theft.error.message) == ("FAILED_PRECONDITION", "lease owner mismatch")
    empty = pb.TaskOutcome(shard=HERE, task_id=task.task.id)
    unknown = pb.TaskOutcome(shard=HERE, task_id="gone", cancelled=pb.Cancelled())
    unserved = pb.TaskOutcome(shard=ELSEWHERE, task_id="t", success=b"")
    results = await end(stage, empty, unknown, unserved, failure_of(task))
    assert [result.error.code for result in results] == ["INVALID_ARGUMENT", "NOT_FOUND", "NOT_FOUND", ""]


async def test_heartbeats_send_progress_and_return_cancellation(stage: Stage) -> None:
    await put(stage, pb.NewJob(task_group=GROUP, id="a"), pb.NewJob(task_group=GROUP, id="b"))
    tasks = {task.task.job_id: task.task for task in await lease(stage)}
    await stage.client("CancelJob", shard=HERE, id="b")
    beats = [
        pb.Heartbeat(shard=HERE, task_id=tasks["a"].id, progress=b"half"),
        pb.Heartbeat(shard=HERE, task_id=tasks["b"].id),
        pb.Heartbeat(shard=HERE, task_id="gone"),
        pb.Heartbeat(shard="no uuid", task_id="gone"),
    ]
    answer = await api(stage)("Heartbeats", worker_id="w", heartbeats=beats)
    assert [result.HasField("cancelled_at_ms") for result in answer.results] == [False, True, False, False]
    assert [result.error.code for result in answer.results] == ["", "", "NOT_FOUND", "INVALID_ARGUMENT"]
    assert answer.results[1].cancelled_at_ms == NOW
    assert (await api(stage)("GetJob", id="a")).progress == b"half"
    assert (await api(stage)("GetJob", id="b")).cancelled_at_ms == NOW


async def test_jobs_are_found_page_by_page(stage: Stage) -> None:
    await put(stage, *(pb.NewJob(task_group=GROUP, id=f"j{at}", metadata={"who": "ann"}) for at in range(5)))
    await put(stage, pb.NewJob(task_group=GROUP, id="other", metadata={"who": "bob"}))
    by_who = await api(stage)("FindJobs", metadata_key="who", metadata_value="ann")
    assert {job.job.id for job in by_who.jobs} == {f"j{at}" for at in range(5)}
    scheduled = silo_pb2.JOB_STATUS_SCHEDULED
    ids: list[str] = []
    while page := (await api(stage)("FindJobs", status=scheduled, limit=4, after=ids[-1] if ids else "")).jobs:
        ids += [job.job.id for job in page]
    assert sorted(ids) == ["j0", "j1", "j2", "j3", "j4", "other"]
    assert not (await api(stage)("FindJobs", status=silo_pb2.JOB_STATUS_RUNNING)).jobs
    odd = pb.FindJobsRequest.FromString(bytes([0x10, 77]))
    assert code_and_details(await rejection(api(stage)("FindJobs", odd)))[0] == "INVALID_ARGUMENT"


async def test_dead_letters_are_listed_and_requeued(stage: Stage) -> None:
    await put(stage, *(pb.NewJob(task_group=GROUP, id=id) for id in ("a", "b", "fine")))
    tasks = {task.task.job_id: task for task in await lease(stage)}
    await end(stage, failure_of(tasks["a"]), failure_of(tasks["b"]))
    dead = await api(stage)("FindJobs", is_dead=True)
    assert sorted(job.job.id for job in dead.jobs) == ["a", "b"]
    assert all(job.is_dead for job in dead.jobs)
    answer = await api(stage)("RequeueDead", ids=["a", "fine", "never"])
    assert [result.error.code for result in answer.results] == ["", "FAILED_PRECONDITION", "NOT_FOUND"]
    answer = await api(stage)("RequeueDead")
    assert [(result.id, result.HasField("error")) for result in answer.results] == [("b", False)]
    assert sorted(task.task.job_id for task in await lease(stage)) == ["a", "b"]
    assert not (await api(stage)("FindJobs", is_dead=True)).jobs


async def test_schedules_are_created_listed_and_deleted(stage: Stage) -> None:
    job = pb.NewJob(task_group=GROUP, payload=b"p", priority=7)
    schedule = pb.Schedule(name="hourly", cron="0 * * * *", job=job)
    await api(stage)("PutSchedule", schedule=schedule)
    [schedule_found] = (await api(stage)("ListSchedules")).schedules
    assert (schedule_found.name, schedule_found.cron, schedule_found.timezone, schedule_found.is_paused) == (
        "hourly",
        "0 * * * *",
        "UTC",
        False,
    )
    assert (schedule_found.job.payload, schedule_found.job.priority) == (b"p", 7)
    assert NOW < schedule_found.next_at_ms <= NOW + 3_600_000
    schedule.is_paused = True
    await api(stage)("PutSchedule", schedule=schedule)
    assert [each.is_paused for each in (await api(stage)("ListSchedules")).schedules] == [True]
    await api(stage)("DeleteSchedule", name="hourly")
    assert code_and_details(await rejection(api(stage)("DeleteSchedule", name="hourly")))[0] == "NOT_FOUND"
    bad = pb.Schedule(name="bad", cron="sometimes", job=job)
    assert code_and_details(await rejection(api(stage)("PutSchedule", schedule=bad)))[0] == "INVALID_ARGUMENT"


async def test_a_client_is_redirected_to_the_owner_of_its_tenant(tenant_stage: Stage) -> None:
    error = await rejection(api(tenant_stage)("GetJob", tenant=ELSEWHERE_TENANT, id="x"))
    assert code_and_details(error) == ("NOT_FOUND", "shard not found")
    assert dict(error.trailing_metadata())["x-silo-shard-owner-addr"] == OTHER_NODE[1]


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("EnqueueBatch", {"jobs": [pb.NewJob()] * 10_001}),
        ("ReportOutcomes", {"outcomes": [pb.TaskOutcome()] * 10_001}),
        ("Heartbeats", {"worker_id": "w", "heartbeats": [pb.Heartbeat()] * 10_001}),
        ("RequeueDead", {"ids": [""] * 10_001}),
        ("LeaseTasks", {"worker_id": "", "task_group": GROUP}),
        ("LeaseTasks", {"worker_id": "w"}),
    ],
)
async def test_calls_are_bounded(stage: Stage, method: str, fields: dict[str, Any]) -> None:
    error = await rejection(api(stage)(method, **fields))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
