"""The processes of the bench: indexers as an operator would start them, and the publishers they read from."""

import asyncio
import json
import os
import shutil
import signal
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from argosy.base.errors import Unavailable
from argosy.bench.fleet.members import TOKEN, UP_S_MAX, Member, until
from argosy.bench.ipni.chains import Shape
from argosy.bench.machine import cpu_s
from argosy.ipni.formats import cid as cids
from argosy.ipni.formats.head import Announcement, encode_announcement
from argosy.ipni.formats.multiaddr import from_url
from argosy.ipni.model import Peer

MADE_S_MAX = 600.0
LOOK_S = 0.02
TAKEN_S_MAX = 1_800.0
LINE_BYTES_MAX = 1 << 20
SAID_MAX = 800  # characters of what a process complained about


@dataclass(frozen=True)
class ChainTold:
    """A chain of the publisher process."""

    publisher: str
    url: str
    ads: tuple[str, ...]


@dataclass(frozen=True)
class Publishers:
    """The process that serves some chains."""

    pid: int
    chains: tuple[ChainTold, ...]

    @property
    def cpu_s(self) -> float:
        return cpu_s(self.pid)


@dataclass
class Indexer:
    """A process of the role `indexer`, with a session to ask it by."""

    member: Member
    url: str
    folder: Path
    session: aiohttp.ClientSession

    @property
    def cpu_s(self) -> float:
        return self.member.cpu_s

    def pin(self, cores: set[int]) -> None:
        """All its threads run on these cores only; those that it starts later inherit it."""
        for task in Path(f"/proc/{self.member.process.pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), cores)

    async def announce(self, chain: ChainTold, ad: str) -> None:
        told = Announcement(cids.parse(ad), Peer(chain.publisher, (from_url(chain.url),)))
        async with self.session.put(f"{self.url}/announce", data=encode_announcement(told)) as answer:
            if answer.status >= 300:
                raise Unavailable(f"an announcement was answered with {answer.status}: {await answer.text()}")

    async def applied(self, chain: ChainTold) -> str:
        """The newest advertisement of the chain that is found in full; empty before the first."""
        async with self.session.get(f"{self.url}/providers/{chain.publisher}") as answer:
            if answer.status != 200:
                return ""
            told = await answer.json()
        return str((told.get("LastAdvertisement") or {}).get("/", ""))

    async def until_applied(self, chain: ChainTold, ad: str) -> None:
        ends_at = time.monotonic() + TAKEN_S_MAX
        while await self.applied(chain) != ad:
            if time.monotonic() > ends_at or not self.member.is_alive:
                raise Unavailable(f"the advertisement {ad} was not taken in: see {self.member.log.name}")
            await asyncio.sleep(LOOK_S)

    async def take(self, chain: ChainTold) -> float:
        """Takes in a whole chain, and tells how long that took."""
        began = time.monotonic()
        await self.announce(chain, chain.ads[-1])
        await self.until_applied(chain, chain.ads[-1])
        return time.monotonic() - began

    async def stop(self) -> None:
        """Ends it in order, with everything on disk."""
        await asyncio.to_thread(self.member.end, signal.SIGTERM)

    def disk_bytes(self) -> int:
        return sum(each.stat().st_size for each in self.folder.rglob("*") if each.is_file())


@asynccontextmanager
async def indexer_in(folder: Path, name: str = "indexer", **settings: object) -> AsyncIterator[Indexer]:
    """An indexer on a new folder, which is removed with the block."""
    home = folder / name
    home.mkdir(parents=True)
    told = {
        "node_data_dir": home,
        "node_admin_token": TOKEN,
        "ipni_folder": home / "index",
        "ipni_http_port": 0,
        "ipni_sync_allow_private": "true",
        "ipni_freeze_at_percent": -1,
        **settings,
    }
    member = Member(name, "indexer", home, told)
    try:
        await until(member.is_up, UP_S_MAX, f"{name} is up")
        url = str(next(member.told("indexer up"))["find"])
        async with aiohttp.ClientSession() as session:
            yield Indexer(member, url, home / "index", session)
    finally:
        member.end()
        shutil.rmtree(home, ignore_errors=True)


@asynccontextmanager
async def publishers(codec: str, seed: int, chains: int, shape: Shape) -> AsyncIterator[Publishers]:
    """So many chains, each of this shape and with a seed of its own; made when the block begins."""
    module = f"{__package__}.publisher_program"
    numbers = [str(each) for each in (seed, chains, shape.ads, shape.chunks, shape.chunk)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, codec, *numbers, stdout=PIPE, stderr=PIPE, limit=LINE_BYTES_MAX
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(MADE_S_MAX):
            line = await process.stdout.readline()
        if not line:
            said = (await process.communicate())[1].decode(errors="replace")[-SAID_MAX:]
            raise Unavailable(f"the publishers ended before they served: {said}")
        told = json.loads(line)
        yield Publishers(
            process.pid,
            tuple(
                ChainTold(each["publisher"], f"http://{told['address']}/{number}", tuple(each["ads"]))
                for number, each in enumerate(told["chains"])
            ),
        )
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
