"""Memory by measurement: the design document's load on a real server with default settings, within our ceilings."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from redis.asyncio import Redis

from argosy.base.clock import SystemClock, seeded_random
from argosy.registry.backends.redis import RedisRegistry
from argosy.registry.memory import sample_writes
from argosy.registry.transaction import Commit, Transaction, Write
from tests.servers.valkey import Valkey

ROW_CEILINGS = {  # bytes per row, with its share of the indexes, as MEMORY USAGE has them
    "tasks": 350,
    "sessions": 350,
    "idempotency_cache": 200,
    "canary_runs": 40,
    "ratelimit": 140,
}
TOTAL_CEILINGS = {100: 1_000_000, 1000: 1_200_000}  # by runs per canary: what `used_memory` grows by


@pytest.fixture(scope="module")
def server() -> Iterator[Valkey]:
    with Valkey() as started:
        yield started


async def fill(url: str, writes: list[Write]) -> None:
    store = await RedisRegistry.open(url, clock=SystemClock(), random=seeded_random(1))
    for at in range(0, len(writes), 100):
        await store.run(Transaction(lambda at=at: _commit(writes[at : at + 100])))  # type: ignore[misc]
    await store.close()


def _commit(writes: list[Write]) -> Any:
    yield Commit(tuple(writes))


async def used(admin: Redis) -> int:
    """After the clients of the load have disconnected."""
    async with asyncio.timeout(10):
        while True:
            info = await admin.info()
            if info["connected_clients"] == 1:
                return int(info["used_memory"])


@pytest.mark.parametrize("runs", TOTAL_CEILINGS)
async def test_the_sample_data_set_is_within_its_budget(server: Valkey, runs: int) -> None:
    """ "Redis memory accounting validated against representative load" """
    admin: Redis = Redis.from_url(server.url, single_connection_client=True)
    seconds, _ = await admin.time()
    writes = list(sample_writes(seconds * 1000, runs_per_canary=runs))
    await fill(server.url, writes)  # a first run, so that scripts and buffers are not counted
    await admin.flushall()
    before = await used(admin)
    await fill(server.url, writes)
    total = await used(admin) - before
    by_table: dict[str, int] = {}
    async for key in admin.scan_iter(count=1000):
        name = key.decode(errors="replace").partition("}:")[2].replace("_counters", "ratelimit").partition(":")[0]
        by_table[name] = by_table.get(name, 0) + await admin.memory_usage(key, samples=0)
    await admin.aclose()
    rows: dict[str, int] = {}
    for write in writes:
        name = (getattr(write, "log", "") or getattr(write, "counter", "") or write.table.name).partition(":")[0]  # type: ignore[union-attr]
        rows[name] = rows.get(name, 0) + 1
    per_row = {name: by_table[name] / rows[name] for name in ROW_CEILINGS}
    assert {name: size for name, size in per_row.items() if size > ROW_CEILINGS[name]} == {}
    assert total <= TOTAL_CEILINGS[runs]
