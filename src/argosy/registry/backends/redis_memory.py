"""Measures the memory that the sample data set takes on a server, and leaves the server as it was.

The data set is loaded under a namespace of its own. Its keys follow from what was written, so no SCAN is needed.
`used_memory` is the server's own total; `MEMORY USAGE` has it key by key, but without the server's tables of keys and
expiry times, so the difference is distributed evenly over the keys.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from argosy.base.backends.redis.mux import RedisMux
from argosy.base.backends.redis.url import parse_redis_url
from argosy.base.clock import Clock, Random
from argosy.base.errors import Conflict
from argosy.registry.backends.redis import RedisRegistry
from argosy.registry.backends.redis_codec import TableCodec
from argosy.registry.backends.redis_keys import RegistryKeys, encode_values
from argosy.registry.memory import MemoryReport, TableMemory, sample_writes
from argosy.registry.table import TableLayout
from argosy.registry.tables import TABLES
from argosy.registry.transaction import Append, CountUp, TransactionBody, Upsert, Write, commit, transaction

KeysByTable = dict[str, set[bytes]]

# Large enough that round trips do not matter, small enough that no single call blocks the server noticeably.
BATCH = 200  # writes of one commit, or keys of one command
# Odd, so that the median is one of the measurements; the server's other work makes single ones vary by about 1 %.
ROUNDS = 5  # measurements, of which the median is reported
OVERHEAD = ""  # the name for keys that belong to no table


async def measure(url: str, *, runs: int, clock: Clock, random: Random) -> MemoryReport:
    """Loads, measures and removes the data set, several times. Writes of others at the same time are counted, too."""
    server = _Server(url, clock, random)
    writes = list(sample_writes(int(clock.wall() * 1000), runs_per_canary=runs))
    namespace = await server.unused_namespace()
    rounds = [await _round(server, namespace, writes) for _ in range(ROUNDS + 1)]
    # The first round also loads the scripts, which stay in the server.
    total, tables = sorted(rounds[1:])[ROUNDS // 2]
    info = await server.info()
    return MemoryReport(_server_name(info), runs, tables, total, int(info.get("maxmemory", 0)))


async def _round(server: "_Server", namespace: str, writes: Sequence[Write]) -> tuple[int, tuple[TableMemory, ...]]:
    keys, counts = keys_of(namespace, writes)
    before = await server.used_bytes()
    try:
        async with server.registry(namespace) as store:
            await _load(store, writes)
        total = await server.used_bytes() - before
        # The registry is closed before the second measurement: the server's buffers for its connection would be
        # counted.
        async with server.connect() as mux:
            return total, await _tables(mux, await _with_chunks(mux, keys), counts, total)
    # Also after a failure, so that a measurement never leaves a data set behind on a server in use.
    finally:
        async with server.connect() as mux:
            await _remove(mux, await _with_chunks(mux, keys))


@dataclass(frozen=True)
class _Server:
    """The server. Each connection is used for one thing and closed, because the server keeps buffers for open ones."""

    url: str
    clock: Clock
    random: Random

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[RedisMux]:
        mux = RedisMux(parse_redis_url(self.url), clock=self.clock, random=self.random)
        try:
            yield mux
        finally:
            await mux.close()

    @asynccontextmanager
    async def registry(self, namespace: str) -> AsyncIterator[RedisRegistry]:
        store = await RedisRegistry.open(self.url, clock=self.clock, random=self.random, namespace=namespace)
        try:
            yield store
        finally:
            await store.close()

    async def unused_namespace(self) -> str:
        """As long as the default one, because it is part of every key."""
        # `m` and five hex digits are as long as "argosy".
        namespace = f"m{self.random.randrange(1 << 16, 1 << 20):x}"
        async with self.connect() as mux:
            if await mux.call("EXISTS", RegistryKeys(namespace).meta):
                raise Conflict(f"namespace {namespace!r} is in use at {mux.name}; measure again")
        return namespace

    async def info(self) -> dict[str, str]:
        async with self.connect() as mux:
            text = (await mux.call("INFO")).decode()
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    async def used_bytes(self) -> int:
        return int((await self.info())["used_memory"])


async def _load(store: RedisRegistry, writes: Sequence[Write]) -> None:
    """In large commits, but hits of addresses one by one: in one commit all would expire in the same millisecond, and
    entries of equal order are never split into chunks."""
    rest = iter([write for write in writes if not isinstance(write, CountUp)])
    while batch := list(islice(rest, BATCH)):
        await store.run(_store(batch))
    # Separate commits that run concurrently: as fast as one batch, but each in a millisecond of its own.
    hits = iter([write for write in writes if isinstance(write, CountUp)])
    while some := list(islice(hits, BATCH)):
        await asyncio.gather(*[store.run(_store([hit])) for hit in some])


@transaction
def _store(batch: Sequence[Write]) -> TransactionBody[None]:
    yield from commit(*batch)


def keys_of(namespace: str, writes: Iterable[Write]) -> tuple[KeysByTable, dict[str, int]]:
    """The keys that the writes create and the number of rows, by table; `_with_chunks` adds the chunks of indexes."""
    keys = RegistryKeys(namespace)
    codecs = {table.name: TableCodec(table) for table in TABLES}
    created: KeysByTable = {OVERHEAD: {_raw(key) for key in (keys.meta, keys.events, keys.logs, keys.migrating)}}
    counts: dict[str, int] = {}
    for write in writes:
        new: list[str | bytes]
        match write:
            case Upsert():
                name, new = write.table.name, _row_keys(keys, codecs[write.table.name], write.row)
            case Append():
                name, new = write.log.partition(":")[0], [keys.log(write.log)]
            case CountUp():
                name, new = write.counter.partition(":")[0], [keys.counter(write.counter), keys.counters]
            case _:
                raise AssertionError(f"the sample data set has no {type(write).__name__}")
        created.setdefault(name, set()).update(map(_raw, new))
        counts[name] = counts.get(name, 0) + 1
    return created, counts


def _row_keys(keys: RegistryKeys, codec: TableCodec, row: Any) -> list[str | bytes]:
    table = codec.table
    key = keys.row(table, table.key_of(row))
    created = [key]
    if table.layout is TableLayout.ROW:
        # Perhaps it does not exist; a key that does not has no usage and can be deleted all the same.
        created.append(_raw(key) + b":_long")
    if table.layout is TableLayout.FAMILY:
        created.append(keys.listing(table))
    for index in codec.indexes:
        texts = codec.equal_texts(index, [getattr(row, name) for name in index.by])
        if index.is_unique:
            created.append(keys.index(table, index))
        elif texts is not None:
            created.append(_raw(keys.index(table, index)) + encode_values(texts))
    return created


def _raw(key: str | bytes) -> bytes:
    return key.encode() if isinstance(key, str) else key


async def _with_chunks(mux: RedisMux, keys_by_table: KeysByTable) -> KeysByTable:
    """Adds the chunks into which long indexes were split."""
    return {
        name: keys | await _chunks(mux, [key for key in keys if _may_split(key)])
        for name, keys in keys_by_table.items()
    }


def _may_split(key: bytes) -> bool:
    return b":_index" in key or key.endswith(b":_counters")


async def _chunks(mux: RedisMux, indexes: Sequence[bytes]) -> set[bytes]:
    lists = [index + b":_chunks" for index in indexes]
    split = await asyncio.gather(*[mux.call("ZRANGE", name, "0", "-1") for name in lists])
    existing = {name for name, numbers in zip(lists, split, strict=True) if numbers}
    return existing | {index + b":_" + n for index, numbers in zip(indexes, split, strict=True) for n in numbers}


async def _tables(
    mux: RedisMux, keys_by_table: KeysByTable, counts: dict[str, int], total: int
) -> tuple[TableMemory, ...]:
    usage = {name: await _usage(mux, sorted(keys)) for name, keys in keys_by_table.items()}
    rest = total - sum(map(sum, usage.values()))
    share = rest / sum(map(len, usage.values()))
    return tuple(
        TableMemory(name, counts[name], round(sum(sizes) + len(sizes) * share))
        for name, sizes in usage.items()
        if name != OVERHEAD
    )


async def _usage(mux: RedisMux, keys: Sequence[bytes]) -> list[int]:
    """The bytes of each key that exists."""
    sizes: list[int] = []
    for at in range(0, len(keys), BATCH):
        # SAMPLES 0 measures every element: the default estimates from five of them.
        sizes_of = [mux.call("MEMORY", "USAGE", key, "SAMPLES", "0") for key in keys[at : at + BATCH]]
        sizes += [int(size) for size in await asyncio.gather(*sizes_of) if size is not None]
    return sizes


async def _remove(mux: RedisMux, keys_by_table: KeysByTable) -> None:
    keys = [key for each in keys_by_table.values() for key in sorted(each)]
    for at in range(0, len(keys), BATCH):
        await mux.call("DEL", *keys[at : at + BATCH])


def _server_name(info: dict[str, str]) -> str:
    if "valkey_version" in info:
        return f"Valkey {info['valkey_version']}"
    return f"Redis {info.get('redis_version', 'of an unknown version')}"
