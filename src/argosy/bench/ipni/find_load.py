"""Finds over HTTP: at a steady rate from this event loop; sequentially, or as fast as possible, over plain sockets.

At a steady rate each find has its scheduled instant, from which its latency is counted, so that a slow response does
not delay the finds behind it. Finds as fast as possible are encoded in advance, and of a response only status and
length are read: the client should cost less than the server that it measures.
"""

import asyncio
import selectors
import socket
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from urllib.parse import urlsplit

import aiohttp

from argosy.base.errors import Unavailable

RESPONSE_S_MAX = 30.0
RECEIVE_BYTES = 65_536
UNEVEN_MAX = 0.1  # of the responses: callers are stopped in the middle of a pair of hit and miss
_END = b"\r\n\r\n"
_LENGTH = b"content-length: "


def find_path(multihash: bytes) -> str:
    return f"/multihash/{multihash.hex()}"


@dataclass
class FindResults:
    """Latencies and status codes of some finds."""

    took_s: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        return len(self.took_s) / self.seconds

    def check_hits(self) -> None:
        """Unavailable unless half of them are hits and half misses. Errors are fast, and would look like a good
        rate."""
        hits, misses = self.statuses[200], self.statuses[404]
        if hits + misses < len(self.took_s) or abs(hits - misses) > UNEVEN_MAX * len(self.took_s) + 1:
            raise Unavailable(f"expected half of the finds to be hits, and got status codes {dict(self.statuses)}")


async def run_at_rate(
    session: aiohttp.ClientSession, url: str, multihashes: Sequence[bytes], per_s: float, is_over: asyncio.Event
) -> FindResults:
    """This many finds a second, evenly spaced, until the event is set."""
    results = FindResults()
    tasks: set[asyncio.Task[None]] = set()
    begin = time.monotonic()
    for number, multihash in enumerate(cycle(multihashes)):
        at = begin + number / per_s
        await asyncio.sleep(max(0.0, at - time.monotonic()))
        if is_over.is_set():
            break
        task = asyncio.ensure_future(_find(session, url + find_path(multihash), at, results))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    results.seconds = time.monotonic() - begin
    return results


async def _find(session: aiohttp.ClientSession, url: str, at: float, results: FindResults) -> None:
    try:
        async with session.get(url) as response:
            await response.read()
            status = response.status
    except (aiohttp.ClientError, TimeoutError, OSError):
        status = 0
    results.took_s.append(time.monotonic() - at)
    results.statuses[status] += 1


def encode_finds(url: str, multihashes: Iterable[bytes]) -> list[bytes]:
    """The bytes of each request."""
    host = urlsplit(url).netloc
    return [f"GET {find_path(each)} HTTP/1.1\r\nhost: {host}\r\n\r\n".encode() for each in multihashes]


def run_at_full_speed(url: str, requests: Sequence[bytes], seconds: float, callers: int) -> FindResults:
    """Callers with a persistent connection each send one find after the other."""
    host, port = _host_and_port(url)
    results, remaining = FindResults(), cycle(requests)
    with selectors.DefaultSelector() as selector:
        connections = [_FindConnection(host, port) for _ in range(callers)]
        try:
            begin = time.monotonic()
            for each in connections:
                selector.register(each.socket, selectors.EVENT_READ, each)
                each.send(next(remaining))
            while (now := time.monotonic()) - begin < seconds:
                ready = selector.select(RESPONSE_S_MAX)
                if not ready:
                    raise Unavailable(f"{url} sent no response for {RESPONSE_S_MAX:g} s")
                for key, _ in ready:
                    status = key.data.receive()
                    if status:
                        now = time.monotonic()
                        results.took_s.append(now - key.data.sent_at)
                        results.statuses[status] += 1
                        key.data.send(next(remaining))
            results.seconds = time.monotonic() - begin
        finally:
            for each in connections:
                each.socket.close()
    return results


def run_sequentially(url: str, requests: Sequence[bytes], finds: int) -> FindResults:
    """One caller, each find after the response to the last one."""
    results, started = FindResults(), time.monotonic()
    connection = _FindConnection(*_host_and_port(url))
    try:
        for request in islice(cycle(requests), finds):
            connection.send(request)
            while not (status := connection.receive()):
                pass
            results.took_s.append(time.monotonic() - connection.sent_at)
            results.statuses[status] += 1
    except OSError as error:
        raise Unavailable(f"{url} is unreachable: {error}") from error
    finally:
        connection.socket.close()
    results.seconds = time.monotonic() - started
    return results


def _host_and_port(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname is not None, url
    assert parts.port is not None, url
    return parts.hostname, parts.port


class _FindConnection:
    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), RESPONSE_S_MAX)
        # Without it, Nagle's algorithm would hold a small request back until the last one is acknowledged.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent_at = 0.0
        self._received = b""

    def send(self, request: bytes) -> None:
        self._received = b""
        self.sent_at = time.monotonic()
        self.socket.sendall(request)

    def receive(self) -> int:
        """The status once the response is complete; zero before."""
        data = self.socket.recv(RECEIVE_BYTES)
        if not data:
            raise Unavailable("a persistent connection was closed")
        self._received += data
        head, end, body = self._received.partition(_END)
        if not end:
            return 0
        at = head.find(_LENGTH)
        if at < 0:
            raise Unavailable(f"a response has no content-length: {head[:200]!r}")
        stop = head.find(b"\r", at)
        length = int(head[at + len(_LENGTH) : stop if stop > 0 else len(head)])
        return int(head[9:12]) if len(body) >= length else 0
