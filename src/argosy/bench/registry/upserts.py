"""Rows written to Valkey by fifty callers at once: ours with version, indexes and feed, a plain client's without."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

from argosy.base.backends.servers import Valkey
from argosy.base.clock import SystemClock, system_random
from argosy.registry import open_registry
from argosy.registry.rows import AliasKind, ControlTask, IndexAlias, TaskStatus
from argosy.registry.table import Table
from argosy.registry.transaction import TransactionBody, Upsert, commit, transaction

CALLERS = 50
ROWS = 2000  # each is written several times, as tasks are


def tasks(count: int) -> list[ControlTask]:
    at, nodes = 1_700_000_000_000, {"node-0": "41", "node-1": "42", "node-2": "43"}
    made = (n % ROWS for n in range(count))
    return [ControlTask(f"task-{n:06}", n + 1, at + n, TaskStatus.ENQUEUED, nodes, {}, f"index-{n % 10}") for n in made]


def aliases(count: int) -> list[IndexAlias]:
    at = 1_700_000_000_000
    made = (n % ROWS for n in range(count))
    return [IndexAlias(f"alias-{n:06}", AliasKind.SINGLE, f"index-{n % 10}", (), at + n) for n in made]


@transaction
def upsert(table: Table[Any], row: Any) -> TransactionBody[int]:
    """One atomic step: row, version, indexes, revision and change."""
    done = yield from commit(Upsert(table, row))
    return done.versions[0]


async def ours(server: Valkey, table: Table[Any], rows: Sequence[Any]) -> float:
    store = await open_registry(server.url, clock=SystemClock(), random=system_random(), namespace="bench")
    try:
        return len(rows) / await _timed(lambda row: store.run(upsert(table, row)), rows)
    finally:
        await store.close()


async def plain_calls(server: Valkey, count: int) -> float:
    """One HSET per row: no version, no index, nobody is told."""
    from redis.asyncio import Redis

    async with Redis.from_url(server.url) as client:

        async def write(task: ControlTask) -> None:
            await client.hset(f"plain:{task.task_id}", mapping=_fields(task))

        return count / await _timed(write, tasks(count))


async def multi_calls(server: Valkey, count: int) -> float:
    """The row and one index in a MULTI: atomic, without version or change feed."""
    from redis.asyncio import Redis

    async with Redis.from_url(server.url) as client:

        async def write(task: ControlTask) -> None:
            async with client.pipeline(transaction=True) as both:
                both.hset(f"multi:{task.task_id}", mapping=_fields(task))
                both.zadd("multi:_index", {task.task_id: task.task_uid})
                await both.execute()

        return count / await _timed(write, tasks(count))


def _fields(task: ControlTask) -> dict[Any, Any]:
    columns = asdict(task) | {f"n:{node}": number for node, number in task.node_tasks.items()}
    return {name: value for name, value in columns.items() if isinstance(value, str | int)}


async def _timed(write: Callable[[Any], Awaitable[Any]], rows: Iterable[Any]) -> float:
    """Seconds until all are written."""
    waiting = iter(rows)

    async def work() -> None:
        for row in waiting:
            await write(row)

    started = time.perf_counter()
    await asyncio.gather(*[work() for _ in range(CALLERS)])
    return time.perf_counter() - started
