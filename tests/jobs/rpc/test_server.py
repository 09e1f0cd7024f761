"""The server: authentication, malformed messages, and the services besides the broker's."""

import asyncio
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from argosy.base.clock import SystemClock
from argosy.base.errors import ArgosyError, Fenced, Forbidden, Gone, Invalid, NotOwner, Throttled, Unavailable
from argosy.base.metrics import Metrics
from argosy.jobs.rpc.call_context import Access
from argosy.jobs.rpc.server import (
    MESSAGE_BYTES_MAX,
    REQUESTS,
    SECONDS,
    CallInterceptor,
    Method,
    RpcServer,
    RpcService,
    server_credentials,
)
from argosy.jobs.rpc.status import Code, call_error
from argosy.jobs.silo import silo_pb2 as pb
from tests.jobs.rpc.stage import HERE, HOST, PATIENCE_S, Client, Stage, code_and_details, open_stage, rejection
from tests.servers.authority import Authority

TOKEN, KEY = "token-of-all", "key-of-tenant-0"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def test_without_its_token_every_call_is_rejected() -> None:
    async with open_stage(access=Access([TOKEN])) as stage:
        client = stage.client
        assert code_and_details(await rejection(client("GetClusterInfo"))) == (
            "UNAUTHENTICATED",
            "missing authorization header",
        )
        wrong = client.with_metadata(authorization="Bearer nonsense")
        assert code_and_details(await rejection(wrong("GetClusterInfo"))) == ("UNAUTHENTICATED", "invalid auth token")
        right = client.with_metadata(authorization=f"Bearer {TOKEN}")
        assert (await right("GetClusterInfo")).num_shards == 3
        jobs = client.of("argosy.jobs.v1.Jobs")
        assert code_and_details(await rejection(jobs("FindJobs")))[0] == "UNAUTHENTICATED"


async def test_a_tenants_key_grants_its_tenant_only() -> None:
    async with open_stage(access=Access([TOKEN], {KEY: "tenant-0"}), with_tenants=True) as stage:
        own = stage.client.with_metadata(authorization=f"Bearer {KEY}")
        job = {"shard": HERE, "task_group": "g", "id": "job"}
        assert (await own("Enqueue", tenant="tenant-0", **job)).id == "job"
        assert code_and_details(await rejection(own("Enqueue", tenant="customer-123", **job)))[0] == "PERMISSION_DENIED"
        for method, fields in (
            ("LeaseTasks", {"worker_id": "w", "task_group": "g", "max_tasks": 1}),
            ("LeaseTask", {"shard": HERE, "id": "job", "worker_id": "w", "tenant": "tenant-0"}),
            ("ReportOutcome", {"shard": HERE, "task_id": "t"}),
            ("ReportRefreshOutcome", {"shard": HERE, "task_id": "t"}),
            ("Heartbeat", {"shard": HERE, "task_id": "t", "worker_id": "w"}),
            ("GetNodeInfo", {}),
            ("FlushShard", {"shard": HERE}),
            ("CompactShard", {"shard": HERE}),
            ("DumpTasks", {}),
            ("CpuProfile", {}),
            ("ResetShards", {}),
            ("ForceReleaseShard", {"shard": HERE}),
            ("RequestSplit", {"shard_id": HERE}),
        ):
            assert code_and_details(await rejection(own(method, **fields)))[0] == "PERMISSION_DENIED", method
        admin = stage.client.with_metadata(authorization=f"Bearer {TOKEN}")
        await admin("Enqueue", tenant="customer-123", **job)
        query = {"shard": HERE, "sql": "SELECT tenant FROM jobs"}
        assert (await admin("Query", **query)).row_count == 2
        assert (await own("Query", **query)).row_count == 1
        assert code_and_details(await rejection(own("Query", tenant="customer-123", **query)))[0] == "PERMISSION_DENIED"


async def test_health_and_reflection_need_no_token() -> None:
    async with open_stage(access=Access([TOKEN])) as stage:
        check = stage.client.channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        for name in ("", "silo.v1.Silo", "argosy.jobs.v1.Jobs"):
            answer = await check(health_pb2.HealthCheckRequest(service=name), timeout=PATIENCE_S)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        for version in ("v1", "v1alpha"):
            listed = await reflect(stage.client, version, reflection_pb2.ServerReflectionRequest(list_services=""))
            names = {service.name for service in listed.list_services_response.service}
            assert {"silo.v1.Silo", "argosy.jobs.v1.Jobs", "grpc.health.v1.Health"} <= names
            symbol = reflection_pb2.ServerReflectionRequest(file_containing_symbol="silo.v1.Silo")
            reflection = await reflect(stage.client, version, symbol)
            assert b"silo.v1" in reflection.file_descriptor_response.file_descriptor_proto[0]


async def reflect(client: Client, version: str, request: Any) -> Any:
    call = client.channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        reflection_pb2.ServerReflectionRequest.SerializeToString,
        reflection_pb2.ServerReflectionResponse.FromString,
    )(iter([request]), timeout=PATIENCE_S)
    return await call.read()


async def test_fields_of_a_later_protocol_are_ignored(stage: Stage) -> None:
    message = pb.EnqueueRequest(shard=HERE, task_group="g", id="job").SerializeToString()
    later = bytes([0x82, 0x7D, 3]) + b"new" + bytes([0x88, 0x7D, 1])  # numbers 2000 and 2001
    assert (await stage.client("Enqueue", message + later)).id == "job"


@pytest.mark.parametrize("message", [b"\xff\xff\xff", b"\x0a\x05ab", b"\x0a\x02\xff\xfe"])
async def test_a_malformed_message_is_rejected(stage: Stage, message: bytes) -> None:
    code, text = code_and_details(await rejection(stage.client("Enqueue", message)))
    assert (code, "Enqueue" in text) == ("INVALID_ARGUMENT", True)


async def test_a_message_over_the_limit_is_rejected_by_the_server(stage: Stage) -> None:
    over = stage.client("Enqueue", bytes(MESSAGE_BYTES_MAX + 1), timeout=60)
    assert code_and_details(await rejection(over))[0] == "RESOURCE_EXHAUSTED"
    assert (await stage.client("GetClusterInfo")).num_shards == 3


async def test_an_unknown_method_is_unimplemented(stage: Stage) -> None:
    call = stage.client.channel.unary_unary("/silo.v1.Silo/Teleport")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(b"", timeout=PATIENCE_S)
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


async def test_a_job_gets_the_trace_of_its_call(stage: Stage) -> None:
    await stage.client.with_metadata(traceparent=TRACE)("Enqueue", shard=HERE, task_group="g", id="traced")
    await stage.client.with_metadata(traceparent="nonsense")("Enqueue", shard=HERE, task_group="g", id="not")
    shard = stage.node.shards[HERE]
    assert (await shard.get("-", "traced")).job.trace == TRACE
    assert (await shard.get("-", "not")).job.trace == ""


async def test_calls_are_counted_by_status(stage: Stage) -> None:
    await stage.client("GetClusterInfo")
    await rejection(stage.client("GetJob", shard=HERE, id="never"))
    labels = {"service": "silo.v1.Silo"}
    assert stage.metrics.value(REQUESTS, method="GetClusterInfo", status="OK", **labels) == 1
    assert stage.metrics.value(REQUESTS, method="GetJob", status="NOT_FOUND", **labels) == 1
    assert stage.metrics.value(SECONDS, method="GetJob", **labels) == 1


async def test_a_call_ends_at_its_callers_deadline(stage: Stage) -> None:
    poll = stage.client.of("argosy.jobs.v1.Jobs")
    answer = await poll("LeaseTasks", worker_id="w", task_group="g", wait_ms=30_000, timeout=0.5)
    assert not answer.tasks, "the poll ends before the deadline, so that the response arrives"
    profile = stage.client("CpuProfile", duration_seconds=30, timeout=0.2)
    assert code_and_details(await rejection(profile))[0] == "DEADLINE_EXCEEDED"


async def test_an_unexpected_error_is_reported_without_details() -> None:
    async def fail(_: Any, __: Any) -> Any:
        raise RuntimeError("password=hunter2")

    services = [RpcService("test.Service", {"Fail": Method(fail, pb.QueryNull)})]
    metrics = Metrics()
    server = await RpcServer.start(services, f"{HOST}:0", interceptor=CallInterceptor(Access(), metrics, SystemClock()))
    async with grpc.aio.insecure_channel(f"{HOST}:{server.port}") as channel:
        error = await rejection(channel.unary_unary("/test.Service/Fail")(b"", timeout=PATIENCE_S))
    await server.stop()
    assert code_and_details(error) == ("INTERNAL", "internal error; see the broker's log")
    assert metrics.value(REQUESTS, service="test.Service", method="Fail", status="INTERNAL") == 1


async def test_a_port_in_use_is_reported(stage: Stage) -> None:
    with pytest.raises(Unavailable, match="the port may be in use"):
        await RpcServer.start([], stage.address, interceptor=CallInterceptor(Access(), Metrics(), SystemClock()))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Invalid("x"), Code.INVALID_ARGUMENT),
        (Forbidden("x"), Code.PERMISSION_DENIED),
        (Gone("x"), Code.FAILED_PRECONDITION),
        (Throttled("x", retry_after_s=1), Code.RESOURCE_EXHAUSTED),
        (Unavailable("x"), Code.UNAVAILABLE),
        (Fenced("x"), Code.UNAVAILABLE),
        (NotOwner("x"), Code.NOT_FOUND),
        (ArgosyError("x"), Code.INTERNAL),
    ],
)
def test_an_error_has_a_code(error: ArgosyError, code: Code) -> None:
    assert call_error(error).code == code


def test_an_error_text_is_short_and_shows_no_secret() -> None:
    assert "hunter2" not in call_error(Unavailable("redis://user:hunter2@host is away")).details
    assert len(call_error(Invalid("x" * 100_000)).details) == 2_000


# -- TLS --------------------------------------------------------------------------------------------------------------


async def test_over_tls_a_client_verifies_the_server() -> None:
    authority, other_authority = Authority("ours"), Authority("theirs")
    chain, key = authority.issue_certificate()
    options = {"credentials": server_credentials(chain=chain, key=key)}
    trusting = grpc.ssl_channel_credentials(authority.pem)
    async with open_stage(**options, channel=trusting) as stage:
        assert (await stage.client("GetClusterInfo")).num_shards == 3
    async with open_stage(**options, channel=grpc.ssl_channel_credentials(other_authority.pem)) as stage:
        assert code_and_details(await rejection(stage.client("GetClusterInfo", timeout=5)))[0] == "UNAVAILABLE"


async def test_over_mutual_tls_a_client_without_a_certificate_is_rejected() -> None:
    authority = Authority("ours")
    chain, key = authority.issue_certificate()
    own_chain, own_key = authority.issue_certificate()
    options = {"credentials": server_credentials(chain=chain, key=key, client_ca=authority.pem)}
    known = grpc.ssl_channel_credentials(authority.pem, own_key, own_chain)
    async with open_stage(**options, channel=known) as stage:
        assert (await stage.client("GetClusterInfo")).num_shards == 3
    async with open_stage(**options, channel=grpc.ssl_channel_credentials(authority.pem)) as stage:
        assert code_and_details(await rejection(stage.client("GetClusterInfo", timeout=5)))[0] == "UNAVAILABLE"


async def test_many_calls_at_once(stage: Stage) -> None:
    calls = [stage.client("Enqueue", shard=HERE, task_group="g", id=f"job-{at}") for at in range(200)]
    assert {answer.id for answer in await asyncio.gather(*calls)} == {f"job-{at}" for at in range(200)}
