"""Measures what the representative registry takes on a server, and leaves the server as it was.

It is loaded under a namespace of its own. Which keys that makes follows from what was written and how keys are spelled,
so nothing is searched for. `used_memory` is the server's own word for everything; `MEMORY USAGE` tells it key by key,
but without the directories in which the server finds keys and their ends, so what is left over is shared out by keys.
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
from argosy.registry.backends.redis_keys import Keys, joined
from argosy.registry.memory import MemoryReport, TableMemory
from argosy.registry.sample_data import representative
from argosy.registry.table import TableLayout
from argosy.registry.tables import TABLES
from argosy.registry.transaction import Append, CountUp, TransactionBody, Upsert, Write, commit, transaction

KeysByTable = dict[str, set[bytes]]

BATCH = 200  # writes of one commit, or keys of one command
ROUNDS = 5  # measurements, of which the middle one is told
AROUND = ""  # the name under which keys are gathered that belong to no table


async def measure(url: str, *, runs: int, clock: Clock, random: Random) -> MemoryReport:
    """Loads, measures, removes, some times over. Others who use the server at the same time are measured with it."""
    site = _Site(url, clock, random)
    writes = list(representative(int(clock.wall() * 1000), runs_per_canary=runs))
    namespace = await site.free_namespace()
    rounds = [await _round(site, namespace, writes) for _ in range(ROUNDS + 1)]
    # The first teaches the server scripts, which stay.
    total, tables = sorted(rounds[1:])[ROUNDS // 2]
    info = await site.info()
    return MemoryReport(_server(info), runs, tables, total, int(info.get("maxmemory", 0)))


async def _round(site: "_Site", namespace: str, writes: Sequence[Write]) -> tuple[int, tuple[TableMemory, ...]]:
    keys, counts = keys_of(namespace, writes)
    before = await site.used_bytes()
    try:
        async with site.registry(namespace) as store:
            await _load(store, writes)
        total = await site.used_bytes() - before
        async with site.connected() as mux:
            return total, await _tables(mux, await _with_pieces(mux, keys), counts, total)
    finally:
        async with site.connected() as mux:
            await _remove(mux, await _with_pieces(mux, keys))


@dataclass(frozen=True)
class _Site:
    """The server. Each connection is used for one thing, because the server keeps buffers for those that stay."""

    url: str
    clock: Clock
    random: Random

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[RedisMux]:
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

    async def free_namespace(self) -> str:
        """As long as the one by default, because it is part of every key."""
        namespace = f"m{self.random.randrange(1 << 16, 1 << 20):x}"
        async with self.connected() as mux:
            if await mux.call("EXISTS", Keys(namespace).meta):
                raise Conflict(f"the namespace {namespace!r} is taken at {mux.name}: measure again")
        return namespace

    async def info(self) -> dict[str, str]:
        async with self.connected() as mux:
            text = (await mux.call("INFO")).decode()
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    async def used_bytes(self) -> int:
        return int((await self.info())["used_memory"])


async def _load(store: RedisRegistry, writes: Sequence[Write]) -> None:
    """In large commits, but hits of addresses one by one: in one commit all would end in the same millisecond, which no
    index is made for."""
    rest = iter([write for write in writes if not isinstance(write, CountUp)])
    while batch := list(islice(rest, BATCH)):
        await store.run(_store(batch))
    hits = iter([write for write in writes if isinstance(write, CountUp)])
    while some := list(islice(hits, BATCH)):
        await asyncio.gather(*[store.run(_store([hit])) for hit in some])


@transaction
def _store(batch: Sequence[Write]) -> TransactionBody[None]:
    yield from commit(*batch)


def keys_of(namespace: str, writes: Iterable[Write]) -> tuple[KeysByTable, dict[str, int]]:
    """Which keys writes make, and how many rows, by table; `_with_pieces` adds what indexes were split into."""
    keys = Keys(namespace)
    codecs = {table.name: TableCodec(table) for table in TABLES}
    found: KeysByTable = {AROUND: {_raw(key) for key in (keys.meta, keys.events, keys.logs, keys.migrating)}}
    counts: dict[str, int] = {}
    for write in writes:
        made: list[str | bytes]
        match write:
            case Upsert():
                name, made = write.table.name, _row_keys(keys, codecs[write.table.name], write.row)
            case Append():
                name, made = write.log.partition(":")[0], [keys.log(write.log)]
            case CountUp():
                name, made = write.counter.partition(":")[0], [keys.counter(write.counter), keys.counters]
            case _:
                raise AssertionError(f"the representative registry has no {type(write).__name__}")
        found.setdefault(name, set()).update(map(_raw, made))
        counts[name] = counts.get(name, 0) + 1
    return found, counts


def _row_keys(keys: Keys, codec: TableCodec, row: Any) -> list[str | bytes]:
    table = codec.table
    key = keys.row(table, table.key_of(row))
    made = [key]
    if table.layout is TableLayout.ROW:
        made.append(_raw(key) + b":_long")
    if table.layout is TableLayout.FAMILY:
        made.append(keys.listing(table))
    for index in codec.indexes:
        texts = codec.equal_texts(index, [getattr(row, name) for name in index.by])
        if index.is_unique:
            made.append(keys.index(table, index))
        elif texts is not None:
            made.append(_raw(keys.index(table, index)) + joined(texts))
    return made


def _raw(key: str | bytes) -> bytes:
    return key.encode() if isinstance(key, str) else key


async def _with_pieces(mux: RedisMux, found: KeysByTable) -> KeysByTable:
    """Adds the pieces into which long indexes were split."""
    return {name: keys | await _pieces(mux, [key for key in keys if _may_split(key)]) for name, keys in found.items()}


def _may_split(key: bytes) -> bool:
    return b":_index" in key or key.endswith(b":_counters")


async def _pieces(mux: RedisMux, indexes: Sequence[bytes]) -> set[bytes]:
    lists = [index + b":_chunks" for index in indexes]
    split = await asyncio.gather(*[mux.call("ZRANGE", name, "0", "-1") for name in lists])
    made = {name for name, numbers in zip(lists, split, strict=True) if numbers}
    return made | {index + b":_" + n for index, numbers in zip(indexes, split, strict=True) for n in numbers}


async def _tables(mux: RedisMux, found: KeysByTable, counts: dict[str, int], total: int) -> tuple[TableMemory, ...]:
    usage = {name: await _usage(mux, sorted(keys)) for name, keys in found.items()}
    rest = total - sum(map(sum, usage.values()))
    share = rest / sum(map(len, usage.values()))
    return tuple(
        TableMemory(name, counts[name], round(sum(sizes) + len(sizes) * share))
        for name, sizes in usage.items()
        if name != AROUND
    )


async def _usage(mux: RedisMux, keys: Sequence[bytes]) -> list[int]:
    """The bytes of each key that exists."""
    sizes: list[int] = []
    for at in range(0, len(keys), BATCH):
        asked = [mux.call("MEMORY", "USAGE", key, "SAMPLES", "0") for key in keys[at : at + BATCH]]
        sizes += [int(size) for size in await asyncio.gather(*asked) if size is not None]
    return sizes


async def _remove(mux: RedisMux, found: KeysByTable) -> None:
    keys = [key for each in found.values() for key in sorted(each)]
    for at in range(0, len(keys), BATCH):
        await mux.call("DEL", *keys[at : at + BATCH])


def _server(info: dict[str, str]) -> str:
    if "valkey_version" in info:
        return f"Valkey {info['valkey_version']}"
    return f"Redis {info.get('redis_version', 'of an unknown version')}"
