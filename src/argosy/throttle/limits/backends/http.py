"""A limiter that calls a Gubernator, or one of our own nodes, over HTTP.

A call is sent once, because a retry would count its hits twice; `Unavailable` means that they may or may not have been
counted, and the caller decides. A connection is reused only if the server has not closed it meanwhile: a request on a
closed connection could fail after the server has read it.
"""

import asyncio
import select
import socket
import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from threading import local
from urllib.parse import urlsplit

from argosy.base.errors import Invalid, Unavailable
from argosy.base.redact import redact
from argosy.throttle.limits import wire
from argosy.throttle.limits.model import RateLimitRequest, RateLimitResponse
from argosy.throttle.limits.table import check_batch

CALL_TIMEOUT_S = 2.0  # of a whole call, including the wait for a free connection
# One thread each; more callers wait for a free one within their timeout.
CONNECTIONS_MAX = 8
REPLY_BYTES_MAX = 4 << 20  # the response to a full batch takes 0.2 MB

_PORT = 1050  # Gubernator's default


class HttpLimiter:
    """`http://host:1050` or `https://…`. Calls run in threads of its own, one connection each."""

    def __init__(self, url: str, *, call_timeout_s: float = CALL_TIMEOUT_S, tls: ssl.SSLContext | None = None) -> None:
        """`tls` replaces the system's certificates. Nothing is sent before the first call."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise Invalid(
                f"{redact(url)[:100]!r} is not a limiter URL: expected http://host:{_PORT} or https://host:{_PORT}"
            )
        self._host, self._port, self._path = parts.hostname, parts.port or _PORT, parts.path.rstrip("/")
        self._name = f"{parts.scheme}://{self._host}:{self._port}"
        self._tls = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
        self._call_timeout_s = call_timeout_s
        self._threads = ThreadPoolExecutor(CONNECTIONS_MAX, thread_name_prefix="argosy-limits-http")
        self._own = local()
        self._opened: set[HTTPConnection] = set()
        self._is_closed = False

    async def check(self, requests: Sequence[RateLimitRequest]) -> list[RateLimitResponse]:
        check_batch(requests)
        status, body = await self._call("POST", "/v1/GetRateLimits", wire.write_requests(requests))
        if status == 400:
            raise Invalid(f"limiter {self._name} rejected the batch: {wire.read_error(body)}")
        if status != 200:
            raise Unavailable(
                f"limiter {self._name} returned {status}: {wire.read_error(body)}; "
                "the hits may or may not have been counted"
            )
        try:
            responses = wire.read_responses(body)
        except Invalid as error:
            raise Unavailable(f"{self._name} is not a Gubernator: {error}") from error
        if len(responses) != len(requests):
            raise Unavailable(f"limiter {self._name} returned {len(responses)} responses to {len(requests)} requests")
        return responses

    async def ping(self) -> None:
        status, body = await self._call("GET", "/v1/HealthCheck", b"")
        if status != 200 or b'"healthy"' not in body:
            raise Unavailable(f"limiter {self._name} is unhealthy: {wire.read_error(body)}")

    async def close(self) -> None:
        """Ends calls in progress, which then raise Unavailable."""
        self._is_closed = True
        # A thread that waits for a response cannot be cancelled; closing its socket ends the wait.
        for connection in list(self._opened):
            _hang_up(connection)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _call(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        if self._is_closed:
            raise Unavailable(f"the connection to {self._name} is closed; open a new one")
        used: list[HTTPConnection] = []
        exchange = partial(self._exchange, used, method, path, body)
        try:
            async with asyncio.timeout(self._call_timeout_s):
                return await asyncio.get_running_loop().run_in_executor(self._threads, exchange)
        except TimeoutError as error:
            for connection in used:
                _hang_up(connection)  # otherwise its thread would continue to wait
            raise Unavailable(
                f"limiter {self._name} timed out after {self._call_timeout_s} s; "
                "the hits may or may not have been counted"
            ) from error
        except (OSError, HTTPException) as error:
            cause = str(error) or type(error).__name__
            advice = "check that it is running and that the URL is correct"
            raise Unavailable(f"limiter {self._name} unreachable: {cause}; {advice}") from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._is_closed or (task is not None and task.cancelling()):
                raise
            raise Unavailable(f"the connection to {self._name} was closed during the call") from None

    # -- in a thread --------------------------------------------------------------------------------------------------

    def _exchange(self, used: list[HTTPConnection], method: str, path: str, body: bytes) -> tuple[int, bytes]:
        connection = self._connection()
        used.append(connection)
        try:
            connection.request(method, self._path + path, body or None, {"content-type": "application/json"})
            with connection.getresponse() as reply:
                # One byte more than allowed, so that a response that is too large is detected and not cut off.
                read = reply.read(REPLY_BYTES_MAX + 1)
                if len(read) > REPLY_BYTES_MAX:
                    raise HTTPException(f"the response is larger than {REPLY_BYTES_MAX} bytes")
                if reply.length:  # http.client counts the bytes left of the content length, but raises nothing
                    raise HTTPException(f"the response ends {reply.length} bytes too early")
                return reply.status, read
        except BaseException:
            self._discard(connection)
            raise
        finally:
            if self._is_closed:
                self._discard(connection)

    def _connection(self) -> HTTPConnection:
        """This thread's connection, or a new one if the server has closed that."""
        known: HTTPConnection | None = getattr(self._own, "connection", None)
        # `http.client` notices a closed connection only when a request fails, which is too late for a call sent once.
        if known is not None and known.sock is not None:
            if not select.select([known.sock], [], [], 0)[0]:
                return known
            self._discard(known)  # no response is due, so what can be read is the end of the stream
        if self._tls is None:
            connection = HTTPConnection(self._host, self._port, timeout=self._call_timeout_s)
        else:
            connection = HTTPSConnection(self._host, self._port, timeout=self._call_timeout_s, context=self._tls)
        self._own.connection = connection
        self._opened.add(connection)
        return connection

    def _discard(self, connection: HTTPConnection) -> None:
        connection.close()
        self._opened.discard(connection)
        self._own.connection = None


def _hang_up(connection: HTTPConnection) -> None:
    """Wakes the thread that waits for a response, and closes the connection."""
    sock = connection.sock
    if sock is not None:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
    connection.close()
