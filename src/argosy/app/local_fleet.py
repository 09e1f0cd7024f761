"""A real fleet on one machine: search nodes as processes of their own, a Valkey for their leases, one front door here.

The catalog stays in this user's SQLite registry, which all of them read. The Valkey is new and empty each time, and
known to be: nobody can hold an older lease in it, so nothing waits for one to expire.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from argosy.app.settings import NodeSettings
from argosy.base import logs
from argosy.base.backends import children
from argosy.base.backends.servers import HOST, Valkey, free_ports
from argosy.base.settings import ENV_PREFIX, Loaded
from argosy.ownership.settings import OwnershipSettings
from argosy.search.settings import SearchSettings

NODES_MAX = 64
LEAVE_S = 30.0          # told to stop, a node gets this long to finish

log = logs.get("app")


@dataclass(frozen=True)
class Child:
    name: str
    address: str
    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid


@dataclass(frozen=True)
class LocalFleet:
    loaded: Loaded
    children: Sequence[Child]


@contextmanager
def local_fleet(loaded: Loaded, nodes: int, budget_bytes: int, log_folder: Path) -> Iterator[LocalFleet]:
    """Starts the nodes, each with its part of the memory; yields the settings with which the gateway finds them."""
    with Valkey(ends_with_us=True) as valkey:
        ownership = replace(loaded.get(OwnershipSettings), store=valkey.url, grace_s=0.0)
        log_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        started = [
            _start(loaded, valkey.url, number, nodes, budget_bytes, log_folder) for number in range(1, nodes + 1)
        ]
        log.info("local fleet", nodes=nodes, store=valkey.url, budget_bytes=budget_bytes)
        try:
            yield LocalFleet(loaded.changed({OwnershipSettings: ownership}), started)
        finally:
            _stop([child.process for child in started])


def _start(loaded: Loaded, store: str, number: int, nodes: int, budget_bytes: int, log_folder: Path) -> Child:
    """A node with this process's settings, but for its name, its port and its part of the memory."""
    search = loaded.get(SearchSettings)
    (port,) = free_ports(1)
    changes: dict[str, Any] = {
        "OWNERSHIP_STORE": store,
        "OWNERSHIP_GRACE_S": 0,
        "OWNERSHIP_MEMBERS_MIN": nodes,
        "NODE_ID": f"node-{number}",
        "NODE_PORT": port,
        "NODE_DATA_DIR": _data_dir(loaded),
        "SEARCH_BUDGET_BYTES": budget_bytes // nodes,
        "FETCH_ALLOW_LOCAL": "true",
        "SEARCH_ADVERTISE": str(search.advertise).lower(),
        "SEARCH_ADVERTISE_FOLDER": os.path.join(search.advertise_folder, f"node-{number}"),
        "SEARCH_ANNOUNCE_URLS": ",".join(search.announce_urls),
        "SEARCH_ANNOUNCE_S": search.announce_s,
    }
    environ = {**os.environ, **{f"{ENV_PREFIX}{name}": str(value) for name, value in changes.items()}}
    command = [sys.executable, "-m", "argosy.cli", "serve", "--role", "search"]
    # In a group of its own, so that Ctrl-C reaches this process alone, which then tells the others in order.
    name = f"node-{number}"
    with (log_folder / f"{name}.log").open("ab") as output:
        process = children.start(command, environ=environ, output=output, in_own_session=True)
    return Child(name, f"{HOST}:{port}", process)


def _data_dir(loaded: Loaded) -> str:
    from argosy.app.settings import default_data_dir

    return loaded.get(NodeSettings).data_dir or default_data_dir()


def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
    """All leave at once: with no member left in the fleet, nobody waits for a successor."""
    for process in processes:
        process.send_signal(signal.SIGTERM)
    for process in processes:
        try:
            process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def share_of(settings: SearchSettings, free_bytes: int) -> int:
    """The memory all indexes of the machine together may take."""
    return settings.budget_bytes or int(free_bytes * settings.budget_share)
