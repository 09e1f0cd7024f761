"""Gubernator's gRPC API: the bytes themselves, what a generated foreign client would receive, and failures."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from argosy.base.errors import Conflict, Invalid, Unavailable
from argosy.throttle.limits.backends.memory import MemoryLimiter
from argosy.throttle.limits.gubernator import gubernator_pb2 as pb
from argosy.throttle.limits.gubernator.client import GrpcLimiter
from argosy.throttle.limits.gubernator.messages import from_answers, from_batch, to_batch
from argosy.throttle.limits.gubernator.server import LimitsServer
from argosy.throttle.limits.model import KEY_LENGTH_MAX, NUMBER_MAX, RateLimitRequest
from tests.servers.valkey import free_port
from tests.throttle.limits.stage import HOST, NOON_MS, PATIENCE_S, HandClock, request


class Fickle(MemoryLimiter):
    """A limiter with scripted failures."""

    error: Exception | None = None

    async def check(self, requests: Any) -> Any:
        if self.error is not None:
            raise self.error
        return await super().check(requests)

    async def ping(self) -> None:
        if self.error is not None:
            raise self.error


@pytest.fixture
def limiter(clock: HandClock) -> Fickle:
    return Fickle(clock=clock)


@pytest.fixture
async def server(limiter: Fickle) -> AsyncIterator[LimitsServer]:
    started = await LimitsServer.start(limiter, f"{HOST}:0", advertise_address="here:1051")
    yield started
    await started.stop()


@pytest.fixture
async def client(server: LimitsServer) -> AsyncIterator[GrpcLimiter]:
    opened = GrpcLimiter(f"{HOST}:{server.port}", call_timeout_s=PATIENCE_S)
    yield opened
    await opened.close()


async def call(server: LimitsServer, method: str, message: bytes) -> bytes:
    """One call in plain bytes, as any other client would send them."""
    async with grpc.aio.insecure_channel(f"{HOST}:{server.port}") as channel:
        return bytes(await channel.unary_unary(f"/pb.gubernator.V1/{method}")(message, timeout=PATIENCE_S))


def test_the_bytes_of_a_request_are_those_of_gubernators_field_numbers() -> None:
    sent = RateLimitRequest("n", "k", 1, 10, 1000, 1, 44, 20, {"a": "b"}, 5)
    inner = b"\x0a\x01n\x12\x01k\x18\x01\x20\x0a\x28\xe8\x07\x30\x01\x38\x2c\x40\x14\x4a\x06\x0a\x01a\x12\x01b\x50\x05"
    batch = to_batch([sent])
    assert batch.SerializeToString() == b"\x0a" + bytes([len(inner)]) + inner
    assert from_batch(batch) == [sent]


def test_a_request_without_a_time_leaves_the_field_out() -> None:
    assert not to_batch([request(1)]).requests[0].HasField("created_at")


async def test_the_bytes_of_an_answer_are_those_of_gubernators_field_numbers(server: LimitsServer) -> None:
    answer = await call(server, "GetRateLimits", to_batch([request(11)]).SerializeToString())
    reset = (NOON_MS + 1000).to_bytes(8, "big")
    varint, left = b"", int.from_bytes(reset, "big")
    while left:
        varint, left = varint + bytes([left & 127 | (128 if left > 127 else 0)]), left >> 7
    inner = b"\x08\x01\x10\x0a\x18\x0a\x20" + varint
    assert answer == b"\x0a" + bytes([len(inner)]) + inner


def test_an_unknown_status_is_reported() -> None:
    with pytest.raises(Unavailable, match="unknown status 7"):
        from_answers(pb.GetRateLimitsResp(responses=[pb.RateLimitResp(status=7)]))


async def test_fields_of_a_newer_client_are_passed_over(server: LimitsServer) -> None:
    newer = to_batch([request(1)]).SerializeToString() + b"\xfa\x07\x03new"
    answered = pb.GetRateLimitsResp.FromString(await call(server, "GetRateLimits", newer))
    assert answered.responses[0].remaining == 9


async def test_the_health_of_a_limiter_is_reported(server: LimitsServer, limiter: Fickle, client: GrpcLimiter) -> None:
    health = pb.HealthCheckResp.FromString(await call(server, "HealthCheck", b""))
    assert (health.status, health.message, health.peer_count) == ("healthy", "", 1)
    assert health.advertise_address == "here:1051"
    assert await call(server, "LiveCheck", b"") == b""
    limiter.error = Unavailable("the store is unreachable")
    with pytest.raises(Unavailable, match="is unhealthy: the store is unreachable"):
        await client.ping()
    assert await call(server, "LiveCheck", b"") == b""


async def test_too_many_requests_at_once_are_out_of_range(server: LimitsServer) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call(server, "GetRateLimits", to_batch([request(1)] * 1001).SerializeToString())
    assert raised.value.code() is grpc.StatusCode.OUT_OF_RANGE
    assert raised.value.details() == "Requests.RateLimits list too large; max size is '1000'"


async def test_the_longest_batch_fits(client: GrpcLimiter) -> None:
    most = NUMBER_MAX
    longest = request(-most, -most, -most, key="k" * (KEY_LENGTH_MAX - 2), burst=-most, created_at=-most)
    assert len(await client.check([longest] * 1000)) == 1000


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (Unavailable("redis://user:hidden@host is away"), grpc.StatusCode.UNAVAILABLE, Unavailable),
        (Invalid("the batch is wrong"), grpc.StatusCode.INVALID_ARGUMENT, Invalid),
        (Conflict("who would have thought"), grpc.StatusCode.INTERNAL, Unavailable),
    ],
)
async def test_a_failure_is_reported_by_its_code(
    server: LimitsServer, client: GrpcLimiter, limiter: Fickle, error: Exception, code: Any, kind: type[Exception]
) -> None:
    limiter.error = error
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call(server, "GetRateLimits", b"")
    assert raised.value.code() is code
    assert "hidden" not in str(raised.value.details())
    with pytest.raises(kind):
        await client.check([request(1)])


async def test_a_number_of_more_than_64_bits_does_not_fit_the_wire(client: GrpcLimiter) -> None:
    with pytest.raises(Invalid, match="number out of range"):
        await client.check([request(2**63)])


async def test_a_server_of_another_kind_is_unavailable() -> None:
    """A server that does not answer a request: a proxy, or another service at this address."""

    async def empty(_: bytes, __: Any) -> bytes:
        return b""

    other = grpc.aio.server()
    method = grpc.unary_unary_rpc_method_handler(empty)
    other.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("pb.gubernator.V1", {"GetRateLimits": method}),)
    )
    port = other.add_insecure_port(f"{HOST}:0")
    await other.start()
    client = GrpcLimiter(f"{HOST}:{port}", call_timeout_s=PATIENCE_S)
    with pytest.raises(Unavailable, match="returned 0 responses to 1 requests"):
        await client.check([request(1)])
    with pytest.raises(Unavailable, match="unimplemented"):
        await client.ping()
    await client.close()
    await other.stop(None)


async def test_an_address_without_a_listener_is_unavailable() -> None:
    client = GrpcLimiter(f"{HOST}:{free_port()}", call_timeout_s=PATIENCE_S)
    with pytest.raises(Unavailable, match=r"returned unavailable: .*; the hits may or may not have been counted"):
        await client.check([request(1)])
    await client.close()


async def test_closing_ends_a_call_under_way(clock: HandClock) -> None:
    waiting = asyncio.Event()

    class Slow(MemoryLimiter):
        async def check(self, _: Any) -> Any:
            waiting.set()
            await asyncio.Event().wait()

    server = await LimitsServer.start(Slow(clock=clock), f"{HOST}:0")
    client = GrpcLimiter(f"{HOST}:{server.port}", call_timeout_s=PATIENCE_S)
    pending = asyncio.create_task(client.check([request(1)]))
    await asyncio.wait_for(waiting.wait(), PATIENCE_S)
    await client.close()
    with pytest.raises(Unavailable):
        await pending
    with pytest.raises(Unavailable, match="is closed; open a new one"):
        await client.check([request(1)])
    await server.stop()


async def test_a_port_in_use_is_reported(server: LimitsServer, clock: HandClock) -> None:
    with pytest.raises(Unavailable, match="check that the port is free"):
        await LimitsServer.start(MemoryLimiter(clock=clock), f"{HOST}:{server.port}")


@pytest.mark.parametrize("address", ["", "grpc://host:1051"])
async def test_an_invalid_address_is_rejected(address: str) -> None:
    with pytest.raises(Invalid, match="expected host:port"):
        GrpcLimiter(address)
