"""What the representative registry takes on a server: laid out as ours is, and as the design document describes it."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from argosy.base.backends.servers import Valkey
from argosy.base.clock import SystemClock, system_random
from argosy.bench.harness import Values
from argosy.registry.backends.redis_memory import measure
from argosy.registry.canaries import decode_run
from argosy.registry.sample_data import representative
from argosy.registry.transaction import Append, CountUp, Upsert, Write

BATCH = 500  # commands sent at once
# The figure's name for a row of each table that has a ceiling.
ROWS = {
    "tasks": "task",
    "sessions": "session",
    "idempotency_cache": "idempotency",
    "canary_runs": "run",
    "ratelimit": "rate_limit",
}


async def ours(server: Valkey, runs: int) -> Values:
    """The whole, and each row that has a ceiling."""
    found = await measure(server.url, runs=runs, clock=SystemClock(), random=system_random())
    rows = {f"memory.row.{ROWS[each.name]}": each.bytes_per_row for each in found.tables if each.name in ROWS}
    return {f"memory.runs_{runs}": found.total_bytes, **rows}


def naive(server: Valkey, runs: int) -> Values:
    """A hash per row with its columns by name, and a set that lists the table: what the document describes."""
    from redis import Redis

    commands = [
        command
        for number, write in enumerate(representative(int(time.time() * 1000), runs_per_canary=runs))
        for command in _commands(number, write)
    ]
    before = _used(server)
    with Redis.from_url(server.url) as client:
        for at in range(0, len(commands), BATCH):
            batch = client.pipeline(transaction=False)
            for command in commands[at : at + BATCH]:
                batch.execute_command(*command)
            batch.execute()
    total = _used(server) - before
    with Redis.from_url(server.url) as client:
        client.flushall()
    return {f"memory.runs_{runs}": total}


def _used(server: Valkey) -> int:
    """On a connection of its own, because the server keeps buffers for those that stay."""
    from redis import Redis

    with Redis.from_url(server.url) as client:
        info = client.info("memory")
    assert isinstance(info, dict)
    return int(info["used_memory"])


def _commands(number: int, write: Write) -> Iterator[tuple[Any, ...]]:
    match write:
        case Upsert():
            name = f"naive:{write.table.name}"
            key = f"{name}:{':'.join(write.table.key_of(write.row))}"
            yield "HSET", key, *_fields(asdict(write.row))
            yield "SADD", f"{name}:_index", key.removeprefix(f"{name}:")
            if write.table.expires:
                yield "PEXPIREAT", key, getattr(write.row, write.table.expires)
        case Append():
            canary = write.log.partition(":")[2]
            run = {"run_id": f"run-{number}", "canary_id": canary, **asdict(decode_run(write.payload))}
            yield "HSET", f"naive:canary_runs:run-{number}", *_fields(run)
            yield "SADD", f"naive:canary_runs:{canary}:index", f"run-{number}"
        case CountUp():
            yield "SET", f"naive:{write.counter}", "1", "PX", write.ttl_ms
        case _:
            raise AssertionError(f"the representative registry has no {type(write).__name__}")


def _fields(columns: Mapping[str, Any]) -> Iterator[str | bytes]:
    for name, value in columns.items():
        if value is not None:
            yield name
            yield value.hex() if isinstance(value, bytes) else value if isinstance(value, str) else json.dumps(value)
