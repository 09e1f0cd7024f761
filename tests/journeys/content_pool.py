"""The content index as real processes, and publishers for it in the test's own event loop."""

import asyncio
import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from argosy.base.clock import SystemClock
from argosy.gateway.content.backend_protocol import INCOMPLETE_HEADER
from argosy.ipni.formats import advertisement as adverts
from argosy.ipni.formats import entries, multiaddr
from argosy.ipni.formats.cid import Cid
from argosy.ipni.formats.entries import EntryChunk
from argosy.ipni.formats.head import Announcement, encode_announcement
from argosy.ipni.formats.multihash import of as multihash_of
from argosy.ipni.indexer_client import IndexerClient
from argosy.ipni.model import Peer
from argosy.ipni.publish.backends.memory import MemoryChain
from argosy.ipni.publish.http import publisher_app
from argosy.ipni.publish.publisher import Publisher
from argosy.ipni.web import results
from tests.ipni.indexer.stage import ADDRESS, METADATA, key_of
from tests.ipni.publish.serving import serving

TOKEN = "the-admin-token"
PATIENCE_S = 90.0  # generous: the awaited steps take a second or two on an idle machine
POLL_S = 0.05
CALL_S = 30.0
CHUNK = 20  # multihashes
BATCH = 500  # multihashes per find request

_hosts = count(1)


async def wait_until(condition: Callable[[], Awaitable[bool] | bool], what: str) -> None:
    clock = SystemClock()
    started_at = clock.now()
    while True:
        found = condition()
        if found is True or (not isinstance(found, bool) and await found):
            return
        assert clock.now() - started_at < PATIENCE_S, f"timed out after {PATIENCE_S} s: {what}"
        await clock.sleep(POLL_S)


def own_host() -> str:
    """An unused loopback address, so that a killed process finds its port free on restart."""
    number = next(_hosts)
    return f"127.{1 + os.getpid() % 250}.{1 + os.getpid() // 250 % 250}.{number}"


@dataclass
class Member:
    """One `argosy serve` process with its own address, which it keeps across restarts."""

    name: str
    role: str
    folder: Path
    settings: dict[str, str]
    host: str = field(default_factory=own_host)
    process: "subprocess.Popen[bytes] | None" = None
    url: str = ""
    _log_from: int = 0

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        section = {"indexer": "ipni_http", "assigner": "assigner", "gateway": "node"}[self.role]
        port = self.url.rpartition(":")[2] or "0"
        settings = {
            "node_port": "0",
            **self.settings,
            f"{section}_host": self.host,
            f"{section}_port": port,
            "node_data_dir": str(self.folder / self.name),
            "node_admin_token": TOKEN,
            "log_format": "json",
        }
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("ARGOSY_")}
        ours = {f"ARGOSY_{key.upper()}": value for key, value in settings.items()}
        self._log_from = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as out:
            command = [sys.executable, "-m", "argosy.cli", "serve", "--role", self.role]
            self.process = subprocess.Popen(command, stdout=out, stderr=out, env={**inherited, **ours})

    def kill(self) -> None:
        """Send SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def log_events(self, event: str) -> list[dict[str, Any]]:
        """Events of this name since the last start."""
        lines = self.log.read_bytes()[self._log_from :].splitlines()
        return [
            log_events for line in lines if line.startswith(b"{") and (log_events := json.loads(line))["event"] == event
        ]

    async def wait_up(self) -> None:
        event, key = {
            "indexer": ("indexer up", "find"),
            "assigner": ("assigner up", "url"),
            "gateway": ("node up", "address"),
        }[self.role]

        def is_up() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, f"{self.name} exited:\n{self.log.read_text()[-2000:]}"
            return bool(self.log_events(event) and self.log_events("node up"))

        await wait_until(is_up, f"{self.name} is up")
        place = self.log_events(event)[0][key]
        self.url = place if "://" in place else f"http://{place}"

    def client(self) -> IndexerClient:
        return IndexerClient(self.url, self.url, self.url, token=TOKEN, call_s=CALL_S)


@dataclass(frozen=True)
class Chapter:
    """One advertisement with entries. Chunks are read in reverse, so `early` is stored first and `late` last."""

    ad: Cid
    context: bytes
    multihashes: tuple[bytes, ...]

    @property
    def early(self) -> bytes:
        return self.multihashes[-1]

    @property
    def late(self) -> bytes:
        return self.multihashes[0]


@dataclass
class Author:
    """A publisher and its advertisements, oldest first."""

    name: str
    publisher: Publisher
    peer: Peer
    chapters: list[Chapter] = field(default_factory=list)

    @property
    def id(self) -> str:
        return self.publisher.id

    async def write(self, *, chunks: int = 3) -> Chapter:
        number = len(self.chapters)
        multihashes = [multihash_of(f"{self.name} {number} {each}".encode()) for each in range(chunks * CHUNK)]
        context = f"{self.name} {number}".encode()
        ad = await self.publisher.publish(context, METADATA, multihashes)
        self.chapters.append(Chapter(ad, context, tuple(multihashes)))
        return self.chapters[-1]

    def announce(self) -> Announcement:
        assert self.publisher.head is not None
        return Announcement(self.publisher.head, self.peer)

    async def chunks(self, chapter: Chapter) -> list[Cid]:
        """In reading order."""
        block = await self.publisher.block(chapter.ad)
        assert block is not None
        cid: Cid | None = adverts.decode(chapter.ad, block).entries
        found = []
        while cid is not None:
            found.append(cid)
            data = await self.publisher.block(cid)
            assert data is not None
            chunk = entries.decode_entries(cid, data)
            assert isinstance(chunk, EntryChunk)
            cid = chunk.next
        return found


class BlockGate:
    """Delays responses for certain blocks until they are released."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._held: set[str] = set()
        self._released = asyncio.Event()

    def hold(self, cids: Iterable[Cid]) -> None:
        self._held = {str(cid) for cid in cids}
        self._released = asyncio.Event()

    def release(self) -> None:
        self._held = set()
        self._released.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].rpartition("/")[2] in self._held:
            await self._released.wait()
        await self._app(scope, receive, send)


@dataclass
class PublisherServer:
    """One HTTP server for all publishers."""

    url: str
    holding: BlockGate
    routes: list[Mount]
    authors: list[Author] = field(default_factory=list)

    async def author(self, name: str) -> Author:
        publisher = await Publisher.open(key_of(name), MemoryChain(), addresses=[ADDRESS], chunk_multihashes=CHUNK)
        self.routes.append(Mount(f"/{name}", publisher_app(publisher)))
        peer = Peer(publisher.id, (multiaddr.from_url(f"{self.url}/{name}"),))
        self.authors.append(Author(name, publisher, peer))
        return self.authors[-1]


@asynccontextmanager
async def serve_publishers() -> AsyncIterator[PublisherServer]:
    app = Starlette()
    holding = BlockGate(app)
    async with serving(holding, own_host()) as url:
        routes: list[Any] = app.router.routes
        yield PublisherServer(url, holding, routes)
        holding.release()


# No cache and no early return, so that a multihash missing from a response is missing from the index.
GATEWAY = {
    "content_watch_s": "0.1",
    "content_cache_entries": "0",
    "content_find_s": str(CALL_S),
    "content_patience_min_s": str(CALL_S),
    "content_patience_max_s": str(CALL_S),
}


class ContentClient:
    """Sends requests to gateways and indexers over HTTP."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def find(self, url: str, multihashes: Sequence[bytes]) -> set[bytes] | None:
        """The multihashes found; None without a response."""
        body = json.dumps({"Multihashes": [b64encode(each).decode() for each in multihashes]})
        try:
            async with self._session.post(f"{url}/multihash", data=body) as answer:
                data = await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None
        if answer.status == 404:
            return set()
        assert answer.status == 200, (answer.status, data)
        return {multihash for multihash, found in results.decode_json(data) if found}

    async def is_complete(self, url: str, multihash: bytes) -> bool:
        """Whether every indexer contributed to the gateway's response (GW-1)."""
        async with self._session.get(f"{url}/multihash/{multihash.hex()}") as answer:
            return INCOMPLETE_HEADER not in answer.headers

    async def get(self, url: str) -> Any:
        async with self._session.get(url) as answer:
            assert answer.status == 200, (url, answer.status, await answer.text())
            return await answer.json()

    async def announce(self, url: str, author: Author) -> int:
        """The status; 0 without a response."""
        try:
            async with self._session.put(f"{url}/announce", data=encode_announcement(author.announce())) as answer:
                return answer.status
        except (aiohttp.ClientError, OSError, TimeoutError):
            return 0

    async def metric(self, member: Member, name: str) -> float:
        """The sum over all labels."""
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with self._session.get(f"{member.url}/metrics/", headers=headers) as answer:
            lines = (await answer.text()).splitlines()
        figures = [line.rpartition(" ") for line in lines if not line.startswith("#")]
        return sum(float(value) for label, _, value in figures if label.partition("{")[0] in (name, f"{name}_total"))


@asynccontextmanager
async def open_content_client() -> AsyncIterator[ContentClient]:
    timeout = aiohttp.ClientTimeout(total=CALL_S)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(force_close=True)) as session:
        yield ContentClient(session)


@asynccontextmanager
async def run_members(folder: Path) -> AsyncIterator[Callable[..., Member]]:
    """Yields a function that creates members; all are stopped at the end of the test."""
    async with AsyncExitStack() as closing:

        def create_member(name: str, role: str, **settings: str) -> Member:
            member = Member(name, role, folder, settings)
            closing.callback(member.kill)
            member.start()
            return member

        yield create_member
