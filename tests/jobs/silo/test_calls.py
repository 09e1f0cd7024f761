"""`silo.v1.Silo` over real gRPC and a real shard: every code and text that clients rely on."""

from typing import Any

import pytest

from argosy.jobs.silo import silo_pb2 as pb
from tests.jobs.rpc.stage import (
    ACQUIRING,
    ALSO_HERE,
    ELSEWHERE,
    HERE,
    NOW,
    NOWHERE,
    OTHER_NODE,
    SPLITTING,
    Client,
    Stage,
    code_and_details,
    open_stage,
    rejection,
)

GROUP = "mail"
PRIVATE = b"\xc1 no msgpack at all"


async def put(client: Client, id: str = "job", **fields: Any) -> str:
    fields = {"shard": HERE, "task_group": GROUP, "priority": 5, **fields}
    answer = await client("Enqueue", id=id, payload=pb.SerializedBytes(msgpack=b"\x01"), **fields)
    return str(answer.id)


async def lease_tasks(client: Client, **fields: Any) -> list[pb.Task]:
    answer = await client("LeaseTasks", worker_id="w", max_tasks=10, task_group=GROUP, **fields)
    return list(answer.tasks)


async def end(client: Client, task: pb.Task, **outcome: Any) -> None:
    await client("ReportOutcome", shard=task.shard, task_id=task.id, **outcome)


# -- jobs -------------------------------------------------------------------------------------------------------------


async def test_a_job_goes_from_enqueue_to_its_result(stage: Stage) -> None:
    client = stage.client
    limits = [
        pb.Limit(concurrency=pb.ConcurrencyLimit(key="k", max_concurrency=2)),
        pb.Limit(
            floating_concurrency=pb.FloatingConcurrencyLimit(
                key="f", default_max_concurrency=3, refresh_interval_ms=1000, metadata={"a": "b"}
            )
        ),
    ]
    retry = pb.RetryPolicy(retry_count=1, initial_interval_ms=10, max_interval_ms=100, backoff_factor=2.0)
    assert await put(client, limits=limits, metadata={"who": "me"}, retry_policy=retry) == "job"
    [task] = await lease_tasks(client)
    assert (task.job_id, task.shard, task.task_group, task.priority) == ("job", HERE, GROUP, 5)
    assert (task.attempt_number, task.relative_attempt_number, task.is_last_attempt) == (1, 1, False)
    assert (task.payload.msgpack, dict(task.metadata), task.lease_ms) == (b"\x01", {"who": "me"}, 10_000)
    assert not task.HasField("tenant_id")
    assert list(task.limits) == limits
    beat = await client("Heartbeat", shard=HERE, worker_id="w", task_id=task.id)
    assert (beat.cancelled, beat.HasField("cancelled_at_ms")) == (False, False)
    running = await client("GetJob", shard=HERE, id="job")
    assert (running.status, running.enqueue_time_ms, running.retry_policy) == (pb.JOB_STATUS_RUNNING, NOW, retry)
    assert not running.attempts
    assert not running.HasField("result")
    await end(client, task, success=pb.SerializedBytes(msgpack=b"\x2a"))
    done = await client("GetJob", shard=HERE, id="job", include_attempts=True)
    assert (done.status, done.result.msgpack) == (pb.JOB_STATUS_SUCCEEDED, b"\x2a")
    assert [(a.attempt_number, a.status, a.result.msgpack) for a in done.attempts] == [(1, 1, b"\x2a")]
    assert (await client("GetJob", shard=HERE, id="job")).result.msgpack == b"\x2a"
    result = await client("GetJobResult", shard=HERE, id="job")
    assert (result.status, result.success_data.msgpack) == (pb.JOB_STATUS_SUCCEEDED, b"\x2a")
    assert result.finished_at_ms == NOW


async def test_a_failure_is_retried_and_then_reported(stage: Stage) -> None:
    client = stage.client
    await put(client)
    [task] = await lease_tasks(client, shard=HERE)
    assert task.is_last_attempt
    await end(client, task, failure=pb.Failure(code="BAD", data=pb.SerializedBytes(msgpack=PRIVATE)))
    result = await client("GetJobResult", shard=HERE, id="job")
    assert (result.status, result.failure.error_code) == (pb.JOB_STATUS_FAILED, "BAD")
    assert result.failure.error_data.msgpack == PRIVATE
    await client("RestartJob", shard=HERE, id="job")
    [again] = await lease_tasks(client)
    assert (again.attempt_number, again.relative_attempt_number) == (2, 1)
    shown = await client("GetJob", shard=HERE, id="job", include_attempts=True)
    assert [(a.status, a.error_code) for a in shown.attempts] == [(pb.ATTEMPT_STATUS_FAILED, "BAD"), (0, "")]


async def test_a_cancellation_is_returned_by_the_heartbeat(stage: Stage) -> None:
    client = stage.client
    await put(client)
    [task] = await lease_tasks(client)
    await client("CancelJob", shard=HERE, id="job")
    beat = await client("Heartbeat", shard=HERE, worker_id="w", task_id=task.id)
    assert (beat.cancelled, beat.cancelled_at_ms) == (True, NOW)
    await end(client, task, cancelled=pb.Cancelled())
    result = await client("GetJobResult", shard=HERE, id="job")
    assert (result.status, result.cancelled.cancelled_at_ms) == (pb.JOB_STATUS_CANCELLED, NOW)


async def test_a_job_can_be_expedited_leased_by_name_and_deleted(stage: Stage) -> None:
    client = stage.client
    await put(client, start_at_ms=NOW + 60_000)
    assert await lease_tasks(client) == []
    assert (await client("GetJob", shard=HERE, id="job")).next_attempt_starts_after_ms == NOW + 60_000
    await client("ExpediteJob", shard=HERE, id="job")
    answer = await client("LeaseTask", shard=HERE, id="job", worker_id="w")
    assert answer.task.job_id == "job"
    code, _ = code_and_details(await rejection(client("DeleteJob", shard=HERE, id="job")))
    assert code == "FAILED_PRECONDITION"
    await end(client, answer.task, success=pb.SerializedBytes())
    await client("DeleteJob", shard=HERE, id="job")
    assert code_and_details(await rejection(client("GetJob", shard=HERE, id="job"))) == ("NOT_FOUND", "job not found")


async def test_deleting_a_missing_job_is_not_an_error(stage: Stage) -> None:
    assert await stage.client("DeleteJob", shard=HERE, id="never") == pb.DeleteJobResponse()


async def test_a_poll_without_a_shard_covers_all_within_its_maximum(stage: Stage) -> None:
    for at in range(3):
        await put(stage.client, f"a{at}")
        await put(stage.client, f"b{at}", shard=ALSO_HERE)
    first = await stage.client("LeaseTasks", worker_id="w", max_tasks=4, task_group=GROUP)
    rest = await stage.client("LeaseTasks", worker_id="w", max_tasks=4, task_group=GROUP)
    assert (len(first.tasks), len(rest.tasks)) == (4, 2)
    assert {task.shard for task in [*first.tasks, *rest.tasks]} == {HERE, ALSO_HERE}
    assert len({task.id for task in [*first.tasks, *rest.tasks]}) == 6
    assert not (await stage.client("LeaseTasks", worker_id="w", max_tasks=0, task_group=GROUP)).tasks


async def test_a_floating_limit_is_refreshed_by_a_worker(stage: Stage) -> None:
    client = stage.client
    floating = pb.FloatingConcurrencyLimit(key="f", default_max_concurrency=1, refresh_interval_ms=1)
    for id in ("one", "two", "three"):
        stage.node.now += 10
        await put(client, id, limits=[pb.Limit(floating_concurrency=floating)])
    answer = await client("LeaseTasks", worker_id="w", max_tasks=5, task_group=GROUP)
    [task], [refresh] = answer.tasks, answer.refresh_tasks
    assert (refresh.queue_key, refresh.current_max_concurrency, refresh.shard) == ("f", 1, HERE)
    assert not refresh.HasField("tenant_id")
    code, text = code_and_details(await rejection(client("ReportRefreshOutcome", shard=HERE, task_id=refresh.id)))
    assert (code, "outcome" in text) == ("INVALID_ARGUMENT", True)
    success = pb.RefreshSuccess(new_max_concurrency=2)
    await client("ReportRefreshOutcome", shard=HERE, task_id=refresh.id, success=success)
    [second] = await lease_tasks(client)
    assert {task.job_id, second.job_id} == {"one", "two"}
    gone = client("ReportRefreshOutcome", shard=HERE, task_id=refresh.id, failure=pb.RefreshFailure(code="X"))
    assert code_and_details(await rejection(gone)) == ("NOT_FOUND", "lease not found")


async def test_slots_can_be_dropped_by_an_operator(stage: Stage) -> None:
    limits = [pb.Limit(concurrency=pb.ConcurrencyLimit(key="k", max_concurrency=1))]
    await put(stage.client, "one", limits=limits)
    await lease_tasks(stage.client)
    dropped = await stage.client("DropTenantHolders", shard=HERE)
    assert dropped.holders_dropped == 1


async def test_imported_jobs_get_the_status_of_their_attempts(stage: Stage) -> None:
    failed = pb.ImportAttempt(status=pb.ATTEMPT_STATUS_FAILED, started_at_ms=1, finished_at_ms=2, error_code="X")
    good = pb.ImportAttempt(status=pb.ATTEMPT_STATUS_SUCCEEDED, started_at_ms=3, finished_at_ms=4)
    odd = pb.ImportAttempt.FromString(bytes([0x08, 77]))
    jobs = [
        pb.ImportJobRequest(shard=HERE, id="new", task_group=GROUP, enqueue_time_ms=1),
        pb.ImportJobRequest(shard=HERE, id="done", task_group=GROUP, enqueue_time_ms=1, attempts=[failed, good]),
        pb.ImportJobRequest(shard=HERE, task_group=GROUP),
        pb.ImportJobRequest(shard=HERE, id="odd", task_group=GROUP, attempts=[odd]),
    ]
    answer = await stage.client("ImportJobs", jobs=jobs)
    assert [(r.id, r.success, r.status) for r in answer.results] == [
        ("new", True, pb.JOB_STATUS_SCHEDULED),
        ("done", True, pb.JOB_STATUS_SUCCEEDED),
        ("", False, 0),
        ("odd", False, 0),
    ]
    assert "id" in answer.results[2].error
    assert "77" in answer.results[3].error


async def test_an_import_that_touches_a_running_job_fails_whole(stage: Stage) -> None:
    await put(stage.client, "busy")
    await lease_tasks(stage.client)
    jobs = [pb.ImportJobRequest(shard=HERE, id=id, task_group=GROUP) for id in ("fresh", "busy")]
    code, text = code_and_details(await rejection(stage.client("ImportJobs", jobs=jobs)))
    assert (code, "busy" in text) == ("FAILED_PRECONDITION", True)
    assert code_and_details(await rejection(stage.client("GetJob", shard=HERE, id="fresh")))[0] == "NOT_FOUND"


# -- codes and texts --------------------------------------------------------------------------------------------------


async def test_a_shard_id_that_is_not_a_uuid_is_rejected(stage: Stage) -> None:
    code, text = code_and_details(await rejection(stage.client("GetJob", shard="seven", id="x")))
    assert (code, text.startswith("invalid shard ID: ")) == ("INVALID_ARGUMENT", True)


async def test_the_error_for_a_shard_of_another_node_names_its_owner(stage: Stage) -> None:
    error = await rejection(stage.client("Enqueue", shard=ELSEWHERE, task_group=GROUP))
    assert code_and_details(error) == ("NOT_FOUND", "shard not found")
    trailing = dict(error.trailing_metadata())
    assert trailing["x-silo-shard-owner-addr"] == OTHER_NODE[1]
    assert trailing["x-silo-shard-owner-node"] == OTHER_NODE[0]


async def test_the_error_for_an_unknown_shard_names_no_owner(stage: Stage) -> None:
    error = await rejection(stage.client("LeaseTasks", shard=NOWHERE, worker_id="w", max_tasks=1, task_group=GROUP))
    assert code_and_details(error) == ("NOT_FOUND", "shard not found")
    assert "x-silo-shard-owner-addr" not in dict(error.trailing_metadata())


@pytest.mark.parametrize("failure", [ACQUIRING, SPLITTING])
async def test_a_shard_being_acquired_is_unavailable(stage: Stage, failure: Exception) -> None:
    stage.node.failures[HERE] = ACQUIRING if failure is ACQUIRING else SPLITTING
    assert code_and_details(await rejection(stage.client("GetJob", shard=HERE, id="x"))) == (
        "UNAVAILABLE",
        str(failure),
    )


async def test_a_tenant_is_required_with_tenancy(tenant_stage: Stage) -> None:
    client = tenant_stage.client
    assert code_and_details(await rejection(put(client))) == ("INVALID_ARGUMENT", "tenant id required")
    assert code_and_details(await rejection(put(client, tenant="t" * 65))) == ("INVALID_ARGUMENT", "invalid tenant id")
    assert code_and_details(await rejection(put(client, tenant="-"))) == ("INVALID_ARGUMENT", "invalid tenant id")
    assert await put(client, tenant="tenant-0") == "job"
    [task] = await lease_tasks(client)
    assert task.tenant_id == "tenant-0"
    code, text = code_and_details(await rejection(end(client, task, success=pb.SerializedBytes())))
    assert code == "INVALID_ARGUMENT"
    assert text.startswith("tenant_id is required for worker operations")
    beat = client("Heartbeat", shard=HERE, worker_id="w", task_id=task.id)
    assert code_and_details(await rejection(beat))[0] == "INVALID_ARGUMENT"
    await end(client, task, success=pb.SerializedBytes(), tenant_id="tenant-0")


async def test_a_tenant_is_rejected_without_tenancy(stage: Stage) -> None:
    code, text = code_and_details(await rejection(put(stage.client, tenant="tenant-0")))
    assert (code, text.startswith("tenant must not be provided")) == ("FAILED_PRECONDITION", True)


async def test_the_error_for_a_tenant_of_another_shard_asks_to_refresh(tenant_stage: Stage) -> None:
    code, text = code_and_details(await rejection(put(tenant_stage.client, tenant="tenant-0", shard=ALSO_HERE)))
    assert code == "FAILED_PRECONDITION"
    assert text.startswith(f"tenant 'tenant-0' is not within shard {ALSO_HERE} range [8000000000000000, c000")
    assert text.endswith("; refresh topology and retry")


async def test_a_tenant_does_not_see_anothers_job(tenant_stage: Stage) -> None:
    await put(tenant_stage.client, tenant="tenant-0")
    get = tenant_stage.client("GetJob", shard=HERE, id="job", tenant="customer-123")
    assert code_and_details(await rejection(get)) == ("NOT_FOUND", "job not found")


@pytest.mark.parametrize("method", ["GetJob", "GetJobResult", "CancelJob", "RestartJob", "ExpediteJob"])
async def test_a_missing_job_is_not_found(stage: Stage, method: str) -> None:
    assert code_and_details(await rejection(stage.client(method, shard=HERE, id="never"))) == (
        "NOT_FOUND",
        "job not found",
    )


async def test_a_missing_lease_is_not_found(stage: Stage) -> None:
    report = stage.client("ReportOutcome", shard=HERE, task_id="gone", success=pb.SerializedBytes())
    beat = stage.client("Heartbeat", shard=HERE, worker_id="w", task_id="gone")
    assert code_and_details(await rejection(report)) == ("NOT_FOUND", "lease not found")
    assert code_and_details(await rejection(beat)) == ("NOT_FOUND", "lease not found")


async def test_a_heartbeat_of_another_worker_is_rejected(stage: Stage) -> None:
    await put(stage.client)
    [task] = await lease_tasks(stage.client)
    beat = stage.client("Heartbeat", shard=HERE, worker_id="thief", task_id=task.id)
    assert code_and_details(await rejection(beat)) == ("FAILED_PRECONDITION", "lease owner mismatch")


async def test_cancelling_twice_or_after_completion_is_rejected(stage: Stage) -> None:
    await put(stage.client)
    await stage.client("CancelJob", shard=HERE, id="job")
    cancel = stage.client("CancelJob", shard=HERE, id="job")
    assert code_and_details(await rejection(cancel)) == ("FAILED_PRECONDITION", "job is already cancelled")
    await put(stage.client, "done")
    [task] = await lease_tasks(stage.client)
    await end(stage.client, task, success=pb.SerializedBytes())
    cancel = stage.client("CancelJob", shard=HERE, id="done")
    assert code_and_details(await rejection(cancel)) == ("FAILED_PRECONDITION", "job is already in terminal state")


async def test_the_result_of_an_unfinished_job_is_rejected(stage: Stage) -> None:
    await put(stage.client)
    code, text = code_and_details(await rejection(stage.client("GetJobResult", shard=HERE, id="job")))
    assert (code, text.startswith("job is not complete: ")) == ("FAILED_PRECONDITION", True)


async def test_restart_expedite_and_lease_are_rejected_in_other_states(stage: Stage) -> None:
    await put(stage.client)
    for method in ("RestartJob", "ExpediteJob"):
        assert code_and_details(await rejection(stage.client(method, shard=HERE, id="job")))[0] == "FAILED_PRECONDITION"
    await lease_tasks(stage.client)
    lease = stage.client("LeaseTask", shard=HERE, id="job", worker_id="w")
    assert code_and_details(await rejection(lease))[0] == "FAILED_PRECONDITION"


async def test_a_taken_id_already_exists(stage: Stage) -> None:
    await put(stage.client)
    code, text = code_and_details(await rejection(put(stage.client)))
    assert (code, "job" in text) == ("ALREADY_EXISTS", True)


@pytest.mark.parametrize(
    "fields",
    [
        {"priority": 100},
        {"task_group": ""},
        {"task_group": "g" * 65},
        {"metadata": {f"k{at}": "v" for at in range(17)}},
        {"metadata": {"k" * 64: "v"}},
        {"metadata": {"k": "v" * 65_535}},
        {"limits": [pb.Limit()]},
        {"limits": [pb.Limit(concurrency=pb.ConcurrencyLimit(max_concurrency=1))]},
        {"limits": [pb.Limit(rate_limit=pb.GubernatorRateLimit.FromString(bytes([0x30, 9])))]},
    ],
)
async def test_an_invalid_job_is_rejected(stage: Stage, fields: dict[str, Any]) -> None:
    code, text = code_and_details(await rejection(put(stage.client, **fields)))
    assert (code, bool(text)) == ("INVALID_ARGUMENT", True)


async def test_a_payload_over_the_limit_is_rejected_and_the_largest_accepted(stage: Stage) -> None:
    large = pb.EnqueueRequest(shard=HERE, task_group=GROUP, id="large")
    large.payload.msgpack = bytes(16 << 20)
    assert (await stage.client("Enqueue", large)).id == "large"
    large.id, large.payload.msgpack = "larger", bytes((16 << 20) + 1)
    assert code_and_details(await rejection(stage.client("Enqueue", large)))[0] == "INVALID_ARGUMENT"


async def test_a_payload_is_opaque(stage: Stage) -> None:
    request = pb.EnqueueRequest(shard=HERE, task_group=GROUP, id="job", payload=pb.SerializedBytes(msgpack=PRIVATE))
    await stage.client("Enqueue", request)
    assert (await stage.client("GetJob", shard=HERE, id="job")).payload.msgpack == PRIVATE


async def test_an_outcome_is_required(stage: Stage) -> None:
    await put(stage.client)
    [task] = await lease_tasks(stage.client)
    assert code_and_details(await rejection(end(stage.client, task)))[0] == "INVALID_ARGUMENT"


@pytest.mark.parametrize("worker", ["", "w" * 257])
async def test_a_worker_name_is_required(stage: Stage, worker: str) -> None:
    lease = stage.client("LeaseTasks", worker_id=worker, max_tasks=1, task_group=GROUP)
    assert code_and_details(await rejection(lease))[0] == "INVALID_ARGUMENT"


# -- operators --------------------------------------------------------------------------------------------------------


async def test_cluster_and_node_info_are_returned(stage: Stage) -> None:
    info = await stage.client("GetClusterInfo")
    assert (info.num_shards, info.this_node_id, info.this_grpc_addr) == (3, "node-1", stage.address)
    assert [(o.shard_id, o.grpc_addr, o.range_start) for o in info.shard_owners] == [
        (HERE, stage.address, ""),
        (ALSO_HERE, stage.address, "8000000000000000"),
        (ELSEWHERE, OTHER_NODE[1], "c000000000000000"),
    ]
    assert [member.node_id for member in info.members] == ["node-1", "node-2"]
    node = await stage.client("GetNodeInfo")
    assert [(shard.shard_id, shard.total_jobs) for shard in node.owned_shards] == [(HERE, 7), (ALSO_HERE, 7)]


async def test_a_split_is_requested_and_its_status_read(stage: Stage) -> None:
    assert not (await stage.client("GetSplitStatus", shard_id=HERE)).in_progress
    answer = await stage.client("RequestSplit", shard_id=HERE, split_point="4" + "0" * 15)
    assert (answer.left_child_id, answer.phase) == (NOWHERE, "SplitRequested")
    status = await stage.client("GetSplitStatus", shard_id=HERE)
    assert (status.in_progress, status.initiator_node_id, status.requested_at_ms) == (True, "node-1", NOW)
    bad = stage.client("RequestSplit", shard_id=HERE, split_point="middle")
    assert code_and_details(await rejection(bad))[0] == "INVALID_ARGUMENT"
    unserved = stage.client("RequestSplit", shard_id=ELSEWHERE, split_point="4" + "0" * 15)
    assert code_and_details(await rejection(unserved))[0] == "FAILED_PRECONDITION"
    unknown = stage.client("RequestSplit", shard_id=NOWHERE, split_point="4" + "0" * 15)
    assert code_and_details(await rejection(unknown))[0] == "NOT_FOUND"


async def test_stores_are_flushed_compacted_and_measured(stage: Stage) -> None:
    assert (await stage.client("FlushShard", shard=HERE)).status == "completed"
    assert (await stage.client("CompactShard", shard=HERE)).status == "completed"
    assert stage.node.operations == [("flush", HERE), ("compact", HERE)]
    info = await stage.client("GetShardStorageInfo", shard=HERE)
    assert (info.l0_sst_count, info.sorted_run_count, info.total_sorted_run_size) == (2, 2, 700)
    assert (await stage.client("ForceReleaseShard", shard=HERE)).released
    assert code_and_details(await rejection(stage.client("FlushShard", shard=ELSEWHERE)))[0] == "NOT_FOUND"


async def test_there_is_only_the_default_ring(stage: Stage) -> None:
    answer = await stage.client("ConfigureShard", shard=HERE)
    assert (answer.previous_ring, answer.current_ring) == ("", "")
    code, text = code_and_details(await rejection(stage.client("ConfigureShard", shard=HERE, placement_ring="gpu")))
    assert (code, "gpu" in text) == ("FAILED_PRECONDITION", True)
    assert code_and_details(await rejection(stage.client("ConfigureShard", shard=NOWHERE)))[0] == "NOT_FOUND"


async def test_shards_are_reset_in_development_only(stage: Stage) -> None:
    assert code_and_details(await rejection(stage.client("ResetShards")))[0] == "PERMISSION_DENIED"
    async with open_stage(is_dev=True) as dev:
        assert (await dev.client("ResetShards")).shards_reset == 2


async def test_the_tasks_of_the_process_are_dumped(stage: Stage) -> None:
    profile = await stage.client("CpuProfile", duration_seconds=1, frequency=20)
    assert profile.samples > 0
    lines = profile.profile_data.decode().splitlines()
    assert any("run_forever" in line for line in lines)
    assert all(line.rsplit(" ", 1)[1].isdigit() for line in lines)
    dump = await stage.client("DumpTasks")
    assert dump.task_count > 0
    assert "/silo.v1.Silo/DumpTasks" in dump.dump
    assert "WakeTimer.wait" in dump.dump, "the dump includes what a task awaits"
    code, text = code_and_details(await rejection(stage.client("HeapProfile")))
    assert (code, "PYTHONTRACEMALLOC" in text) == ("FAILED_PRECONDITION", True)
    assert code_and_details(await rejection(stage.client("CpuProfile", duration_seconds=61)))[0] == "INVALID_ARGUMENT"
