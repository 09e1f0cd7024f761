"""From `repo import` until every repository is ready, with settings as they come, and what that asks of the stores."""

import asyncio
import time
from pathlib import Path

from argosy.bench.fleet import figures
from argosy.bench.fleet.members import fleet_in
from argosy.bench.fleet.origins import small_repositories
from argosy.bench.fleet.traffic import count
from argosy.bench.harness import Bench

READY_S_MAX = 900.0
AFTER_S = 10.0  # how long the fleet is watched doing nothing


async def measure_import(bench: Bench, scratch: Path, repositories: int, nodes: int) -> None:
    bench.say(f"making {repositories} repositories")
    wishes = small_repositories(scratch / "small", repositories)
    with fleet_in(scratch / "import", nodes=nodes) as fleet:
        await fleet.up()
        servers = {"store": fleet.store, "registry": fleet.registry}
        before = {name: await count(server) for name, server in servers.items()}
        cpu_s, began = sum(node.cpu_s for node in fleet.nodes), time.monotonic()
        bench.say(f"importing {repositories} repositories")
        await asyncio.to_thread(fleet.wish, wishes)
        imported_s = time.monotonic() - began
        await fleet.settled(repositories, READY_S_MAX)
        took_s = time.monotonic() - began
        cpu_s = sum(node.cpu_s for node in fleet.nodes) - cpu_s
        after = {name: await count(server) for name, server in servers.items()}
        await asyncio.sleep(AFTER_S)
        idle = {name: await count(server) for name, server in servers.items()}
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
