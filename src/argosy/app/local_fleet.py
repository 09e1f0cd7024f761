"""A fleet on one machine: search nodes as child processes, a Valkey for their leases, the gateway in this process.

The catalog stays in a SQLite file that all processes read. The Valkey server is new and empty on every start, so there
is no older lease to wait for and the grace period is 0. A node that exits is restarted with back-off; one that exits
`DEATHS_MAX` times soon after its start stays down and is reported.
"""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from argosy.app.settings import ServersSettings
from argosy.base import logs
from argosy.base.backends.servers import HOST, Valkey, free_ports, start_child
from argosy.base.clock import Clock, Random
from argosy.base.retry import Backoff
from argosy.base.settings import ENV_PREFIX, Loaded
from argosy.ownership.settings import OwnershipSettings
from argosy.registry.settings import RegistrySettings
from argosy.search.settings import FetchSettings, SearchSettings

NODES_MAX = 64
LEAVE_S = 30.0  # time for the nodes to stop after SIGTERM
POLL_S = 0.2  # between two checks of the child processes
QUICK_DEATH_S = 60.0  # a node that ran longer than this has worked, so the count of deaths starts again
DEATHS_MAX = 6  # quick deaths in a row, then it stays down
LOG_BYTES_MAX = 16 << 20  # a longer log is renamed to .1 when its node starts
# As supervisors do: a crash by chance is repaired at once, a crash loop does not burn a core.
RESTART = Backoff(first_s=0.5, ceiling_s=30.0, attempts_max=DEATHS_MAX)

log = logs.get("app")


@dataclass
class RestartPolicy:
    """Decides when a node that exited is restarted."""

    deaths: int = 0

    def delay(self, lived_s: float, random: Random) -> float | None:
        """Seconds until the next attempt; None if there is none."""
        self.deaths = self.deaths + 1 if lived_s < QUICK_DEATH_S else 1
        return None if self.deaths >= DEATHS_MAX else RESTART.delay(self.deaths, random)


@dataclass
class Child:
    """One node of the fleet; `pid` and `address` change when it is restarted."""

    name: str
    log_path: Path
    address: str = ""
    pid: int | None = None  # None while it is down
    is_failed: bool = False  # not restarted any more
    restarts: int = 0
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    policy: RestartPolicy = field(default_factory=RestartPolicy, repr=False)
    started_at: float = field(default=0.0, repr=False)
    restart_at: float | None = field(default=None, repr=False)


class LocalFleet:
    """Starts the nodes, each with its share of the memory, restarts nodes that exit, and stops all at the end.

    Must be used from the main thread, see `start_child`. `loaded` has the settings with which the gateway finds
    the nodes.
    """

    def __init__(
        self, loaded: Loaded, nodes: int, *, state_dir: Path, budget_bytes: int, clock: Clock, random: Random
    ) -> None:
        self._settings = loaded
        self._budget_bytes = budget_bytes
        self._state_dir = state_dir
        self._clock = clock
        self._random = random
        self._valkey: Valkey | None = None
        self.loaded = loaded
        names = [f"node-{number}" for number in range(1, nodes + 1)]
        self.children = tuple(Child(name, state_dir / "logs" / f"{name}.log") for name in names)

    def __enter__(self) -> Self:
        try:
            self._valkey = Valkey(ends_with_us=True, program=self._settings.get(ServersSettings).valkey)
            # The grace period protects leases that a store may have lost; this store is new, so there are none.
            ownership = replace(self._settings.get(OwnershipSettings), store=self._valkey.url, grace_s=0.0)
            self.loaded = self._settings.with_sections({OwnershipSettings: ownership})
            for child in self.children:
                self._start(child)
            log.info("local fleet", nodes=len(self.children), store=self._valkey.url, budget_bytes=self._budget_bytes)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    async def supervise(self) -> None:
        """Restarts nodes that die until this task is cancelled."""
        while True:
            for child in self.children:
                self.check(child)
            await self._clock.sleep(POLL_S)

    def check(self, child: Child) -> None:
        """Detects an exit, and restarts the node when its delay is over."""
        now = self._clock.now()
        if child.process is not None and (code := child.process.poll()) is not None:
            self._on_death(child, code, now)
        if child.restart_at is not None and now >= child.restart_at:
            child.restart_at = None
            child.restarts += 1
            self._start(child)
            log.info(
                "node restarted",
                node=child.name,
                pid=child.pid,
                address=child.address,
                notice=f"restarted {child.name}: http://{child.address} (pid {child.pid})",
            )

    def _on_death(self, child: Child, code: int, now: float) -> None:
        pid, child.process, child.pid = child.pid, None, None
        delay = child.policy.delay(now - child.started_at, self._random)
        if delay is None:
            child.is_failed = True
            notice = f"{child.name} exited {child.policy.deaths} times and is not restarted; see {child.log_path}"
            log.error("node stays down", node=child.name, deaths=child.policy.deaths, notice=notice)
            return
        child.restart_at = now + delay
        log.warning(
            "node died",
            node=child.name,
            pid=pid,
            exit_code=code,
            next_attempt_s=round(delay, 1),
            log=str(child.log_path),
            notice=f"{child.name} (pid {pid}) {describe_exit(code)}; restarting in {delay:.1f} s",
        )

    def _start(self, child: Child) -> None:
        """Starts a node with this process's settings except for name, port, state and memory."""
        (port,) = free_ports(1)  # if another process takes it meanwhile, the node exits and gets another port
        environ = {**os.environ, **self._environ(child, port)}
        config = [] if self._settings.path is None else ["--config", str(self._settings.path)]
        command = [sys.executable, "-m", "argosy.cli", "serve", "--role", "search", *config]
        with _open_log(child.log_path) as output:
            # In its own session, so that Ctrl-C reaches only this process, which then stops the nodes.
            child.process = start_child(command, environ=environ, output=output, in_own_session=True)
        child.pid, child.address, child.started_at = child.process.pid, f"{HOST}:{port}", self._clock.now()

    def _environ(self, child: Child, port: int) -> dict[str, str]:
        assert self._valkey is not None, "the store starts first"
        search, loaded = self._settings.get(SearchSettings), self._settings
        changes: dict[str, Any] = {
            "OWNERSHIP_STORE": self._valkey.url,
            "OWNERSHIP_GRACE_S": 0,
            # Without it the node that starts first would win the first auctions alone and hold most repositories.
            "OWNERSHIP_MEMBERS_MIN": len(self.children),
            "REGISTRY_URL": loaded.get(RegistrySettings).url,
            "NODE_ID": child.name,
            "NODE_HOST": HOST,
            "NODE_PORT": port,
            "NODE_ADDRESS": f"{HOST}:{port}",
            "NODE_DATA_DIR": self._state_dir,
            # Each node would otherwise take its share of the whole host.
            "SEARCH_BUDGET_BYTES": self._budget_bytes // len(self.children),
            # As in `argosy up` itself: its user can read whatever these processes read.
            "FETCH_ALLOW_LOCAL": "true",
            "FETCH_DIR": loaded.get(FetchSettings).dir,
            "SEARCH_ADVERTISE": str(search.advertise).lower(),
            # One chain per node: a chain is locked by the process that appends to it.
            "SEARCH_ADVERTISE_DIR": os.path.join(search.advertise_dir, child.name),
            "SEARCH_ANNOUNCE_URLS": ",".join(search.announce_urls),
            "SEARCH_ANNOUNCE_S": search.announce_s,
        }
        return {f"{ENV_PREFIX}{name}": str(value) for name, value in changes.items()}

    def _stop(self) -> None:
        """Stops all nodes at once, so that none waits for a successor."""
        running = [child.process for child in self.children if child.process is not None]
        # All at once: they would otherwise hand their units to nodes that are about to stop as well.
        # One deadline for all: they stop at the same time.
        for process in running:
            process.send_signal(signal.SIGTERM)
        until = self._clock.now() + LEAVE_S
        for process in running:
            try:
                process.wait(max(0.0, until - self._clock.now()))
            # A node that ignores SIGTERM holds nothing durable: its leases are in a store that ends, too.
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._valkey is not None:
            self._valkey.stop()


def describe_exit(code: int) -> str:
    """The exit as text; Popen reports a signal as a negative code."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _open_log(path: Path) -> Any:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > LOG_BYTES_MAX:
        path.replace(path.with_suffix(".log.1"))
    return path.open("ab")


def total_budget(settings: SearchSettings, free_bytes: int) -> int:
    """The memory budget of all indexes on this host."""
    return settings.budget_bytes or int(free_bytes * settings.budget_share)
