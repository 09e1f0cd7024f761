"""A limiter that calls a Gubernator, or one of our own nodes, over gRPC.

A call is sent once, because a retry would count the hits twice.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, TypeVar, cast

import grpc  # type: ignore[import-untyped, unused-ignore]
from google.protobuf.message import Message
from grpc import StatusCode

from argosy.base.errors import ArgosyError, Invalid, Unavailable
from argosy.throttle.limits.gubernator import gubernator_pb2 as pb
from argosy.throttle.limits.gubernator.messages import MESSAGE_BYTES_MAX, SERVICE, from_answers, to_batch
from argosy.throttle.limits.model import RateLimitRequest, RateLimitResponse
from argosy.throttle.limits.table import check_batch

R = TypeVar("R", bound=Message)

CALL_TIMEOUT_S = 2.0
RECONNECT_CEILING_MS = 1_000  # gRPC's default is two minutes, far longer than a restart of the server

_OPTIONS = [
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", RECONNECT_CEILING_MS),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),  # only `app` reads the environment
    ("grpc.use_local_subchannel_pool", 1),  # otherwise a closed client would leave its connection in a global pool
]
_INVALID = (StatusCode.OUT_OF_RANGE, StatusCode.INVALID_ARGUMENT, StatusCode.RESOURCE_EXHAUSTED)


class GrpcLimiter:
    """`host:1051`. Must be created in a running event loop, to which gRPC binds itself."""

    def __init__(
        self,
        address: str,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        call_timeout_s: float = CALL_TIMEOUT_S,
    ) -> None:
        """With `credentials` (`grpc.ssl_channel_credentials(…)`) the connection is encrypted."""
        if not address or "/" in address:
            raise Invalid(f"invalid limiter address {address!r}: expected host:port")
        self._address = address
        self._call_timeout_s = call_timeout_s
        self._is_closed = False
        if credentials is None:
            self._channel: Any = grpc.aio.insecure_channel(address, options=_OPTIONS)
        else:
            self._channel = grpc.aio.secure_channel(address, credentials, options=_OPTIONS)

    async def check(self, requests: Sequence[RateLimitRequest]) -> list[RateLimitResponse]:
        check_batch(requests)
        try:
            batch = to_batch(requests)
        except ValueError as error:  # protobuf raises it for a number of more than 64 bits
            raise Invalid(f"number out of range: {error}") from error
        responses = from_answers(await self._call("GetRateLimits", batch, pb.GetRateLimitsResp))
        # Responses are matched by position, so a missing one would give every later request the answer of another.
        if len(responses) != len(requests):
            raise Unavailable(
                f"limiter {self._address} returned {len(responses)} responses to {len(requests)} requests"
            )
        return responses

    async def ping(self) -> None:
        health = await self._call("HealthCheck", pb.HealthCheckReq(), pb.HealthCheckResp)
        if health.status != "healthy":
            raise Unavailable(f"limiter {self._address} is unhealthy: {health.message}")

    async def close(self) -> None:
        self._is_closed = True
        await self._channel.close()

    async def _call(self, method: str, message: Message, reply: type[R]) -> R:
        if self._is_closed:
            raise Unavailable(f"the connection to {self._address} is closed; open a new one")
        start = self._channel.unary_unary(f"/{SERVICE}/{method}", type(message).SerializeToString, reply.FromString)
        try:
            return cast(R, await start(message, timeout=self._call_timeout_s, wait_for_ready=False))
        except grpc.aio.AioRpcError as error:
            raise self._failure(error) from error
        except asyncio.CancelledError:
            # gRPC cancels the calls of a channel that is closed, which must not look as if our task had been cancelled.
            task = asyncio.current_task()
            if not self._is_closed or (task is not None and task.cancelling()):
                raise
            raise Unavailable(f"the connection to {self._address} was closed during the call") from None

    def _failure(self, error: grpc.aio.AioRpcError) -> ArgosyError:
        code, text = error.code(), error.details() or "no details"
        if code in _INVALID:
            return Invalid(f"limiter {self._address} rejected the batch: {text}")
        return Unavailable(
            f"limiter {self._address} returned {code.name.lower()}: {text}; the hits may or may not have been counted"
        )
