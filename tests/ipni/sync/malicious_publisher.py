"""A publisher with scripted answers, byte by byte, that records its requests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from argosy.base.clock import SystemClock

DRIP_S = 0.02

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


def reply(body: bytes = b"", status: int = 200, length: int | None = None, **headers: str) -> Answer:
    """A whole answer; with another `length` it promises more than it sends."""
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines.append(f"content-length: {len(body) if length is None else length}")
    head = "\r\n".join([f"HTTP/1.1 {status} So", *lines, "connection: close", "", ""])

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head.encode() + body)
        await writer.drain()

    return answer


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Closes the connection without an answer."""


async def drip(writer: asyncio.StreamWriter) -> None:
    """A byte now and then, until the client disconnects."""
    writer.write(b"HTTP/1.1 200 So\r\ncontent-length: 1000000\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"x")
        await writer.drain()
        await SystemClock().sleep(DRIP_S)


def trickle(body: bytes, piece_bytes: int) -> Answer:
    """A whole answer, piece by piece with pauses."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 So\r\ncontent-length: {len(body)}\r\n\r\n".encode())
        for at in range(0, len(body), piece_bytes):
            writer.write(body[at : at + piece_bytes])
            await writer.drain()
            await SystemClock().sleep(DRIP_S)

    return answer


async def silence(writer: asyncio.StreamWriter) -> None:
    """Reads the request and never answers."""
    await writer.wait_closed()


def pour(piece: bytes, **headers: str) -> Answer:
    """Sends the same piece endlessly."""
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 So\r\n{lines}transfer-encoding: chunked\r\n\r\n".encode())
        while not writer.is_closing():
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()

    return answer


@dataclass
class MaliciousPublisher:
    """`answers` are by path, each list is consumed except its last element; a path without a list is 404."""

    host: str
    port: int = 0
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def address(self) -> str:
        return f"/ip4/{self.host}/tcp/{self.port}/http"

    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._answer(reader, writer)
                await writer.drain()
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        path = lines[0].split(" ")[1]
        self.requests.append((path, dict(line.lower().split(": ", 1) for line in lines[1:] if line)))
        left = self.answers.get(path, [reply(b"none\n", 404)])
        await (left.pop(0) if len(left) > 1 else left[0])(writer)


@asynccontextmanager
async def malicious_publisher(host: str = "127.0.0.1") -> AsyncIterator[MaliciousPublisher]:
    publisher = MaliciousPublisher(host)
    server = await asyncio.start_server(publisher.handle, host, 0)
    publisher.port = server.sockets[0].getsockname()[1]
    try:
        yield publisher
    finally:
        server.close()
        for task in publisher.tasks:
            task.cancel()
        await asyncio.gather(*publisher.tasks, return_exceptions=True)
        await server.wait_closed()
