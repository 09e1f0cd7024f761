"""From `repo import` until every repository is ready, with default settings, and the load on both stores meanwhile.

Commands are counted by the Valkeys themselves. So the figure has everything that the fleet sends, from any process and
any library, and nothing has to be instrumented.
"""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from redis.asyncio import Redis

from argosy.base.backends.servers import Valkey
from argosy.bench.fleet import figures
from argosy.bench.fleet.fleet_processes import start_fleet
from argosy.bench.fleet.repositories import small_repositories
from argosy.bench.harness import Bench

READY_S_MAX = 900.0
IDLE_S = 10.0  # how long the commands of the idle fleet are counted
# One of these is one transaction of Argosy: a script, or a block of commands.
TRANSACTIONS = ("evalsha", "evalsha_ro", "eval", "fcall", "fcall_ro", "exec")


@dataclass(frozen=True)
class CommandCounts:
    """Commands that a Valkey has executed since its start, by name."""

    at: float
    commands: dict[str, int]

    def since(self, before: "CommandCounts") -> dict[str, int]:
        new = {name: count - before.commands.get(name, 0) for name, count in self.commands.items()}
        return {name: count for name, count in sorted(new.items()) if count}

    def commands_per_s(self, before: "CommandCounts") -> float:
        """Includes the commands inside scripts, because the server counts them alike."""
        return sum(self.since(before).values()) / (self.at - before.at)

    def transactions_per_s(self, before: "CommandCounts") -> float:
        new = self.since(before)
        return sum(new.get(name, 0) for name in TRANSACTIONS) / (self.at - before.at)


async def read_counts(server: Valkey) -> CommandCounts:
    client = Redis.from_url(server.url)
    try:
        info = await client.info("commandstats")
    finally:
        await client.aclose()
    commands = {name.removeprefix("cmdstat_"): int(stats["calls"]) for name, stats in info.items()}
    return CommandCounts(time.monotonic(), commands)


async def measure_import(bench: Bench, scratch: Path, repositories: int, nodes: int) -> None:
    bench.progress(f"creating {repositories} repositories")
    specs = small_repositories(scratch / "small", repositories)
    with start_fleet(scratch / "import", nodes=nodes) as fleet:
        await fleet.wait_up()
        servers = {"store": fleet.store, "registry": fleet.registry}
        before = {name: await read_counts(server) for name, server in servers.items()}
        cpu_s, started = sum(node.cpu_s for node in fleet.nodes), time.monotonic()
        bench.progress(f"importing {repositories} repositories")
        # In a thread: the command runs for seconds, and this loop would else miss its own deadlines.
        await asyncio.to_thread(fleet.import_repositories, specs)
        imported_s = time.monotonic() - started
        await fleet.wait_settled(repositories, READY_S_MAX)
        took_s = time.monotonic() - started
        cpu_s = sum(node.cpu_s for node in fleet.nodes) - cpu_s
        after = {name: await read_counts(server) for name, server in servers.items()}
        await asyncio.sleep(IDLE_S)
        idle = {name: await read_counts(server) for name, server in servers.items()}
    bench.record(figures.import_ready(repositories), [took_s])
    bench.record(figures.STORE_COMMANDS, [after["store"].commands_per_s(before["store"])])
    bench.record(figures.STORE_TRANSACTIONS, [after["store"].transactions_per_s(before["store"])])
    bench.record(figures.REGISTRY_COMMANDS, [after["registry"].commands_per_s(before["registry"])])
    bench.record(figures.REGISTRY_TRANSACTIONS, [after["registry"].transactions_per_s(before["registry"])])
    bench.record(figures.STORE_COMMANDS_AFTER, [idle["store"].commands_per_s(after["store"])])
    bench.record(figures.REGISTRY_COMMANDS_AFTER, [idle["registry"].commands_per_s(after["registry"])])
    bench.record(figures.IMPORT_CPU, [cpu_s / repositories * 1e3])
    bench.notes.append(f"import: {nodes} nodes; `repo import` itself took {imported_s:.1f} s of the {took_s:.1f} s")
    bench.details["import_commands"] = {name: after[name].since(before[name]) for name in servers}
