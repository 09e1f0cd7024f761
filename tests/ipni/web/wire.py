"""A find API on a real socket, answered in the connection or by ASGI, with raw bytes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from argosy.ipni.web.find_connection import FindConnection
from argosy.ipni.web.find_fast_path import FindFastPath

WITHIN_S = 30
HOST = "127.0.0.1"
KEEP_ALIVE_S = 60


async def until(is_so: Callable[[], bool]) -> None:
    """Runs the loop, in which the server runs too, until the condition holds or the caller's timeout ends."""
    while not is_so():  # noqa: ASYNC110 - the condition is a counter, which notifies no waiter
        await asyncio.sleep(0)


@dataclass
class ServedApp:
    """The address of an application, and the requests that reached it by ASGI."""

    app: FindFastPath
    state: ServerState = field(default_factory=ServerState)
    by_asgi: list[str] = field(default_factory=list)
    port: int = 0
    received_bytes: int = 0

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def is_busy(self) -> bool:
        """Whether some request has no answer yet."""
        cycles = [connection.cycle for connection in self.state.connections]
        return any(each is not None and not each.response_complete for each in cycles)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.by_asgi.append(f"{scope['method']} {scope['path']}")
        await self.app(scope, receive, send)

    async def send_all(self, packets: Sequence[bytes], *, in_turn: bool = False) -> bytes:
        """Everything the server sends until it closes the connection.

        Each packet is received before the next is sent; with `in_turn` it is also answered.
        """
        async with asyncio.timeout(WITHIN_S):
            reader, writer = await asyncio.open_connection(HOST, self.port)
            send_all = asyncio.ensure_future(reader.read())
            for packet in packets:
                received_bytes = self.received_bytes + len(packet)
                writer.write(packet)
                await until(partial(self._has_received, received_bytes, send_all, in_turn))
            output = await send_all
            writer.close()
            await writer.wait_closed()
            return output

    def _has_received(self, received_bytes: int, send_all: "asyncio.Future[bytes]", in_turn: bool) -> bool:
        return send_all.done() or (self.received_bytes >= received_bytes and not (in_turn and self.is_busy))


@asynccontextmanager
async def served(
    app: FindFastPath, *, in_connection: bool, keep_alive_s: int = KEEP_ALIVE_S
) -> AsyncIterator[ServedApp]:
    """uvicorn without its main loop, which would take 0.1 s to end."""
    served_app = ServedApp(app)
    served_app.state.default_headers = [(b"date", b"today"), (b"server", b"uvicorn")]
    http: Any = partial(FindConnection, app) if in_connection else HttpToolsProtocol
    config = uvicorn.Config(
        served_app, http=http, log_config=None, access_log=False, lifespan="off", timeout_keep_alive=keep_alive_s
    )
    config.load()

    def connection() -> asyncio.Protocol:
        protocol: HttpToolsProtocol = http(config=config, server_state=served_app.state, app_state={})
        receive = protocol.data_received

        def data_received(data: bytes) -> None:
            receive(data)
            served_app.received_bytes += len(data)

        protocol.data_received = data_received  # type: ignore[method-assign]
        return protocol

    server = await asyncio.get_running_loop().create_server(connection, HOST, 0)
    served_app.port = server.sockets[0].getsockname()[1]
    try:
        yield served_app
    finally:
        server.close()
        for each in list(served_app.state.connections):
            each.shutdown()
        for task in list(served_app.state.tasks):
            task.cancel()
        await asyncio.gather(*served_app.state.tasks, return_exceptions=True)
        await server.wait_closed()
