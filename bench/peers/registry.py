"""Peers of the registry benchmark: the same work as most people would write it.

On Valkey: a hash for each row with its columns by name, and a set that lists each table; HSET alone, and HSET with ZADD
in a MULTI. On SQLite: one statement and one durable commit for each claim.
"""

import json
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from argosy.base.backends.servers import Valkey
from argosy.bench.harness import Run, Values
from argosy.bench.registry import time_writes
from argosy.registry.canaries import decode_run
from argosy.registry.memory import sample_writes
from argosy.registry.rows import ControlTask
from argosy.registry.transaction import Append, CountUp, Upsert, Write

BATCH = 500  # commands in one pipeline


# -- memory -----------------------------------------------------------------------------------------------------------


def memory_runs(server: Valkey, runs: int) -> Mapping[str, Run]:
    return {"hash per row": lambda: hash_per_row_bytes(server, runs)}


def hash_per_row_bytes(server: Valkey, runs: int) -> Values:
    """The sample data set as a hash for each row and a set for each table, without other indexes."""
    commands = [
        command
        for number, write in enumerate(sample_writes(int(time.time() * 1000), runs_per_canary=runs))
        for command in _commands(number, write)
    ]
    before = _used_bytes(server)
    with Redis.from_url(server.url) as client:
        for at in range(0, len(commands), BATCH):
            batch = client.pipeline(transaction=False)
            for command in commands[at : at + BATCH]:
                batch.execute_command(*command)
            batch.execute()
    total = _used_bytes(server) - before
    with Redis.from_url(server.url) as client:
        client.flushall()
    return {f"memory.runs_{runs}": total}


def _used_bytes(server: Valkey) -> int:
    """On a new connection, because the server's buffers for an existing one count as used memory."""
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
            raise AssertionError(f"the sample data set has no {type(write).__name__}")


def _fields(columns: Mapping[str, Any]) -> Iterator[str | bytes]:
    for name, value in columns.items():
        if value is not None:
            yield name
            yield value.hex() if isinstance(value, bytes) else value if isinstance(value, str) else json.dumps(value)


# -- upserts ----------------------------------------------------------------------------------------------------------


def upsert_runs(server: Valkey, tasks: Sequence[ControlTask]) -> Mapping[str, Run]:
    return {
        "redis-py HSET": lambda: hset_per_s(server, tasks),
        "redis-py MULTI": lambda: multi_per_s(server, tasks),
    }


async def hset_per_s(server: Valkey, tasks: Sequence[ControlTask]) -> float:
    """One HSET per row: no version, no index, no change feed."""
    async with AsyncRedis.from_url(server.url) as client:

        async def write(task: ControlTask) -> None:
            await client.hset(f"plain:{task.task_id}", mapping=_columns(task))

        return len(tasks) / await time_writes(write, tasks)


async def multi_per_s(server: Valkey, tasks: Sequence[ControlTask]) -> float:
    """The row and one index in a MULTI: atomic, without version or change feed."""
    async with AsyncRedis.from_url(server.url) as client:

        async def write(task: ControlTask) -> None:
            async with client.pipeline(transaction=True) as both:
                both.hset(f"multi:{task.task_id}", mapping=_columns(task))
                both.zadd("multi:_index", {task.task_id: task.task_uid})
                await both.execute()

        return len(tasks) / await time_writes(write, tasks)


def _columns(task: ControlTask) -> dict[Any, Any]:
    columns = asdict(task) | {f"n:{node}": number for node, number in task.node_tasks.items()}
    return {name: value for name, value in columns.items() if isinstance(value, str | int)}


# -- claims -----------------------------------------------------------------------------------------------------------

_CLAIM = """
    UPDATE jobs SET state = 'in_progress', claimed_by = 'w', claim_expires_at = 1, fence = fence + 1
    WHERE job_id = (SELECT job_id FROM jobs WHERE state = 'queued' ORDER BY due LIMIT 1) RETURNING *
"""


def claim_runs(count: int) -> Mapping[str, Run]:
    return {"a commit each": lambda: committed_claims_per_s(count)}


def committed_claims_per_s(count: int) -> float:
    """One statement and one durable commit for each claim, by one caller: SQLite has one writer at a time anyway."""
    with tempfile.TemporaryDirectory(prefix="argosy-bench-") as directory:
        connection = sqlite3.connect(Path(directory) / "peer.db", isolation_level=None)
        try:
            _prepare(connection, count)
            started = time.perf_counter()
            for _ in range(count):
                assert connection.execute(_CLAIM).fetchone() is not None
            return count / (time.perf_counter() - started)
        finally:
            connection.close()


def _prepare(connection: sqlite3.Connection, count: int) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "CREATE TABLE jobs (job_id TEXT PRIMARY KEY, state TEXT, due INTEGER, claimed_by TEXT, "
        "claim_expires_at INTEGER, fence INTEGER) WITHOUT ROWID"
    )
    connection.execute("CREATE INDEX queue ON jobs (state, due)")
    connection.execute("BEGIN")
    rows = ((f"job-{n}", n) for n in range(count))
    connection.executemany("INSERT INTO jobs VALUES (?, 'queued', ?, NULL, NULL, 0)", rows)
    connection.execute("COMMIT")
