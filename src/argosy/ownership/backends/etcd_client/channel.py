"""The way to a cluster: one gRPC channel per endpoint, of which one is in use.

A call goes to the endpoint that answered last. If that one is not connected, the first that connects is taken, so a
dead endpoint costs a moment and no call is ever sent twice: whether a lost call took effect is for the caller to find
out. After a failure the next call goes elsewhere.

Silence is noticed in two ways: a call has a deadline, and a stream without traffic is pinged.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import grpc  # type: ignore[import-untyped, unused-ignore]
from google.protobuf.message import Message

from argosy.base.errors import ArgosyError, Invalid, Unavailable
from argosy.ownership.backends.etcd_client import etcd_pb2 as pb
from argosy.ownership.backends.etcd_client.errors import Remedy, is_refusal, remedy, translate
from argosy.ownership.backends.etcd_client.url import EtcdUrl

R = TypeVar("R", bound=Message)

CALL_DEADLINE_S = 3.0  # well under a session's TTL, so that a keeper can try twice before it must stop
PING_AFTER_S = 6.0  # etcd hangs up on clients that ping more often than every 5 s
PING_TIMEOUT_S = 3.0  # a silent server is therefore noticed within 9 s
REFUSED_S = 1.0  # a cluster never reached yet that refuses for so long is told of, not waited for
REASON_S = 0.5  # for gRPC to say why it cannot connect, which it knows by then
RECONNECT_FIRST_S = 0.1
RECONNECT_CEILING_S = 1.0  # gRPC's own default is two minutes; a node's leases would be gone by then
REPLY_BYTES_MAX = 64 << 20  # the end of one session with 100 000 leases is one reply of about 10 MB

_CHECK = "check that etcd runs there, and that host, port and TLS are what it listens with"

# With this an endpoint cut off from the majority refuses at once, instead of keeping a call or a watch in the dark.
_NEEDS_LEADER = ("hasleader", "true")

_OPTIONS = [
    ("grpc.keepalive_time_ms", int(PING_AFTER_S * 1000)),
    ("grpc.keepalive_timeout_ms", int(PING_TIMEOUT_S * 1000)),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", int(RECONNECT_FIRST_S * 1000)),
    ("grpc.min_reconnect_backoff_ms", int(RECONNECT_FIRST_S * 1000)),
    ("grpc.max_reconnect_backoff_ms", int(RECONNECT_CEILING_S * 1000)),
    ("grpc.max_receive_message_length", REPLY_BYTES_MAX),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),  # the environment is for `app` to read
    ("grpc.use_local_subchannel_pool", 1),  # a store that was closed leaves no connection behind
]


class Channel:
    """Calls and streams to whichever endpoint of a cluster answers."""

    def __init__(self, url: EtcdUrl) -> None:
        """Must be called in a running event loop: gRPC binds itself to it."""
        self.url = url
        self.is_closed = False
        self._endpoints = [_endpoint_channel(url, endpoint) for endpoint in url.endpoints]
        self._current = self._endpoints[0]
        self._suspect: Any = None
        self._streams: set[Stream[Any]] = set()
        self._token: str | None = None
        self._log_in_lock = asyncio.Lock()

    async def close(self) -> None:
        self.is_closed = True
        for stream in list(self._streams):  # gRPC finds the calls of a channel by a search that misses young ones
            stream.cancel()
        for endpoint in self._endpoints:
            await endpoint.close()

    async def call(self, method: str, request: Message, reply: type[R], *, deadline_s: float = CALL_DEADLINE_S) -> R:
        """One unary call. A stale token is renewed once; every other failure is raised by remedy."""
        ends_at = asyncio.get_running_loop().time() + deadline_s
        try:
            return await self._call(method, request, reply, ends_at)
        except StaleToken:
            return await self._call(method, request, reply, ends_at)

    async def _call(self, method: str, request: Message, reply: type[R], ends_at: float) -> R:
        metadata = await self._metadata()
        endpoint = await self.connect(_left_s(ends_at))
        start = endpoint.unary_unary(method, type(request).SerializeToString, reply.FromString)
        try:
            return cast(R, await start(request, timeout=_left_s(ends_at), metadata=metadata))
        except grpc.aio.AioRpcError as error:
            raise self.failure(error, endpoint, _name(method)) from error
        except asyncio.CancelledError:
            raise self.cancellation(_name(method)) from None

    async def stream(self, method: str, request: Message, reply: type[R], *, is_endless: bool) -> "Stream[R]":
        """A stream of replies to one request, on the endpoint in use; within the deadline of a call unless endless."""
        ends_at = asyncio.get_running_loop().time() + CALL_DEADLINE_S
        metadata = await self._metadata()
        endpoint = await self.connect(_left_s(ends_at))
        start = endpoint.stream_stream(method, type(request).SerializeToString, reply.FromString)
        call = start(_once(request), timeout=None if is_endless else _left_s(ends_at), metadata=metadata)
        stream = Stream(self, endpoint, call, reply, _name(method))
        self._streams.add(stream)
        return stream

    def forget(self, stream: "Stream[Any]") -> None:
        self._streams.discard(stream)

    async def connect(self, timeout_s: float) -> Any:
        """The endpoint in use if it is connected, else the first that connects."""
        if (endpoint := await self._connected(timeout_s)) is not None:
            return endpoint
        raise self._unreached(timeout_s)

    async def connect_first(self, timeout_s: float) -> Any:
        """The same for a cluster that was never reached: where nothing listens, the wait ends early.

        Once it was reached a refusal is most likely a restart, so later calls wait as long as they have time.
        """
        soon_s = min(REFUSED_S, timeout_s)
        if (endpoint := await self._connected(soon_s)) is not None:
            return endpoint
        if await self._is_refused():
            raise Unavailable(f"etcd at {self.url} refuses the connection: {_CHECK}")
        if (endpoint := await self._connected(timeout_s - soon_s)) is not None:
            return endpoint
        raise self._unreached(timeout_s)

    async def _connected(self, timeout_s: float) -> Any | None:
        if self.is_closed:
            raise Unavailable(f"the connection to {self.url} has been closed: open a new one")
        if self._current.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY:
            return self._current
        # A suspect looks connected for as long as its pings are not missed, and would win every race.
        racers = [e for e in self._endpoints if e is not self._suspect] or self._endpoints
        self._suspect = None
        races = {asyncio.create_task(endpoint.channel_ready()): endpoint for endpoint in racers}
        try:
            done, _ = await asyncio.wait(races, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for race in races:
                race.cancel()
        for race in done:
            if not race.cancelled() and race.exception() is None:
                self._current = races[race]
                return self._current
        return None

    def _unreached(self, timeout_s: float) -> Unavailable:
        return Unavailable(f"no endpoint of {self.url} could be reached within {timeout_s:.1f} s: {_CHECK}")

    async def _is_refused(self) -> bool:
        """Whether nothing listens at any endpoint. One that is silent, or slow to shake hands, may still answer."""
        return all(await asyncio.gather(*(_refuses(endpoint) for endpoint in self._endpoints)))

    def failure(self, error: grpc.aio.AioRpcError, endpoint: Any, what: str) -> ArgosyError:
        """The error to raise; the next call keeps away from an endpoint that cannot serve."""
        match remedy(error):
            case Remedy.LOG_IN if self.url.user:
                self.forget_token()
                return StaleToken(f"{what}: {self.url} no longer knows our token: log in again")
            case Remedy.SWITCH if endpoint is self._current:
                self._suspect = endpoint
                self._current = self._endpoints[(self._endpoints.index(endpoint) + 1) % len(self._endpoints)]
        return translate(error, what, str(self.url))

    def cancellation(self, what: str) -> BaseException:
        """gRPC cancels the calls of a channel that is closed, which must not look as if our task had been cancelled."""
        task = asyncio.current_task()
        if self.is_closed and (task is None or not task.cancelling()):
            return Unavailable(f"{what}: the connection to {self.url} has been closed")
        return asyncio.CancelledError()

    # -- login ------------------------------------------------------------------------------------------------------

    def forget_token(self) -> None:
        """Makes the next call log in anew."""
        self._token = None

    async def log_in(self) -> None:
        """Gets a token if the URL has a login and none is at hand; calls do so by themselves."""
        await self._metadata()

    async def _metadata(self) -> tuple[tuple[str, str], ...]:
        if not self.url.user:
            return (_NEEDS_LEADER,)
        async with self._log_in_lock:  # many calls find the token stale at once: one log-in serves them all
            if self._token is None:
                self._token = await self._new_token()
            return (_NEEDS_LEADER, ("token", self._token))

    async def _new_token(self) -> str:
        request = pb.AuthenticateRequest(name=self.url.user, password=self.url.password)
        endpoint = await self.connect(CALL_DEADLINE_S)
        method = "/etcdserverpb.Auth/Authenticate"
        start = endpoint.unary_unary(
            method, pb.AuthenticateRequest.SerializeToString, pb.AuthenticateResponse.FromString
        )
        try:
            return str((await start(request, timeout=CALL_DEADLINE_S)).token)
        except grpc.aio.AioRpcError as error:
            raise self.failure(error, endpoint, _name(method)) from error


class Stream(Generic[R]):
    """One stream on one endpoint; what goes wrong is raised by remedy."""

    def __init__(self, channel: Channel, endpoint: Any, call: Any, reply: type[R], what: str) -> None:
        self._channel = channel
        self._endpoint = endpoint
        self._call = call
        self._reply = reply
        self._what = what

    async def read(self) -> R:
        """The next reply; a stream that ended without one is a failure."""
        try:
            answer = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise self._channel.failure(error, self._endpoint, self._what) from error
        except asyncio.CancelledError:
            raise self._channel.cancellation(self._what) from None
        if not isinstance(answer, self._reply):  # grpc.aio.EOF
            raise Unavailable(f"{self._what}: {self._channel.url} ended the stream")
        return answer

    def cancel(self) -> None:
        """Ends the stream; whoever opened it does so in any case."""
        self._call.cancel()
        self._channel.forget(self)


class StaleToken(Unavailable):
    """The login has run out or the server has forgotten it; the token is gone, so the next call logs in."""


async def _refuses(endpoint: Any) -> bool:
    """gRPC tells only a call why there is no connection. It is not sent then; if it is after all, it only reads."""
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

    gRPC is given this and not told to write, because its `write` waits for ever when the call is cancelled too early.
    """
    yield request
    await asyncio.Event().wait()  # until the call is over


def _left_s(ends_at: float) -> float:
    """What connecting and logging in have left of a call's time; always a little, so that gRPC says what failed."""
    return max(0.1, ends_at - asyncio.get_running_loop().time())


def _name(method: str) -> str:
    """How an error names a call: `/etcdserverpb.KV/Txn` is `etcd txn`."""
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
