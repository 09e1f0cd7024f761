"""Finds over HTTP: at a steady rate from this event loop; in turn, or as fast as they go, over plain sockets.

A question of the steady rate has its instant, and what it took is counted from there. Those that go as fast as they can
are written beforehand, and of the answers only status and length are looked at: who asks should cost less than who
answers.
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

ANSWER_S_MAX = 30.0
RECEIVE_BYTES = 65_536
UNEVEN_MAX = 0.1  # of the answers: callers are cut off in the middle of a pair
_END = b"\r\n\r\n"
_LENGTH = b"content-length: "


def find_path(multihash: bytes) -> str:
    return f"/multihash/{multihash.hex()}"


@dataclass
class Asked:
    """What came of some questions."""

    took_s: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        return len(self.took_s) / self.seconds

    def check(self) -> None:
        """Unavailable unless half of them found something and the other half nothing, as they were meant to."""
        hits, misses = self.statuses[200], self.statuses[404]
        if hits + misses < len(self.took_s) or abs(hits - misses) > UNEVEN_MAX * len(self.took_s) + 1:
            raise Unavailable(f"finds, half of which have an answer, were answered with {dict(self.statuses)}")


async def at_rate(
    session: aiohttp.ClientSession, url: str, multihashes: Sequence[bytes], per_s: float, is_over: asyncio.Event
) -> Asked:
    """So many a second, evenly, until somebody says that it is over."""
    asked = Asked()
    asking: set[asyncio.Task[None]] = set()
    begin = time.monotonic()
    for number, multihash in enumerate(cycle(multihashes)):
        at = begin + number / per_s
        await asyncio.sleep(max(0.0, at - time.monotonic()))
        if is_over.is_set():
            break
        task = asyncio.ensure_future(_ask(session, url + find_path(multihash), at, asked))
        asking.add(task)
        task.add_done_callback(asking.discard)
    await asyncio.gather(*asking)
    asked.seconds = time.monotonic() - begin
    return asked


async def _ask(session: aiohttp.ClientSession, url: str, at: float, asked: Asked) -> None:
    try:
        async with session.get(url) as answer:
            await answer.read()
            status = answer.status
    except (aiohttp.ClientError, TimeoutError, OSError):
        status = 0
    asked.took_s.append(time.monotonic() - at)
    asked.statuses[status] += 1


def requests(url: str, multihashes: Iterable[bytes]) -> list[bytes]:
    """Each as it goes over the wire."""
    host = urlsplit(url).netloc
    return [f"GET {find_path(each)} HTTP/1.1\r\nhost: {host}\r\n\r\n".encode() for each in multihashes]


def as_fast_as_they_go(url: str, asks: Sequence[bytes], seconds: float, callers: int) -> Asked:
    """So many callers, each with a connection that stays, ask one question after the other."""
    place = urlsplit(url)
    assert place.hostname is not None, url
    assert place.port is not None, url
    asked, waiting = Asked(), cycle(asks)
    with selectors.DefaultSelector() as selector:
        connections = [_Connection(place.hostname, place.port) for _ in range(callers)]
        try:
            begin = time.monotonic()
            for each in connections:
                selector.register(each.socket, selectors.EVENT_READ, each)
                each.ask(next(waiting))
            while (now := time.monotonic()) - begin < seconds:
                ready = selector.select(ANSWER_S_MAX)
                if not ready:
                    raise Unavailable(f"{url} answered nobody for {ANSWER_S_MAX:g} s")
                for key, _ in ready:
                    status = key.data.receive()
                    if status:
                        now = time.monotonic()
                        asked.took_s.append(now - key.data.asked_at)
                        asked.statuses[status] += 1
                        key.data.ask(next(waiting))
            asked.seconds = time.monotonic() - begin
        finally:
            for each in connections:
                each.socket.close()
    return asked


def ask_in_turn(url: str, asks: Sequence[bytes], finds: int) -> Asked:
    """So many questions by one caller, each when the last one is answered."""
    place = urlsplit(url)
    assert place.hostname is not None, url
    assert place.port is not None, url
    asked, began = Asked(), time.monotonic()
    connection = _Connection(place.hostname, place.port)
    try:
        for request in islice(cycle(asks), finds):
            connection.ask(request)
            while not (status := connection.receive()):
                pass
            asked.took_s.append(time.monotonic() - connection.asked_at)
            asked.statuses[status] += 1
    except OSError as error:
        raise Unavailable(f"{url} does not answer: {error}") from error
    finally:
        connection.socket.close()
    asked.seconds = time.monotonic() - began
    return asked


class _Connection:
    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port), ANSWER_S_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.asked_at = 0.0
        self._held = b""

    def ask(self, request: bytes) -> None:
        self._held = b""
        self.asked_at = time.monotonic()
        self.socket.sendall(request)

    def receive(self) -> int:
        """The status, when the answer is whole; zero before."""
        got = self.socket.recv(RECEIVE_BYTES)
        if not got:
            raise Unavailable("a connection that should have stayed was closed")
        self._held += got
        head, end, body = self._held.partition(_END)
        if not end:
            return 0
        at = head.find(_LENGTH)
        if at < 0:
            raise Unavailable(f"an answer does not tell its length: {head[:200]!r}")
        stop = head.find(b"\r", at)
        length = int(head[at + len(_LENGTH) : stop if stop > 0 else len(head)])
        return int(head[9:12]) if len(body) >= length else 0
