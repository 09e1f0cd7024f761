"""Shared by the tests of the middleware: a simulated server, real servers, a limited resource."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import uvicorn

from argosy.base.clock import seeded_random
from argosy.throttle import Config, FairThrottle, Outcome
from argosy.throttle.middleware.asgi import App, Message
from tests.throttle.limits.stage import HandClock

HOST = "127.0.0.1"
PATIENCE_S = 60.0
PEER = ("192.0.2.1", 50_000)
STARTED: Message = {"type": "http.response.start", "status": 200, "headers": []}
ENDED: Message = {"type": "http.response.body", "body": b"ok", "more_body": False}


def throttle_of(clock: HandClock | None = None, *, seed: int = 1, **config: Any) -> FairThrottle:
    return FairThrottle(Config(**config), clock=clock or HandClock(), random=seeded_random(seed))


def blame(throttle: FairThrottle, client: str, times: int = 25) -> None:
    """With the default steps, 25 failures at once make a client's probability 1."""
    for _ in range(times):
        throttle.report(client, Outcome.FAILURE)


def blamed(throttle: FairThrottle, client: str) -> float:
    return throttle.explain(client).probability


# -- simulated server-------------------------------------------------------------------------------------------------


def scope_of(path: str = "/", *, kind: str = "http", headers: Mapping[str, str] | None = None, **more: Any) -> Message:
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in (headers or {}).items()]
    return {"type": kind, "method": "GET", "path": path, "headers": raw, "client": PEER, "extensions": {}} | more


@dataclass
class Played:
    """A simulated server for one request that records what was sent."""

    incoming: list[Message] = field(default_factory=list)
    sent: list[Message] = field(default_factory=list)

    async def receive(self) -> Message:
        if self.incoming:
            return self.incoming.pop(0)
        return await asyncio.get_running_loop().create_future()  # no further message arrives

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        return int(next(m["status"] for m in self.sent if m["type"].endswith("response.start")))

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0].get("headers", ())}

    @property
    def error(self) -> dict[str, Any]:
        body = b"".join(message.get("body", b"") for message in self.sent)
        error: dict[str, Any] = json.loads(body)["error"]
        return error


async def play(app: App, scope: Message | None = None, *incoming: Message) -> Played:
    played = Played(list(incoming))
    await app(scope or scope_of(), played.receive, played.send)
    return played


def answering(status: int) -> App:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(STARTED | {"status": status})
        await send(dict(ENDED))

    return app


# -- real servers -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SyncReply:
    status: int
    headers: dict[str, str]
    body: bytes


class Browser:
    """A client of a real server, on one connection as long as the server keeps it open."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._connection = HTTPConnection(HOST, port, timeout=PATIENCE_S)

    def get(self, path: str = "/", *, method: str = "GET", **headers: str) -> SyncReply:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request(method, path, headers=named)
        reply = self._connection.getresponse()
        return SyncReply(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())

    def close(self) -> None:
        self._connection.close()


@contextmanager
def asgi_server(app: Any) -> Iterator[Browser]:
    # Declared as TCP, or asyncio would not turn off Nagle's algorithm, and every answer would take 40 ms.
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind((HOST, 0))
    listener.listen()
    config = uvicorn.Config(app, log_config=None, access_log=False, proxy_headers=False)
    server = uvicorn.Server(config)
    with _running(lambda: server.run(sockets=[listener]), lambda: setattr(server, "should_exit", True)):
        browser = Browser(listener.getsockname()[1])
        try:
            yield browser
        finally:
            browser.close()


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:
        pass


class _Server(WSGIServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that disconnect are part of the tests."""


@contextmanager
def wsgi_server(app: Any) -> Iterator[Browser]:
    server = make_server(HOST, 0, app, server_class=_Server, handler_class=_Quiet)
    with server, _running(lambda: server.serve_forever(poll_interval=0.01), server.shutdown):
        browser = Browser(server.server_port)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def _running(run: Callable[[], None], stop: Callable[[], None]) -> Iterator[None]:
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


# -- a limited resource -----------------------------------------------------------------------------------------------


@dataclass
class Resource:
    """Serves so many requests a second, and no more. The requests set the clock.

    It moves in the server's thread, between two requests, so every run is the same.
    """

    clock: HandClock
    per_s: int
    second: int = -1
    left: int = 0

    def take(self, second: str | None) -> bool:
        if int(second or 0) > self.second:
            self.clock.ms += 1000
            self.second, self.left = int(second or 0), self.per_s
        self.left -= 1
        return self.left >= 0


QUIET = tuple(f"quiet-{n}" for n in range(6))
NOISY = "noisy"


def run_noisy_clients(browser: Browser, seconds: int) -> dict[str, list[int]]:
    """The statuses per client: six send one request a second, one sends twelve, and the capacity is eight."""
    random = seeded_random(7)
    seen: dict[str, list[int]] = {client: [] for client in (*QUIET, NOISY)}
    for second in range(seconds):
        arrivals = [*QUIET, *[NOISY] * 12]
        for _ in range(len(arrivals)):
            client = arrivals.pop(random.randrange(0, len(arrivals)))
            seen[client].append(browser.get(x_client=client, x_second=str(second)).status)
    return seen


def served_part(seen: dict[str, list[int]], clients: Iterable[str], *, last_s: int, per_s: int = 1) -> float:
    statuses = [status for client in clients for status in seen[client][-last_s * per_s :]]
    return statuses.count(200) / len(statuses)
