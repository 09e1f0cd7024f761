"""uvicorn's private API is exercised at start; where it has changed, the public one gives the same answers."""

import asyncio
import logging
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest
from starlette.types import ASGIApp

from argosy.app import http_server, uvicorn_checks
from argosy.app.http_server import bind_listener, keeps_signals, listener_address, node_address, serve, serve_app
from argosy.app.roles import indexer as indexer_role
from argosy.app.roles.indexer import find_protocol
from argosy.app.settings import NodeSettings
from argosy.app.uvicorn_checks import can_upgrade
from argosy.base.clock import SystemClock
from argosy.base.metrics import Metrics
from argosy.ipni.formats.bases import base58
from argosy.ipni.web import find_connection as connection
from argosy.ipni.web.app import indexer_app
from argosy.ipni.web.find_connection import FindConnection
from argosy.search.fleet.http import node_routes
from argosy.search.fleet.remote_node import RemoteNodes
from tests.ipni.web.builders import CONTENT, A, result
from tests.ipni.web.double import IndexerDouble
from tests.search.fleet.node_fixture import NodeFixture, search_request, small, without_time

HOST = "127.0.0.1"
WITHIN_S = 30
CHANGED_FINDS = {
    "a module gone": lambda patch: patch.setitem(sys.modules, "argosy.ipni.web.find_connection", None),
    "a name gone": lambda patch: patch.delattr(connection, "STATUS_LINE"),
    "other status lines": lambda patch: patch.setattr(connection, "STATUS_LINE", {404: b"HTTP/1.1 404\r\n"}),
    "an attribute gone": lambda patch: patch.setattr(FindConnection, "flow", property(), raising=False),
    "another signature": lambda patch: patch.setattr(FindConnection, "__init__", lambda self, finds, config: None),
    "a hook not called": lambda patch: patch.delattr(FindConnection, "on_headers_complete"),
    "no answer": lambda patch: (
        patch.setattr(FindConnection, "on_headers_complete", lambda self: None),
        patch.setattr(indexer_role, "CHECK_S_MAX", 0.1),
    ),
}


@pytest.fixture(autouse=True)
def only_warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="argosy")


@pytest.fixture
def indexer() -> IndexerDouble:
    return IndexerDouble(A)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [str(each.msg).split(" reason")[0] for each in caplog.records if each.name.startswith("argosy")]


@asynccontextmanager
async def serving(app: ASGIApp, http: Any) -> AsyncIterator[int]:
    """The port at which the application answers."""
    with bind_listener(HOST, 0, settings="nothing") as listener:
        listener.listen()
        task = asyncio.ensure_future(serve_app(app, listener, http=http))
        try:
            yield listener.getsockname()[1]
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def answers(port: int, requests: Sequence[bytes]) -> list[bytes]:
    """What is answered on one connection, without the date."""
    async with asyncio.timeout(WITHIN_S):
        reader, writer = await asyncio.open_connection(HOST, port)
        signalled = []
        for request in requests:
            writer.write(request)
            signalled.append(await uvicorn_checks._read_answer(reader))
        writer.close()
        await writer.wait_closed()
    return [b"\r\n".join(line for line in each.split(b"\r\n") if not line.startswith(b"date:")) for each in signalled]


async def test_finds_are_answered_in_the_connection_by_the_installed_uvicorn(
    indexer: IndexerDouble, caplog: pytest.LogCaptureFixture
) -> None:
    protocol = await find_protocol(indexer_app(indexer, clock=SystemClock(), metrics=Metrics()))
    assert isinstance(protocol, partial)
    assert protocol.func is FindConnection
    assert warnings(caplog) == []


@pytest.mark.parametrize("change", CHANGED_FINDS.values(), ids=CHANGED_FINDS)
async def test_finds_are_answered_the_same_when_the_private_api_has_changed(
    change: Any, indexer: IndexerDouble, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    indexer.results[CONTENT] = (result(A, b"context"),)
    app = indexer_app(indexer, clock=SystemClock(), metrics=Metrics())
    hit, miss = f"/multihash/{base58(CONTENT)}", "/multihash/1220" + "ab" * 32
    forms = ("accept: application/json\r\n", "accept: application/x-ndjson\r\n", "")
    requests = [f"GET {path} HTTP/1.1\r\nhost: h\r\n{form}\r\n".encode() for path in (hit, miss) for form in forms]
    async with serving(app, await find_protocol(app)) as port:
        before = await answers(port, requests)
        assert warnings(caplog) == []
        change(monkeypatch)
        protocol = await find_protocol(app)
        assert protocol == "auto"
        assert warnings(caplog) == ["uvicorn private api changed, serving finds through asgi"]
        async with serving(app, protocol) as second_port:
            assert await answers(second_port, requests) == before
    assert [each.split(b" ")[1] for each in before] == [b"200"] * 3 + [b"404"] * 3


async def test_connections_are_handed_over_by_the_installed_uvicorn(caplog: pytest.LogCaptureFixture) -> None:
    assert await can_upgrade()
    assert warnings(caplog) == []


def other_constructor(*_: Any, **__: Any) -> Any:
    raise TypeError("missing a required argument: 'connection'")


def name_gone(_: Any) -> Any:
    raise ImportError("cannot import name 'AutoHTTPProtocol'")


CHANGED_UPGRADES = {
    "another signature": lambda patch: patch.setattr(http_server, "partial", lambda *_, **__: other_constructor),
    "a name gone": lambda patch: patch.setattr(uvicorn_checks, "http_protocol", name_gone),
    "nothing handed over": lambda patch: patch.setattr(uvicorn_checks, "http_protocol", lambda _: "auto"),
}


@pytest.mark.parametrize("change", CHANGED_UPGRADES.values(), ids=CHANGED_UPGRADES)
async def test_a_changed_private_api_is_detected_before_a_node_uses_frames(
    change: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    change(monkeypatch)
    assert not await can_upgrade()
    assert warnings(caplog) == ["uvicorn private api changed, serving searches over http"]


@pytest.mark.parametrize("upgrades", [True, False])
async def test_a_node_answers_in_frames_or_over_http_alike(upgrades: bool) -> None:
    fixture, nodes = NodeFixture(small("alpha")), RemoteNodes()
    listener = bind_listener(HOST, 0, settings="nothing")
    listener.listen()
    task = asyncio.ensure_future(serve(node_routes(fixture.node), listener, upgrades=upgrades))
    try:
        this = NodeSettings(address=listener_address(listener))
        node = nodes.at(node_address(this, in_frames=upgrades))
        answer = await node.search(search_request("needle", "alpha"))
        assert len(answer.files) == 20
        assert without_time(answer) == without_time(await fixture.node.search(search_request("needle", "alpha")))
    finally:
        await nodes.close()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        listener.close()


def test_a_node_that_takes_no_frames_is_addressed_by_a_url() -> None:
    assert node_address(NodeSettings(address="n1:6070"), in_frames=True) == "n1:6070"
    assert node_address(NodeSettings(address="n1:6070"), in_frames=False) == "http://n1:6070"
    assert node_address(NodeSettings(address="https://n1"), in_frames=False) == "https://n1"


def test_the_installed_uvicorn_leaves_signals_alone() -> None:
    keeps_signals.cache_clear()
    before = signal.getsignal(signal.SIGTERM)
    assert keeps_signals()
    assert signal.getsignal(signal.SIGTERM) is before


TAKES_SIGNALS = """
import asyncio, logging, os, signal, sys
import uvicorn
from argosy.app.http_server import bind_listener, serve_app

taking = uvicorn.Server.capture_signals

async def serve(self, sockets=None):
    with taking(self):                      # not by the name that is overridden
        await self._serve(sockets)

if sys.argv[1] == "changed":
    uvicorn.Server.serve = serve

async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})

async def main():
    logging.basicConfig(format="%(message)s", stream=sys.stdout)
    signalled = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, signalled.set)
    listener = bind_listener("127.0.0.1", 0, settings="nothing")
    listener.listen()
    serving = asyncio.ensure_future(serve_app(app, listener))
    for _ in range(2):                      # uvicorn has started when it answers: then a signal, then it still answers
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(b"GET / HTTP/1.1\\r\\nhost: h\\r\\nconnection: close\\r\\n\\r\\n")
        print((await reader.read())[-2:].decode())
        writer.close()
        while signal.getsignal(signal.SIGTERM).__module__ != "asyncio.unix_events":
            await asyncio.sleep(0)
        if not signalled.is_set():
            os.kill(os.getpid(), signal.SIGTERM)
            await signalled.wait()
    print("signalled", serving.done())
    serving.cancel()

asyncio.run(main())
"""


@pytest.mark.parametrize(("api", "warned"), [("installed", 0), ("changed", 1)])
def test_a_signal_reaches_the_process_and_not_uvicorn(api: str, warned: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TAKES_SIGNALS, api], capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sum("restoring signal handlers after its start" in line for line in lines) == warned
    assert [line for line in lines if not line.startswith("uvicorn private api")] == ["ok", "ok", "signalled False"]
