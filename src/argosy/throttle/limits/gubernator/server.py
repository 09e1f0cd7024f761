"""Gubernator's gRPC API, service `pb.gubernator.V1`, over any limiter."""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc  # type: ignore[import-untyped, unused-ignore]
from grpc import StatusCode

from argosy.base.errors import ArgosyError, Invalid, Unavailable
from argosy.base.redact import redact
from argosy.throttle.limits.gubernator import gubernator_pb2 as pb
from argosy.throttle.limits.gubernator.messages import MESSAGE_BYTES_MAX, SERVICE, from_batch, to_answers
from argosy.throttle.limits.model import BATCH_MAX, BATCH_TOO_LARGE
from argosy.throttle.limits.ports import RateLimiter

CALLS_MAX = 1_000  # in progress at once; more are rejected with RESOURCE_EXHAUSTED
STOP_GRACE_S = 2.0  # for calls in progress when the server stops


class LimitsServer:
    """One listening port. `port` is the actual one if 0 was requested."""

    def __init__(self, server: Any, port: int) -> None:
        self._server = server
        self.port = port

    @classmethod
    async def start(
        cls,
        limiter: RateLimiter,
        address: str,
        *,
        advertise_address: str = "",
        credentials: grpc.ServerCredentials | None = None,
    ) -> "LimitsServer":
        """Listens on `host:port`, encrypted if there are credentials."""
        server = grpc.aio.server(
            maximum_concurrent_rpcs=CALLS_MAX,
            # Without SO_REUSEPORT off, gRPC lets a second server listen on the same port and takes half of its calls.
            options=[("grpc.max_receive_message_length", MESSAGE_BYTES_MAX), ("grpc.so_reuseport", 0)],
        )
        server.add_generic_rpc_handlers((handlers(limiter, advertise_address=advertise_address or address),))
        try:
            bind = server.add_insecure_port if credentials is None else server.add_secure_port
            port = bind(address, *([] if credentials is None else [credentials]))
        except RuntimeError as error:
            raise Unavailable(f"cannot listen on {address}; check that the port is free ({error})") from error
        await server.start()
        return cls(server, port)

    async def stop(self) -> None:
        await self._server.stop(STOP_GRACE_S)


def handlers(limiter: RateLimiter, *, advertise_address: str) -> Any:
    """The service, to add to a server that has others as well."""

    async def get_rate_limits(batch: pb.GetRateLimitsReq, context: Any) -> pb.GetRateLimitsResp:
        if len(batch.requests) > BATCH_MAX:
            await context.abort(StatusCode.OUT_OF_RANGE, BATCH_TOO_LARGE)
        try:
            responses = await limiter.check(from_batch(batch))
        except ArgosyError as error:
            await context.abort(_code(error), redact(str(error)))
        return to_answers(responses)

    async def health_check(_: pb.HealthCheckReq, __: Any) -> pb.HealthCheckResp:
        status, message = "healthy", ""
        try:
            await limiter.ping()
        except Unavailable as error:
            status, message = "unhealthy", redact(str(error))
        return pb.HealthCheckResp(status=status, message=message, peer_count=1, advertise_address=advertise_address)

    async def live_check(_: pb.LiveCheckReq, __: Any) -> pb.LiveCheckResp:
        return pb.LiveCheckResp()

    return grpc.method_handlers_generic_handler(
        SERVICE,
        {
            "GetRateLimits": _method(get_rate_limits, pb.GetRateLimitsReq),
            "HealthCheck": _method(health_check, pb.HealthCheckReq),
            "LiveCheck": _method(live_check, pb.LiveCheckReq),
        },
    )


def _method(behaviour: Callable[[Any, Any], Awaitable[Any]], request: Any) -> Any:
    return grpc.unary_unary_rpc_method_handler(
        behaviour, request_deserializer=request.FromString, response_serializer=lambda reply: reply.SerializeToString()
    )


def _code(error: ArgosyError) -> StatusCode:
    if isinstance(error, Invalid):
        return StatusCode.INVALID_ARGUMENT
    return StatusCode.UNAVAILABLE if isinstance(error, Unavailable) else StatusCode.INTERNAL
