"""The processes of a fleet: `argosy serve`, each with its log in a folder, and waiting for what they do."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from argosy.base.backends.servers import Valkey
from argosy.base.errors import Unavailable
from argosy.bench.machine import cpu_s

NODES = 4
TOKEN = "bench"  # admin routes are closed without one
UP_S_MAX = 120.0
LOOK_S = 0.05
REPOSITORIES_MAX = 10_000  # that are told at once
LOG_CHARACTERS_MAX = 2_000
NODE_BYTES = 2 << 30  # memory for the indexes of one node

Settings = Mapping[str, object]


@dataclass
class Member:
    """One process."""

    name: str
    role: str
    folder: Path
    settings: Settings
    process: "subprocess.Popen[bytes]" = field(init=False)
    address: str = ""

    def __post_init__(self) -> None:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ARGOSY_")},
            **{f"ARGOSY_{name.upper()}": str(value) for name, value in self.settings.items()},
            "ARGOSY_NODE_ID": self.name,
            "ARGOSY_NODE_PORT": "0",
            "ARGOSY_LOG_FORMAT": "json",
        }
        command = [sys.executable, "-m", "argosy.cli", "serve", "--role", self.role]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def cpu_s(self) -> float:
        return cpu_s(self.process.pid)

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def is_up(self) -> bool:
        """Whether it has said where it listens. One that ended instead is an error, with what it said."""
        if not self.is_alive:
            said = self.log.read_text(errors="replace")[-LOG_CHARACTERS_MAX:]
            raise Unavailable(f"{self.name} ended with {self.process.returncode}; its log says:\n{said}")
        if not self.address:
            self.address = next((str(told["address"]) for told in self.told("node up")), "")
        return bool(self.address)

    def told(self, event: str) -> Iterator[dict[str, Any]]:
        """What its log says of an event, the oldest first."""
        for line in self.log.read_text(errors="replace").splitlines():
            if line.startswith("{") and line.endswith("}") and (told := json.loads(line)).get("event") == event:
                yield told

    def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self.is_alive:
            self.process.send_signal(how)
            self.process.wait()


class Fleet:
    """A front door and nodes. Leases and registry have a Valkey each, so that their traffic can be told apart."""

    def __init__(self, folder: Path, store: Valkey, registry: Valkey, settings: Settings) -> None:
        self.store = store
        self.registry = registry
        self.nodes: list[Member] = []
        self._folder = folder
        self._settings: dict[str, object] = {
            "ownership_store": store.url,
            "ownership_grace_s": 0,  # nobody can hold an older lease in a Valkey that is new
            "registry_url": registry.url,
            "node_admin_token": TOKEN,
            "node_data_dir": folder / "data",
            "fetch_allow_local": "true",
            "search_budget_bytes": NODE_BYTES,
            "gateway_cache_entries": 0,  # every answer is made anew
            "gateway_status_s": 0.05,
            **settings,
        }
        self.door = Member("door", "gateway", folder, self._settings)
        self._started = 0

    def start_node(self, **settings: object) -> Member:
        self._started += 1
        member = Member(f"node-{self._started}", "search", self._folder, {**self._settings, **settings})
        self.nodes.append(member)
        return member

    async def up(self) -> None:
        """Until all are up, and the nodes members: to one that is none yet, nothing is handed on."""
        await until(lambda: all(each.is_up() for each in (self.door, *self.nodes)), UP_S_MAX, "all processes are up")
        async with aiohttp.ClientSession() as session:
            await until_seen(lambda: self._is_ready(session), UP_S_MAX, "the front door is ready")
            await until_seen(lambda: self._has_members(session), UP_S_MAX, "all nodes are members")

    async def _is_ready(self, session: aiohttp.ClientSession) -> bool:
        async with session.get(f"http://{self.door.address}/readyz") as answer:
            return answer.status == 200

    async def _has_members(self, session: aiohttp.ClientSession) -> bool:
        async with session.get(f"http://{self.door.address}/v1/fleet") as answer:
            told = await answer.json() if answer.status == 200 else {}
        members = {node["address"] for node in told.get("nodes", ()) if node["is_member"]}
        return members >= {node.address for node in self.nodes}

    def command(self, *words: str) -> None:
        """Runs `argosy …` as an operator of this fleet would."""
        environment = {**os.environ, "ARGOSY_REGISTRY_URL": self.registry.url, "ARGOSY_NODE_ADMIN_TOKEN": TOKEN}
        command = [sys.executable, "-m", "argosy.cli", *words]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True)
        if ran.returncode:
            raise Unavailable(f"argosy {' '.join(words[:2])} failed: {ran.stderr.strip()[-LOG_CHARACTERS_MAX:]}")

    def wish(self, wishes: list[dict[str, object]]) -> None:
        """`argosy repo import`."""
        listed = self._folder / "wishes.json"
        listed.write_text(json.dumps(wishes))
        self.command("repo", "import", str(listed), "--registry", self.registry.url)

    async def repositories(self) -> dict[str, dict[str, Any]]:
        """By name, as the front door tells them; none while it cannot."""
        url = f"http://{self.door.address}/v1/repositories?limit={REPOSITORIES_MAX}"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            told = await answer.json() if answer.status == 200 else {}
        return {each["name"]: each for each in told.get("repositories", ())}

    async def settled(self, count: int, within_s: float) -> dict[str, dict[str, Any]]:
        """Waits until so many repositories have all their holders, living ones, each of them ready."""
        found: dict[str, dict[str, Any]] = {}

        async def is_settled() -> bool:
            nonlocal found
            living = {node.address for node in self.nodes if node.is_alive}
            found = await self.repositories()
            return len(found) == count and all(_is_settled(each, living) for each in found.values())

        await until_seen(is_settled, within_s, f"{count} repositories are ready")
        return found

    def held_by(self, node: Member, repositories: Mapping[str, dict[str, Any]]) -> list[str]:
        return [name for name, each in repositories.items() if node.address in ready_at(each)]

    def end(self) -> None:
        for member in (self.door, *self.nodes):
            member.end()


def ready_at(repository: Mapping[str, Any]) -> set[str]:
    """The addresses of those that answer for it. A successor is none of them before it has taken over."""
    seats = repository["holders"]
    return {seat["address"] for seat in seats if seat["state"] == "ready" and seat["replica"] >= 0}


def _is_settled(repository: Mapping[str, Any], living: set[str]) -> bool:
    ready = ready_at(repository)
    return len(ready) == 1 + repository["replicas"] == len(repository["holders"]) and ready <= living


@contextmanager
def fleet_in(folder: Path, settings: Settings | None = None, *, nodes: int = NODES) -> Iterator[Fleet]:
    """A fleet that is being started; everything of it ends with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    with Valkey() as store, Valkey() as registry:
        fleet = Fleet(folder, store, registry, {"ownership_members_min": nodes, **(settings or {})})
        try:
            for _ in range(nodes):
                fleet.start_node()
            yield fleet
        finally:
            fleet.end()


async def until(condition: Callable[[], bool], within_s: float, what: str) -> None:
    async def looked() -> bool:
        return condition()

    await until_seen(looked, within_s, what)


async def until_seen(condition: Callable[[], Any], within_s: float, what: str) -> None:
    """Waits for a condition; Unavailable if it does not come about."""
    ends_at = time.monotonic() + within_s
    while not await condition():
        if time.monotonic() > ends_at:
            raise Unavailable(f"given up after {within_s:g} s, waiting until {what}")
        await asyncio.sleep(LOOK_S)
