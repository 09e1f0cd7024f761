"""A fleet of processes on this machine: a gateway, search nodes, and a Valkey each for leases and registry."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp

from argosy.base.backends.servers import Valkey
from argosy.base.errors import Unavailable
from argosy.bench.processes import (
    LOG_CHARACTERS_MAX,
    TOKEN,
    UP_S_MAX,
    ServerProcess,
    Settings,
    wait_until,
    wait_until_seen,
)

NODES = 4
REPOSITORIES_MAX = 10_000  # in one response of the gateway
NODE_BYTES = 2 << 30  # memory for the indexes of one node


class FleetProcesses:
    """A gateway and nodes. Leases and registry have a Valkey each, so that their traffic can be measured separately."""

    def __init__(self, directory: Path, store: Valkey, registry: Valkey, settings: Settings) -> None:
        self.store = store
        self.registry = registry
        self.nodes: list[ServerProcess] = []
        self._directory = directory
        self._settings: dict[str, object] = {
            "ownership_store": store.url,
            "ownership_grace_s": 0,  # the Valkey is new, so no older lease can exist that a grace period would protect
            "registry_url": registry.url,
            "node_admin_token": TOKEN,
            "node_data_dir": directory / "data",
            "fetch_allow_local": "true",
            "search_budget_bytes": NODE_BYTES,
            "gateway_cache_entries": 0,  # a cached response would measure the cache and not the fleet
            "gateway_status_s": 0.05,
            **settings,
        }
        self.gateway = ServerProcess("gateway", "gateway", directory, self._settings)
        self._started = 0

    def start_node(self, **settings: object) -> ServerProcess:
        self._started += 1
        node = ServerProcess(f"node-{self._started}", "search", self._directory, {**self._settings, **settings})
        self.nodes.append(node)
        return node

    async def wait_up(self) -> None:
        """Until all processes serve and all nodes are members: a node that is not one yet receives no handoff."""
        await wait_until(
            lambda: all(each.is_up() for each in (self.gateway, *self.nodes)), UP_S_MAX, "all processes are up"
        )
        async with aiohttp.ClientSession() as session:
            await wait_until_seen(lambda: self._is_ready(session), UP_S_MAX, "the gateway is ready")
            await wait_until_seen(lambda: self._has_members(session), UP_S_MAX, "all nodes are members")

    async def _is_ready(self, session: aiohttp.ClientSession) -> bool:
        async with session.get(f"http://{self.gateway.address}/readyz") as response:
            return response.status == 200

    async def _has_members(self, session: aiohttp.ClientSession) -> bool:
        async with session.get(f"http://{self.gateway.address}/v1/fleet") as response:
            fleet = await response.json() if response.status == 200 else {}
        members = {node["address"] for node in fleet.get("nodes", ()) if node["is_member"]}
        return members >= {node.address for node in self.nodes}

    def run_argosy(self, *words: str) -> None:
        """Run `argosy …` as an operator of this fleet would."""
        environment = {**os.environ, "ARGOSY_REGISTRY_URL": self.registry.url, "ARGOSY_NODE_ADMIN_TOKEN": TOKEN}
        command = [sys.executable, "-m", "argosy.cli", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise Unavailable(f"argosy {' '.join(words[:2])} failed: {done.stderr.strip()[-LOG_CHARACTERS_MAX:]}")

    def import_repositories(self, specs: list[dict[str, object]]) -> None:
        """`argosy repo import`."""
        file = self._directory / "repositories.json"
        file.write_text(json.dumps(specs))
        self.run_argosy("repo", "import", str(file), "--registry", self.registry.url)

    async def repositories(self) -> dict[str, dict[str, Any]]:
        """Status by name, from the gateway; empty while the gateway cannot answer."""
        url = f"http://{self.gateway.address}/v1/repositories?limit={REPOSITORIES_MAX}"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            page = await response.json() if response.status == 200 else {}
        return {each["name"]: each for each in page.get("repositories", ())}

    async def wait_settled(self, count: int, within_s: float) -> dict[str, dict[str, Any]]:
        """Wait until this many repositories have all their holders, on live nodes, each of them ready."""
        found: dict[str, dict[str, Any]] = {}

        async def is_settled() -> bool:
            nonlocal found
            live = {node.address for node in self.nodes if node.is_alive}
            found = await self.repositories()
            return len(found) == count and all(_is_settled(each, live) for each in found.values())

        await wait_until_seen(is_settled, within_s, f"{count} repositories are ready")
        return found

    def repositories_of(self, node: ServerProcess, repositories: Mapping[str, dict[str, Any]]) -> list[str]:
        return [name for name, each in repositories.items() if node.address in ready_at(each)]

    def stop(self) -> None:
        for process in (self.gateway, *self.nodes):
            process.stop()


def ready_at(repository: Mapping[str, Any]) -> set[str]:
    """The addresses of the nodes that serve it. A successor, whose replica number is negative, does not serve yet."""
    holders = repository["holders"]
    return {each["address"] for each in holders if each["state"] == "ready" and each["replica"] >= 0}


def _is_settled(repository: Mapping[str, Any], live: set[str]) -> bool:
    ready = ready_at(repository)
    return len(ready) == 1 + repository["replicas"] == len(repository["holders"]) and ready <= live


@contextmanager
def start_fleet(directory: Path, settings: Settings | None = None, *, nodes: int = NODES) -> Iterator[FleetProcesses]:
    """Start a fleet, without waiting until it is up; its processes and servers end with the block."""
    directory.mkdir(parents=True, exist_ok=True)
    with Valkey() as store, Valkey() as registry:
        # Auctions wait for all members: a node that starts first would else win everything.
        fleet = FleetProcesses(directory, store, registry, {"ownership_members_min": nodes, **(settings or {})})
        try:
            for _ in range(nodes):
                fleet.start_node()
            yield fleet
        finally:
            fleet.stop()
