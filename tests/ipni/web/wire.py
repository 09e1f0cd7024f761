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
class Served:
    """The address of an application, and the requests that reached it by ASGI."""

    app: FindFastPath
    state: ServerState = field(default_factory=ServerState)
    by_asgi: list[str] = field(default_factory=list)
    port: int = 0
    heard_bytes: int = 0

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

    async def told(self, packets: Sequence[bytes], *, in_turn: bool = False) -> bytes:
        """Everything the server sends until it closes the connection.

        Each packet is received before the next is sent; with `in_turn` it is also answered.
        """
        async with asyncio.timeout(WITHIN_S):
            reader, writer = await asyncio.open_connection(HOST, self.port)
            told = asyncio.ensure_future(reader.read())
            for packet in packets:
                heard_bytes = self.heard_bytes + len(packet)
                writer.write(packet)
                await until(partial(self._has_heard, heard_bytes, told, in_turn))
            said = await told
            writer.close()
            await writer.wait_closed()
            return said

    def _has_heard(self, heard_bytes: int, told: "asyncio.Future[bytes]", in_turn: bool) -> bool:
        return told.done() or (self.heard_bytes >= heard_bytes and not (in_turn and self.is_busy))


@asynccontextmanager
async def served(app: FindFastPath, *, in_connection: bool, keep_alive_s: int = KEEP_ALIVE_S) -> AsyncIterator[Served]:
    """uvicorn without its main loop, which would take 0.1 s to end."""
    made = Served(app)
    made.state.default_headers = [(b"date", b"today"), (b"server", b"uvicorn")]
    http: Any = partial(FindConnection, app) if in_connection else HttpToolsProtocol
    config = uvicorn.Config(
        made, http=http, log_config=None, access_log=False, lifespan="off", timeout_keep_alive=keep_alive_s
    )
    config.load()

    def connection() -> asyncio.Protocol:
        protocol: HttpToolsProtocol = http(config=config, server_state=made.state, app_state={})
        hear = protocol.data_received

        def data_received(data: bytes) -> None:
            hear(data)
            made.heard_bytes += len(data)

        protocol.data_received = data_received  # type: ignore[method-assign]
        return protocol

    server = await asyncio.get_running_loop().create_server(connection, HOST, 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for each in list(made.state.connections):
            each.shutdown()
        for task in list(made.state.tasks):
            task.cancel()
        await asyncio.gather(*made.state.tasks, return_exceptions=True)
        await server.wait_closed()
