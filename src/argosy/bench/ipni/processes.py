"""The processes of the benchmark: indexers as an operator starts them, the publishers they read from, and a gateway."""

import asyncio
import json
import os
import shutil
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from argosy.base.errors import Unavailable
from argosy.bench.ipni.chains import ChainShape
from argosy.bench.machine import cpu_s
from argosy.bench.processes import TOKEN, UP_S_MAX, ServerProcess, wait_until
from argosy.ipni.formats import cid as cids
from argosy.ipni.formats.head import Announcement, encode_announcement
from argosy.ipni.formats.multiaddr import from_url
from argosy.ipni.model import Peer

BUILD_S_MAX = 600.0
POLL_S = 0.02
INGEST_S_MAX = 1_800.0
LINE_BYTES_MAX = 1 << 20
ERROR_CHARACTERS_MAX = 800  # of the error output of a process


@dataclass(frozen=True)
class AnnouncedChain:
    """A chain of the publisher process."""

    publisher: str
    url: str
    ads: tuple[str, ...]


@dataclass(frozen=True)
class PublisherProcess:
    """The process that serves some chains."""

    pid: int
    chains: tuple[AnnouncedChain, ...]

    @property
    def cpu_s(self) -> float:
        return cpu_s(self.pid)


@dataclass
class IndexerProcess:
    """A process of the role `indexer`, with an HTTP session."""

    server: ServerProcess
    url: str
    directory: Path
    session: aiohttp.ClientSession

    @property
    def cpu_s(self) -> float:
        return self.server.cpu_s

    def pin(self, cores: set[int]) -> None:
        """Restrict all its threads to these cores; threads that it starts later inherit that."""
        for task in Path(f"/proc/{self.server.process.pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), cores)

    async def announce(self, chain: AnnouncedChain, ad: str) -> None:
        announcement = Announcement(cids.parse(ad), Peer(chain.publisher, (from_url(chain.url),)))
        async with self.session.put(f"{self.url}/announce", data=encode_announcement(announcement)) as response:
            if response.status >= 300:
                raise Unavailable(f"the announcement was rejected with {response.status}: {await response.text()}")

    async def last_applied(self, chain: AnnouncedChain) -> str:
        """The newest advertisement of the chain whose multihashes are all findable; empty before the first."""
        async with self.session.get(f"{self.url}/providers/{chain.publisher}") as response:
            if response.status != 200:
                return ""
            provider = await response.json()
        return str((provider.get("LastAdvertisement") or {}).get("/", ""))

    async def wait_applied(self, chain: AnnouncedChain, ad: str) -> None:
        ends_at = time.monotonic() + INGEST_S_MAX
        while await self.last_applied(chain) != ad:
            if time.monotonic() > ends_at or not self.server.is_alive:
                raise Unavailable(f"advertisement {ad} was not ingested; {self.server.log.name} has the reason")
            await asyncio.sleep(POLL_S)

    async def ingest(self, chain: AnnouncedChain) -> float:
        """Announce a chain and wait until all of it is applied; returns how long that took."""
        started = time.monotonic()
        await self.announce(chain, chain.ads[-1])
        await self.wait_applied(chain, chain.ads[-1])
        return time.monotonic() - started

    async def stop(self) -> None:
        """Stop it in order, with everything flushed to disk."""
        await asyncio.to_thread(self.server.stop, signal.SIGTERM)

    def disk_bytes(self) -> int:
        return sum(each.stat().st_size for each in self.directory.rglob("*") if each.is_file())


@asynccontextmanager
async def start_indexer(directory: Path, name: str = "indexer", **settings: object) -> AsyncIterator[IndexerProcess]:
    """An indexer with a new directory, which is removed when the block ends: several of them would fill a small
    disk."""
    home = directory / name
    home.mkdir(parents=True)
    indexer_settings = {
        "node_data_dir": home,
        "node_admin_token": TOKEN,
        "ipni_dir": home / "index",
        "ipni_http_port": 0,
        "ipni_sync_allow_private": "true",  # the publishers are on loopback
        "ipni_freeze_at_percent": -1,  # a full disk of the machine must not freeze it
        **settings,
    }
    server = ServerProcess(name, "indexer", home, indexer_settings)
    try:
        await wait_until(server.is_up, UP_S_MAX, f"{name} is up")
        url = str(next(server.log_events("indexer up"))["find"])
        async with aiohttp.ClientSession() as session:
            yield IndexerProcess(server, url, home / "index", session)
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


@asynccontextmanager
async def start_publishers(codec: str, seed: int, chains: int, shape: ChainShape) -> AsyncIterator[PublisherProcess]:
    """Chains of this shape, each with a seed of its own; all are built before the block starts."""
    numbers = [str(each) for each in (seed, chains, shape.ads, shape.chunks, shape.chunk)]
    async with _start_program("publishers", codec, *numbers, within_s=BUILD_S_MAX) as (process, line):
        described = json.loads(line)
        yield PublisherProcess(
            process.pid,
            tuple(
                AnnouncedChain(each["publisher"], f"http://{described['address']}/{number}", tuple(each["ads"]))
                for number, each in enumerate(described["chains"])
            ),
        )


@asynccontextmanager
async def start_gateway(urls: Sequence[str]) -> AsyncIterator[tuple[str, int]]:
    """The URL of a gateway over these indexers, and its process id."""
    async with _start_program("gateway", *urls, within_s=UP_S_MAX) as (process, line):
        yield line, process.pid


@asynccontextmanager
async def _start_program(name: str, *arguments: str, within_s: float) -> AsyncIterator[tuple[Process, str]]:
    """A process of `programs.py`, and the line that it prints when it serves."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        f"{__package__}.programs",
        name,
        *arguments,
        stdout=PIPE,
        stderr=PIPE,
        limit=LINE_BYTES_MAX,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(within_s):
            line = (await process.stdout.readline()).decode().strip()
        if not line:
            errors = (await process.communicate())[1].decode(errors="replace")[-ERROR_CHARACTERS_MAX:]
            raise Unavailable(f"the {name} program exited before it served: {errors}")
        yield process, line
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
