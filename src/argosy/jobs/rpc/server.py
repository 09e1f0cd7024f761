"""The gRPC server of the broker: services on one port, with health and reflection (`grpc_services.py` lists the calls).

Every call passes `CallInterceptor`: the caller is authenticated, the message decoded, the call made and counted; an
exception becomes a code, a text and trailing metadata. Unexpected exceptions are logged here and answered with INTERNAL
without their text, which may contain data of another tenant. Health and reflection need no token.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import grpc  # type: ignore[import-untyped, unused-ignore]
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # type: ignore[import-untyped, unused-ignore]
from grpc_reflection.v1alpha import reflection, reflection_pb2  # type: ignore[import-untyped, unused-ignore]

from argosy.base import logs
from argosy.base.clock import Clock
from argosy.base.errors import ArgosyError, Unavailable
from argosy.base.metrics import Metrics, counter, histogram
from argosy.jobs.rpc.call_context import Access, CallContext, traceparent
from argosy.jobs.rpc.status import MESSAGE_BYTES_MAX, CallError, Code, call_error

REQUESTS = counter(
    "argosy_jobs_grpc_requests", "gRPC calls by service, method and status", ("service", "method", "status")
)
SECONDS = histogram("argosy_jobs_grpc_seconds", "Duration of gRPC calls", labels=("service", "method"))

CALLS_MAX = 20_000  # in progress, waiting polls included; more are RESOURCE_EXHAUSTED
# Waiting polls last up to a minute: they are cut off, and their workers poll another node.
STOP_GRACE_S = 2.0
# silo's clients ping every 5 s, even when idle. gRPC's default is to tolerate one ping in 5 minutes and to close the
# connection with "too_many_pings" otherwise.
PING_MS_MIN = 1_000
STREAM_WINDOW_BYTES = 2 << 20  # as silo's server has it
REFLECTION_V1 = "grpc.reflection.v1.ServerReflection"

_OPTIONS = [
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", PING_MS_MIN),
    # Never closes a connection because of pings: silo's clients send them on idle connections too.
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.lookahead_bytes", STREAM_WINDOW_BYTES),
    ("grpc.so_reuseport", 0),
]
_log = logs.get("jobs.rpc")


@dataclass(frozen=True)
class Method:
    """A call and the type of its request. A stream answers with several messages."""

    call: Callable[[Any, CallContext], Any]
    request: Any
    is_stream: bool = False


@dataclass(frozen=True)
class RpcService:
    """A service, by its full name, and its methods by name."""

    name: str
    methods: Mapping[str, Method]


class CallInterceptor:
    """Authenticates, decodes and counts every call, and encodes its response or error."""

    def __init__(self, access: Access, metrics: Metrics, clock: Clock) -> None:
        self._access = access
        self._metrics = metrics
        self._clock = clock

    def handlers(self, service: RpcService) -> Any:
        """The service as gRPC's handler. Messages are decoded here and not by gRPC, so that a malformed one is counted
        and gets INVALID_ARGUMENT instead of INTERNAL."""
        handlers = {}
        for name, method in service.methods.items():
            handler = _MethodHandler(self, service.name, name, method)
            handlers[name] = (
                grpc.unary_stream_rpc_method_handler(handler.stream)
                if method.is_stream
                else grpc.unary_unary_rpc_method_handler(handler.answer)
            )
        return grpc.method_handlers_generic_handler(service.name, handlers)

    def context_of(self, context: Any) -> CallContext:
        metadata = dict(context.invocation_metadata() or ())
        return CallContext(
            self._access.admit(metadata.get("authorization")),
            traceparent(metadata.get("traceparent")),
            context.time_remaining(),
        )

    def now(self) -> float:
        return self._clock.now()

    def record_call(self, service: str, method: str, status: str, began: float) -> None:
        self._metrics.inc(REQUESTS, service=service, method=method, status=status)
        self._metrics.observe(SECONDS, self._clock.now() - began, service=service, method=method)


class _MethodHandler:
    """One method of a service behind the interceptor."""

    def __init__(self, interceptor: CallInterceptor, service: str, name: str, method: Method) -> None:
        self._interceptor = interceptor
        self._service = service
        self._name = name
        self._method = method

    async def answer(self, message: bytes, context: Any) -> bytes:
        began = self._interceptor.now()
        try:
            reply = await self._method.call(self._decode(message), self._interceptor.context_of(context))
            encoded: bytes = reply.SerializeToString()
            # Checked here: gRPC would fail the call with an error that does not say what to do.
            if len(encoded) > MESSAGE_BYTES_MAX:
                raise CallError(Code.RESOURCE_EXHAUSTED, f"the response has {len(encoded)} bytes; request less")
        except BaseException as error:
            await self._answer_error(error, context, began)
            raise
        self._interceptor.record_call(self._service, self._name, "OK", began)
        return encoded

    async def stream(self, message: bytes, context: Any) -> AsyncIterator[bytes]:
        began = self._interceptor.now()
        try:
            async for reply in self._method.call(self._decode(message), self._interceptor.context_of(context)):
                yield reply.SerializeToString()
        except BaseException as error:
            await self._answer_error(error, context, began)
            raise
        self._interceptor.record_call(self._service, self._name, "OK", began)

    async def _answer_error(self, error: BaseException, context: Any, began: float) -> None:
        """Counts the call and answers with the error. It is counted first: a client that reads the metrics after its
        response finds the call there. A caller that has cancelled gets no answer."""
        if not isinstance(error, Exception):
            self._interceptor.record_call(self._service, self._name, "CANCELLED", began)
            return
        reply = self._error_for(error)
        self._interceptor.record_call(self._service, self._name, reply.code, began)
        await _abort(context, reply)

    def _decode(self, message: bytes) -> Any:
        try:
            return self._method.request.FromString(message)
        # The caller's fault: gRPC itself would answer INTERNAL.
        except DecodeError as error:
            raise CallError(Code.INVALID_ARGUMENT, f"cannot decode the request of {self._name}: {error}") from error

    def _error_for(self, error: Exception) -> CallError:
        if isinstance(error, CallError):
            return error
        if isinstance(error, ArgosyError):
            return call_error(error)
        # A bug. Its text is logged and not sent: it may contain a payload or an address of another tenant.
        _log.error("call failed", method=self._name, exc_info=error)
        return CallError(Code.INTERNAL, "internal error; see the broker's log")


async def _abort(context: Any, error: CallError) -> None:
    """Ends the call with the error, by raising."""
    await context.abort(grpc.StatusCode[error.code], error.details, error.trailing)


class RpcServer:
    """A running server; `port` is the actual one if 0 was requested."""

    def __init__(self, server: Any, port: int, health_of: Any) -> None:
        self._server = server
        self._health = health_of
        self.port = port

    @classmethod
    async def start(
        cls,
        services: Sequence[RpcService],
        address: str,
        *,
        interceptor: CallInterceptor,
        credentials: grpc.ServerCredentials | None = None,
    ) -> "RpcServer":
        """Listens on `host:port`, encrypted if there are credentials."""
        # Handlers are registered generically, with our own decoding. `so_reuseport` is off: two nodes on one port would
        # share its connections at random, instead of the second failing to start.
        server = grpc.aio.server(maximum_concurrent_rpcs=CALLS_MAX, options=_OPTIONS)
        server.add_generic_rpc_handlers(tuple(interceptor.handlers(service) for service in services))
        health_of = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(health_of, server)
        names = [service.name for service in services]
        _add_reflection(server, [*names, health.SERVICE_NAME, reflection.SERVICE_NAME, REFLECTION_V1])
        try:
            bind = server.add_insecure_port if credentials is None else server.add_secure_port
            port = bind(address, *([] if credentials is None else [credentials]))
        except RuntimeError as error:
            raise Unavailable(f"cannot listen on {address}: {error}; the port may be in use") from error
        # Before the server starts: a health check that comes first must not find the services unknown.
        for name in names:
            await health_of.set(name, health_pb2.HealthCheckResponse.SERVING)
        await server.start()
        return cls(server, port, health_of)

    async def stop(self) -> None:
        """Reports NOT_SERVING to health checks, gives calls `STOP_GRACE_S` to finish, and stops."""
        # First, so that load balancers stop sending calls while those in progress end.
        await self._health.enter_graceful_shutdown()
        await self._server.stop(STOP_GRACE_S)


def _add_reflection(server: Any, names: Sequence[str]) -> None:
    """Both versions: their messages are the same on the wire, and only the service is called differently."""
    reflection.enable_server_reflection(names, server)
    servicer = reflection.aio.ReflectionServicer(names)
    handler = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(REFLECTION_V1, {"ServerReflectionInfo": handler}),)
    )


def server_credentials(*, chain: bytes, key: bytes, client_ca: bytes | None = None) -> grpc.ServerCredentials:
    """From PEM texts. With `client_ca`, clients need a certificate of that authority."""
    return grpc.ssl_server_credentials(
        [(key, chain)], root_certificates=client_ca, require_client_auth=client_ca is not None
    )
