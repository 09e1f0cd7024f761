"""Connections to an etcd cluster: one gRPC channel per endpoint, of which one is in use.

A call goes to the endpoint that answered last. If that one is not connected, the first that connects is used, so a dead
endpoint costs a moment. No call is ever sent twice: whether a lost call took effect is for the caller to find out.
After a failure the next call goes to another endpoint.

Silence is detected in two ways: a call has a deadline, and a stream without traffic is pinged.

Errors follow etcd's own clients: gRPC's status code decides, and where one code has several meanings, the text. No
error message contains a request, because requests carry passwords.
"""

import asyncio
from collections.abc import AsyncIterator
from enum import Enum, auto
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import grpc  # type: ignore[import-untyped, unused-ignore]
from google.protobuf.message import Message
from grpc import StatusCode

from argosy.base.errors import ArgosyError, Invalid, NotFound, Unavailable
from argosy.ownership.backends.etcd_client import etcd_pb2 as pb
from argosy.ownership.backends.etcd_client.url import EtcdUrl


class Remedy(Enum):
    """What the channel itself does about a failed call before it raises the error."""

    LOG_IN = auto()  # the token is stale: get a new one and repeat the call, which was rejected without being executed
    SWITCH = auto()  # this endpoint is unreachable or has no leader: the next call goes to another one
    NONE = auto()


_STALE_TOKEN = ("invalid auth token", "revision of auth store is old")
# A full database or a long queue concerns the whole cluster: another endpoint would give the same answer.
_CLUSTER_WIDE = ("database space exceeded", "too many requests")
# gRPC reports a broken connection under several of these codes, depending on the moment at which it breaks.
_UNREACHABLE = (
    StatusCode.UNAVAILABLE,
    StatusCode.DEADLINE_EXCEEDED,
    StatusCode.UNKNOWN,
    StatusCode.INTERNAL,
    StatusCode.CANCELLED,
    StatusCode.ABORTED,
    StatusCode.RESOURCE_EXHAUSTED,
)


def remedy(error: grpc.aio.AioRpcError) -> Remedy:
    text = _text(error)
    if any(sign in text for sign in _STALE_TOKEN):
        return Remedy.LOG_IN
    if error.code() in _UNREACHABLE and not any(sign in text for sign in _CLUSTER_WIDE):
        return Remedy.SWITCH
    return Remedy.NONE


def translate(error: grpc.aio.AioRpcError, what: str, where: str) -> ArgosyError:
    """The error to raise for a failed call `what` to the cluster `where`."""
    # The text first where etcd uses one code for errors with different remedies.
    code, text = error.code(), _text(error)
    if "lease not found" in text:
        return NotFound(f"{what}: the lease has ended")
    if "database space exceeded" in text:
        return Unavailable(f"{what}: database of {where} is full; compact and defragment it, then disarm its alarm")
    if code is StatusCode.DEADLINE_EXCEEDED:
        return Unavailable(f"{what}: {where} timed out; check that it runs, is not overloaded and has a quorum")
    if code in _UNREACHABLE:
        return Unavailable(f"{what}: {where} is unreachable: {text}; check that it runs and is reachable from here")
    if code is StatusCode.FAILED_PRECONDITION and "authentication is not enabled" in text:
        return Invalid(f"{what}: authentication is not enabled on {where}; remove user and password from the URL")
    if "user name is empty" in text:
        return Invalid(f"{what}: {where} requires a login; write etcd://user:password@… in the URL")
    if "authentication failed" in text:
        return Invalid(f"{what}: {where} rejected the login; check user and password")
    if code is StatusCode.PERMISSION_DENIED:
        return Invalid(f"{what}: permission denied by {where}; grant the user's role readwrite on argosy's prefix")
    return Unavailable(f"{what}: {where} failed with {code.name.lower()}: {text}")


def is_refusal(error: grpc.aio.AioRpcError) -> bool:
    """Whether no connection was made because nothing listens at the endpoint."""
    return error.code() is StatusCode.UNAVAILABLE and "connection refused" in _text(error).lower()


def _text(error: grpc.aio.AioRpcError) -> str:
    return str(error.details() or "no details")


R = TypeVar("R", bound=Message)

CALL_DEADLINE_S = 3.0  # well below a session's TTL, so that a node can try twice before it must stop serving
PING_AFTER_S = 6.0  # etcd closes connections of clients that ping more often than every 5 s
PING_TIMEOUT_S = 3.0  # so a silent server is detected within 9 s
REFUSED_S = 1.0  # a cluster that refuses the first connection for this long is an error, and not waited for
REASON_S = 0.5  # for gRPC to report why it cannot connect, which it knows by then
RECONNECT_FIRST_S = 0.1
RECONNECT_CEILING_S = 1.0  # gRPC's default is two minutes; a node's leases would have expired by then
REPLY_BYTES_MAX = 64 << 20  # the end of one session with 100 000 leases is one reply of about 10 MB

_CHECK = "check that etcd runs there, and host, port and TLS in the URL"

# With this an endpoint without a quorum rejects calls and watches at once, instead of keeping them waiting.
_NEEDS_LEADER = ("hasleader", "true")

_OPTIONS = [
    ("grpc.keepalive_time_ms", int(PING_AFTER_S * 1000)),
    ("grpc.keepalive_timeout_ms", int(PING_TIMEOUT_S * 1000)),
    # 0 is no limit: a watch may be quiet for hours, and only pings show that its server is gone.
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", int(RECONNECT_FIRST_S * 1000)),
    ("grpc.min_reconnect_backoff_ms", int(RECONNECT_FIRST_S * 1000)),
    ("grpc.max_reconnect_backoff_ms", int(RECONNECT_CEILING_S * 1000)),
    ("grpc.max_receive_message_length", REPLY_BYTES_MAX),
    # gRPC must not send a call twice: a transaction could take effect twice.
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),  # only `app` reads the environment
    ("grpc.use_local_subchannel_pool", 1),  # else a closed store's connections stay open in a global pool
]


class EtcdChannel:
    """Calls and streams to the endpoint of a cluster that answers."""

    def __init__(self, url: EtcdUrl) -> None:
        """Must be called in a running event loop: gRPC binds the channels to it."""
        self.url = url
        self.is_closed = False
        self._endpoints = [_endpoint_channel(url, endpoint) for endpoint in url.endpoints]
        self._current = self._endpoints[0]
        # The endpoint of the latest failure, left out of the next race.
        self._suspect: Any = None
        self._streams: set[EtcdStream[Any]] = set()
        self._token: str | None = None
        # Without it every call in flight would log in by itself when a token expires.
        self._log_in_lock = asyncio.Lock()

    async def close(self) -> None:
        self.is_closed = True
        for stream in list(self._streams):  # gRPC's own search for the calls of a channel misses new ones
            stream.cancel()
        for endpoint in self._endpoints:
            await endpoint.close()

    async def call(self, method: str, request: Message, reply: type[R], *, deadline_s: float = CALL_DEADLINE_S) -> R:
        """One unary call. A stale token is renewed once; every other failure is raised as an Argosy error."""
        ends_at = asyncio.get_running_loop().time() + deadline_s
        try:
            return await self._call(method, request, reply, ends_at)
        # Once, because the server rejected the call without executing it; a second rejection is an error of the
        # account.
        except StaleToken:
            return await self._call(method, request, reply, ends_at)

    async def _call(self, method: str, request: Message, reply: type[R], ends_at: float) -> R:
        # Login and connection count against the deadline of the call.
        metadata = await self._metadata()
        endpoint = await self.connect(_remaining_s(ends_at))
        start = endpoint.unary_unary(method, type(request).SerializeToString, reply.FromString)
        try:
            return cast(R, await start(request, timeout=_remaining_s(ends_at), metadata=metadata))
        except grpc.aio.AioRpcError as error:
            raise self.failure(error, endpoint, _name(method)) from error
        # Either the caller was cancelled or the channel was closed under it; only the first is a cancellation.
        except asyncio.CancelledError:
            raise self.cancellation(_name(method)) from None

    async def stream(self, method: str, request: Message, reply: type[R], *, is_endless: bool) -> "EtcdStream[R]":
        """A stream of replies to one request, on the endpoint in use; within the deadline of a call unless endless."""
        ends_at = asyncio.get_running_loop().time() + CALL_DEADLINE_S
        metadata = await self._metadata()
        endpoint = await self.connect(_remaining_s(ends_at))
        start = endpoint.stream_stream(method, type(request).SerializeToString, reply.FromString)
        call = start(_once(request), timeout=None if is_endless else _remaining_s(ends_at), metadata=metadata)
        stream = EtcdStream(self, endpoint, call, reply, _name(method))
        self._streams.add(stream)
        return stream

    def remove(self, stream: "EtcdStream[Any]") -> None:
        self._streams.discard(stream)

    async def connect(self, timeout_s: float) -> Any:
        """The endpoint in use if it is connected, else the first that connects."""
        if (endpoint := await self._race_endpoints(timeout_s)) is not None:
            return endpoint
        raise self._unreachable_error(timeout_s)

    async def connect_first(self, timeout_s: float) -> Any:
        """Like `connect`, for the first connection: fails early if nothing listens at any endpoint.

        After that a refused connection is most likely a restart, so later calls wait as long as they have time.
        """
        soon_s = min(REFUSED_S, timeout_s)
        if (endpoint := await self._race_endpoints(soon_s)) is not None:
            return endpoint
        if await self._is_refused():
            raise Unavailable(f"etcd at {self.url} refused the connection; {_CHECK}")
        if (endpoint := await self._race_endpoints(timeout_s - soon_s)) is not None:
            return endpoint
        raise self._unreachable_error(timeout_s)

    async def _race_endpoints(self, timeout_s: float) -> Any | None:
        """The current endpoint if it is connected, else the first to connect; None if none does in time."""
        if self.is_closed:
            raise Unavailable(f"the connection to {self.url} is closed; open a new one")
        if self._current.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY:
            return self._current
        # An endpoint that has just failed still looks connected until a ping is missed, and would win every race.
        racers = [e for e in self._endpoints if e is not self._suspect] or self._endpoints
        self._suspect = None
        # All at once, so that a dead endpoint costs no time as long as another one answers.
        races = {asyncio.create_task(endpoint.channel_ready()): endpoint for endpoint in racers}
        try:
            done, _ = await asyncio.wait(races, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # `channel_ready` of an endpoint that is down never returns.
            for race in races:
                race.cancel()
        for race in done:
            if not race.cancelled() and race.exception() is None:
                self._current = races[race]
                return self._current
        return None

    def _unreachable_error(self, timeout_s: float) -> Unavailable:
        return Unavailable(f"no endpoint of {self.url} is reachable (waited {timeout_s:.1f} s); {_CHECK}")

    async def _is_refused(self) -> bool:
        """Whether nothing listens at any endpoint. An endpoint that is silent or slow may still answer."""
        return all(await asyncio.gather(*(_refuses(endpoint) for endpoint in self._endpoints)))

    def failure(self, error: grpc.aio.AioRpcError, endpoint: Any, what: str) -> ArgosyError:
        """The error to raise. The next call avoids an endpoint that cannot serve."""
        match remedy(error):
            case Remedy.LOG_IN if self.url.user:
                self.invalidate_token()
                return StaleToken(f"{what}: {self.url} no longer accepts the token; log in again")
            case Remedy.SWITCH if endpoint is self._current:
                self._suspect = endpoint
                self._current = self._endpoints[(self._endpoints.index(endpoint) + 1) % len(self._endpoints)]
        return translate(error, what, str(self.url))

    def cancellation(self, what: str) -> BaseException:
        """gRPC cancels the calls of a channel that is closed; that must not look like a cancellation of the task."""
        task = asyncio.current_task()
        if self.is_closed and (task is None or not task.cancelling()):
            return Unavailable(f"{what}: the connection to {self.url} is closed")
        return asyncio.CancelledError()

    # -- login ------------------------------------------------------------------------------------------------------

    def invalidate_token(self) -> None:
        """Makes the next call log in again."""
        self._token = None

    async def log_in(self) -> None:
        """Gets a token if the URL has a login and there is none yet. Calls do the same."""
        await self._metadata()

    async def _metadata(self) -> tuple[tuple[str, str], ...]:
        if not self.url.user:
            return (_NEEDS_LEADER,)
        async with self._log_in_lock:  # one login for all calls that find the token stale
            if self._token is None:
                self._token = await self._new_token()
            return (_NEEDS_LEADER, ("token", self._token))

    async def _new_token(self) -> str:
        request = pb.AuthenticateRequest(name=self.url.user, password=self.url.password)
        endpoint = await self.connect(CALL_DEADLINE_S)
        method = "/etcdserverpb.Auth/Authenticate"
        # Without a token: it is what this call gets.
        start = endpoint.unary_unary(
            method, pb.AuthenticateRequest.SerializeToString, pb.AuthenticateResponse.FromString
        )
        try:
            return str((await start(request, timeout=CALL_DEADLINE_S)).token)
        except grpc.aio.AioRpcError as error:
            raise self.failure(error, endpoint, _name(method)) from error


class EtcdStream(Generic[R]):
    """One stream on one endpoint. Failures are raised as Argosy errors."""

    def __init__(self, channel: EtcdChannel, endpoint: Any, call: Any, reply: type[R], what: str) -> None:
        self._channel = channel
        self._endpoint = endpoint
        self._call = call
        self._reply = reply
        self._what = what

    async def read(self) -> R:
        """The next reply. A stream that ends is a failure."""
        try:
            message = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise self._channel.failure(error, self._endpoint, self._what) from error
        except asyncio.CancelledError:
            raise self._channel.cancellation(self._what) from None
        if not isinstance(message, self._reply):  # grpc.aio.EOF
            raise Unavailable(f"{self._what}: {self._channel.url} ended the stream")
        return message

    def cancel(self) -> None:
        """Ends the stream. Required after every `stream`, whatever happened."""
        self._call.cancel()
        self._channel.remove(self)


class StaleToken(Unavailable):
    """The token has expired or the server restarted. It has been dropped, so the next call logs in."""


async def _refuses(endpoint: Any) -> bool:
    """gRPC reports only to a call why there is no connection. That call is not sent then; if it is, it only reads."""
    if endpoint.get_state() is not grpc.ChannelConnectivity.TRANSIENT_FAILURE:
        return False
    start = endpoint.unary_unary(
        "/etcdserverpb.KV/Range", pb.RangeRequest.SerializeToString, pb.RangeResponse.FromString
    )
    try:
        await start(pb.RangeRequest(key=b"\0"), timeout=REASON_S)
    except grpc.aio.AioRpcError as error:
        return is_refusal(error)
    return False


async def _once(request: Message) -> AsyncIterator[Message]:
    """One request on a stream that stays open.

    Used instead of gRPC's `write`, which waits forever when the call is cancelled too early.
    """
    yield request
    await asyncio.Event().wait()  # until the call ends


def _remaining_s(ends_at: float) -> float:
    """Time left of a call after connecting and logging in; never 0, so that gRPC reports what failed."""
    return max(0.1, ends_at - asyncio.get_running_loop().time())


def _name(method: str) -> str:
    """The name of a call in errors: `/etcdserverpb.KV/Txn` is `etcd txn`."""
    return f"etcd {method.rpartition('/')[2].lower()}"


def _endpoint_channel(url: EtcdUrl, endpoint: str) -> Any:
    if not url.is_tls:
        return grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
    credentials = grpc.ssl_channel_credentials(_pem(url.ca), _pem(url.key), _pem(url.cert))
    return grpc.aio.secure_channel(endpoint, credentials, options=_OPTIONS)


def _pem(path: str) -> bytes | None:
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Invalid(f"cannot read the PEM file {path!r}: {error.strerror}") from error
