"""The layout of rows in Redis: encodings, key names, indexes that stay listpacks, and traces of expired rows."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from redis.asyncio import Redis

from argosy.base.clock import SystemClock, seeded_random
from argosy.base.errors import Invalid
from argosy.registry import jobs
from argosy.registry.backends.redis import RedisRegistry
from argosy.registry.backends.redis_codec import TableCodec, field_names
from argosy.registry.backends.redis_keys import (
    KEY_DOCS,
    RegistryKeys,
    escape_key_part,
    key_of,
    member_of,
    value_key_of,
    value_member_of,
)
from argosy.registry.memory import sample_writes
from argosy.registry.rows import (
    AliasKind,
    ClientSession,
    ControlTask,
    IdempotencyEntry,
    IdempotencyState,
    IndexAlias,
    ScopedKeyObserved,
    TaskStatus,
)
from argosy.registry.table import TableLayout
from argosy.registry.tables import (
    ALIASES,
    IDEMPOTENCY_CACHE,
    JOBS,
    REPOSITORIES,
    SCOPED_KEYS_OBSERVED,
    SESSIONS,
    TABLES,
    TASKS,
)
from argosy.registry.transaction import (
    Append,
    Commit,
    CountRows,
    CountUp,
    Delete,
    DropCounter,
    Find,
    Get,
    Put,
    Transaction,
    Upsert,
    Write,
)
from tests.contracts.registry_stage import answer, commit_of
from tests.servers.valkey import Valkey

T = TypeVar("T")
PATIENCE_S = 10.0
TAG = "{argosy}:"
UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"


@pytest.fixture(scope="module")
def server() -> Iterator[Valkey]:
    with Valkey() as started:
        yield started


@pytest.fixture
async def admin(server: Valkey) -> AsyncIterator[Redis]:
    client: Redis = Redis.from_url(server.url)
    await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture
async def store(server: Valkey, admin: Redis) -> AsyncIterator[RedisRegistry]:
    opened = await RedisRegistry.open(server.url, clock=SystemClock(), random=seeded_random(1))
    yield opened
    await opened.close()


async def load(store: RedisRegistry, writes: list[Write]) -> None:
    for at in range(0, len(writes), 100):
        await store.run(Transaction(lambda at=at: iter_commit(writes[at : at + 100])))  # type: ignore[misc]


def iter_commit(writes: list[Write]) -> Any:
    yield Commit(tuple(writes))


async def eventually(probe: Callable[[], Awaitable[T]]) -> T:
    """The first answer that is true, within PATIENCE_S."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if found := await probe():
                return found


async def now_ms(admin: Redis) -> int:
    seconds, micros = await admin.time()
    return int(seconds) * 1000 + int(micros) // 1000


def task(n: int, **given: Any) -> ControlTask:
    return replace(ControlTask(f"t{n:05}", n, n, TaskStatus.SUCCEEDED, {"node-1": "7"}, index_uid="docs"), **given)


def observed(pod: str, *, at: int, expires_at: int) -> ScopedKeyObserved:
    return ScopedKeyObserved(pod, "docs", 1, at, expires_at)


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [("a",), ("a", "b"), ("_index", "x:y"), ("\0", "\0\0a"), ("a\0", "b"), ("é", "%3A")])
def test_members_lead_back_to_keys(key: tuple[str, ...]) -> None:
    assert key_of(member_of(key)) == key
    assert value_key_of(value_member_of(key)) == key


@pytest.mark.parametrize("key", [(UUID,), (UUID, UUID), ("a:b", UUID), (UUID.upper(),), (UUID, "x")])
def test_uuids_in_keys_are_short_and_round_trip(key: tuple[str, ...]) -> None:
    assert value_key_of(value_member_of(key)) == key
    assert UUID.encode() not in value_member_of(key)


def test_members_sort_as_keys_do() -> None:
    keys = sorted([("a", "b"), ("a", ""), ("a\0", "b"), ("a\0b", "b"), ("ab", "a"), ("a\x01", "a")])
    assert sorted(keys, key=member_of) == keys


def test_names_that_would_be_ambiguous_are_spelled_out() -> None:
    assert [escape_key_part(part) for part in ("_index", "a:b", "100%", "a_b", "plain")] == [
        "%5Findex",
        "a%3Ab",
        "100%25",
        "a_b",
        "plain",
    ]


@pytest.mark.parametrize("name", ["", "_meta", "tasks:x", "tasks", "ratelimit:adminlogin:backoff:x", "x" * 2000])
def test_logs_and_counters_stay_clear_of_the_tables(name: str) -> None:
    with pytest.raises(Invalid, match="a log, counter or channel"):
        RegistryKeys("argosy").log(name)


def test_field_names_of_stored_rows_do_not_change_unnoticed() -> None:
    """A registry that was written with other names could not be read: a change here needs a migration step."""
    assert list(field_names(TASKS).items()) == [
        ("task_uid", "t"),
        ("created_at", "c"),
        ("status", "s"),
        ("node_tasks", "n"),
        ("node_errors", "no"),
        ("index_uid", "i"),
        ("task_type", "ta"),
        ("error", "e"),
        ("started_at", "st"),
        ("finished_at", "f"),
    ]
    for table in TABLES:
        names = field_names(table)
        assert len({*names.values(), "v"}) == len(names) + 1, table.name


# -- encodings --------------------------------------------------------------------------------------------------------


async def test_the_sample_data_set_is_all_listpacks(store: RedisRegistry, admin: Redis) -> None:
    """Facts §5.2: one value above 64 bytes makes the hash a hash table, at 300 to 400 bytes more per row."""
    await load(store, list(sample_writes(await now_ms(admin))))
    rows = {f"{TAG}{table.name}:".encode() for table in TABLES if table.layout is TableLayout.ROW}
    others = []
    async for key in admin.scan_iter():
        kind, encoding = await admin.type(key), await admin.object("encoding", key)
        is_row = kind == b"hash" and any(key.startswith(stem) for stem in rows)
        if (is_row or kind == b"zset") and encoding != b"listpack":
            others.append((key, encoding))
    assert others == []


async def test_long_columns_are_stored_apart_and_the_row_stays_a_listpack(store: RedisRegistry, admin: Redis) -> None:
    long = "no such node: " * 20
    await store.run(commit_of(Put(TASKS, task(1, error=long, node_tasks={f"n{i}": "1" for i in range(100)}))))
    assert await admin.object("encoding", f"{TAG}tasks:t00001") == b"listpack"
    row = await answer(store, Get(TASKS, ("t00001",)))
    assert (row.error, len(row.node_tasks)) == (long, 100)
    await store.run(commit_of(Put(TASKS, replace(row, error="short", node_tasks={}))))
    assert await admin.exists(f"{TAG}tasks:t00001:_long") == 0
    assert (await answer(store, Get(TASKS, ("t00001",)))).error == "short"


async def test_a_row_does_not_repeat_its_key_and_has_a_field_per_column(store: RedisRegistry, admin: Redis) -> None:
    await store.run(commit_of(Put(TASKS, task(1))))
    assert await admin.hgetall(f"{TAG}tasks:t00001") == {
        b"v": b"1",
        b"t": b"1",
        b"c": b"1",
        b"s": b"succeeded",
        b"n.node-1": b"7",
        b"i": b"docs",
    }


async def test_maps_of_texts_preserve_other_values(store: RedisRegistry) -> None:
    odd = {"a": "\0x", "b": "5", "c": "", "d": 5, "e": None, "f": ["x"]}
    await store.run(commit_of(Put(TASKS, task(1, node_tasks=odd))))
    assert (await answer(store, Get(TASKS, ("t00001",)))).node_tasks == odd


async def test_values_store_uuids_as_sixteen_bytes(store: RedisRegistry, admin: Redis) -> None:
    entry = IdempotencyEntry(UUID, b"\xff" * 32, IdempotencyState.DONE, UUID, await now_ms(admin) + 60_000)
    await store.run(commit_of(Put(IDEMPOTENCY_CACHE, entry)))
    assert await answer(store, Get(IDEMPOTENCY_CACHE, (UUID,))) == replace(entry, version=1)
    (key,) = [key async for key in admin.scan_iter() if b"idempotency_cache:\xfe" in key]
    assert len(await admin.get(key)) < 32 + 16 + 12


def test_columns_newer_than_a_row_take_their_defaults() -> None:
    codec = TableCodec(REPOSITORIES)
    row = codec.from_packed(b"r", b"3" + b"\x91" + b"\xa3url")
    assert (row.url, row.branches, row.added_at, row.version) == ("url", (), 0, 3)
    job = TableCodec(JOBS).from_fields(b"j", [b"v", b"2", b"t", b"x", b"s", b"queued", b"d", b"1", b"c", b"1"], None)
    assert (job.max_attempts, job.params, job.error, job.version) == (3, {}, None, 2)


# -- indexes ----------------------------------------------------------------------------------------------------------


async def test_an_index_that_grows_is_split_and_every_piece_stays_a_listpack(
    store: RedisRegistry, admin: Redis
) -> None:
    order = [(n * 7919) % 1000 for n in range(1000)]
    await load(store, [Upsert(TASKS, task(n)) for n in order])
    pieces = [key async for key in admin.scan_iter(match="*tasks:_index:_[0-9]*")]
    assert len(pieces) >= 1000 // 128
    assert {await admin.object("encoding", key) for key in pieces} == {b"listpack"}
    found = [row.task_uid for row in await answer(store, Find(TASKS, "all"))]
    assert found == list(range(1000))
    newest = await answer(store, Find(TASKS, "status", (TaskStatus.SUCCEEDED,), after=700, is_newest_first=True))
    assert [row.task_uid for row in newest] == list(range(699, -1, -1))
    middle = await answer(store, Find(TASKS, "all", after=300, until=600, limit=200))
    assert [row.task_uid for row in middle] == list(range(301, 501))
    assert await answer(store, CountRows(TASKS, "index", ("docs",))) == 1000


async def test_numbers_that_grow_fill_whole_pieces(store: RedisRegistry, admin: Redis) -> None:
    await load(store, [Upsert(TASKS, task(n)) for n in range(1000)])
    pieces = [key async for key in admin.scan_iter(match="*tasks:_index:_[0-9]*")]
    assert len(pieces) == 1000 // 128


async def test_an_emptied_index_leaves_no_keys(store: RedisRegistry, admin: Redis) -> None:
    await load(store, [Upsert(TASKS, task(n)) for n in range(500)])
    await load(store, [Delete(TASKS, task(n, version=1)) for n in range(500)])
    left = {key.decode().removeprefix(TAG) async for key in admin.scan_iter()}
    assert left == {"_events", "_meta"}


async def test_equal_orders_are_never_parted(store: RedisRegistry) -> None:
    await load(store, [Upsert(TASKS, task(n, task_uid=n // 200)) for n in range(600)])
    found = await answer(store, Find(TASKS, "all", after=0, until=1))
    assert [row.task_id for row in found] == [f"t{n:05}" for n in range(200, 400)]


# -- rows that end ----------------------------------------------------------------------------------------------------


async def test_entries_of_expired_rows_are_dropped_on_read(store: RedisRegistry, admin: Redis) -> None:
    now = await now_ms(admin)
    for n in range(5):
        row = observed(f"pod{n}", at=n, expires_at=now + (150 if n % 2 else 60_000))
        await store.run(commit_of(Put(SCOPED_KEYS_OBSERVED, row)))
    index = f"{TAG}search_ui_scoped_key_observed:_index"
    assert await admin.zcard(index) == 5

    async def remaining() -> bool:
        return len(await answer(store, Find(SCOPED_KEYS_OBSERVED, "all"))) == 3

    await eventually(remaining)
    assert await admin.zcard(index) == 3
    assert await answer(store, CountRows(SCOPED_KEYS_OBSERVED, "index", ("docs",))) == 3


async def test_a_row_recreated_after_expiry_is_found_once(store: RedisRegistry, admin: Redis) -> None:
    now = await now_ms(admin)
    await store.run(commit_of(Put(SCOPED_KEYS_OBSERVED, observed("pod", at=1, expires_at=now + 100))))
    await eventually(lambda: _is_gone(store))
    await store.run(commit_of(Put(SCOPED_KEYS_OBSERVED, observed("pod", at=900, expires_at=now + 60_000))))
    found = await answer(store, Find(SCOPED_KEYS_OBSERVED, "all"))
    assert [(row.observed_at, row.version) for row in found] == [(900, 1)]
    assert len([item async for item in store.dump()]) == 1


async def _is_gone(store: RedisRegistry) -> bool:
    return await answer(store, Get(SCOPED_KEYS_OBSERVED, ("pod", "docs"))) is None


async def test_indexes_of_expiring_rows_do_not_grow_without_bound(store: RedisRegistry, admin: Redis) -> None:
    """Sessions come and go, and are never listed."""
    for n in range(600):
        soon = await now_ms(admin) + 5
        await store.run(commit_of(Put(SESSIONS, ClientSession(f"s{n}", None, None, {}, 0, soon))))
    index = f"{TAG}sessions:_index"
    chunks = [int(number) for number in await admin.zrange(f"{index}:_chunks", 0, -1)]
    entries = await admin.zcard(index) + sum([await admin.zcard(f"{index}:_{number}") for number in chunks])
    assert entries < 200

    async def is_empty() -> bool:
        return await admin.exists(index) == 0

    await eventually(is_empty)


async def test_a_counter_has_its_end_from_its_first_hit_on(store: RedisRegistry, admin: Redis) -> None:
    """Defect R19: a crash between INCR and EXPIRE left a counter forever."""
    await store.run(commit_of(CountUp("ratelimit:searchui:a", 60_000)))
    assert 0 < await admin.pttl(f"{TAG}ratelimit:searchui:a") <= 60_000


# -- commands received -----------------------------------------------------------------------------------------------


async def whole_life(store: RedisRegistry, admin: Redis) -> None:
    """A row of every type, every read, and an export."""
    now = await now_ms(admin)
    await load(store, [*sample_writes(now), Append("cdc:overflow:sink", b"x"), CountUp("task_uid")])
    for table in TABLES:
        for index in table.indexes:
            values = tuple("x" for _ in index.by)
            if not any(column.name in index.by and column.kind != "text" for column in table.columns):
                await answer(store, Find(table, index.name, values, limit=3))
                await answer(store, CountRows(table, index.name, values))
    await store.run(jobs.claim("w", lease_ms=1000))
    await store.run(commit_of(Put(ALIASES, IndexAlias("a", AliasKind.SINGLE, None, ("error " * 30,), 1))))
    assert len([item async for item in store.dump()]) > 2000
    async for _ in store.watch(await store.revision() - 1):
        break


async def test_no_command_scans_all_keys(store: RedisRegistry, admin: Redis, server: Valkey) -> None:
    """ "`miroir:tasks:_index` pattern for list endpoints (no SCAN)" """
    seen: set[str] = set()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"MONITOR\r\n")
    assert await reader.readline() == b"+OK\r\n"
    watching = asyncio.ensure_future(_commands_until(reader, "enough", seen))
    await whole_life(store, admin)
    await admin.publish("enough", "")
    async with asyncio.timeout(PATIENCE_S):
        await watching
    writer.close()
    await writer.wait_closed()
    assert {"EVALSHA", "HSET", "ZADD", "XADD", "XREAD"} <= seen
    assert not {"KEYS", "SCAN", "HSCAN", "SSCAN", "ZSCAN", "RANDOMKEY"} & seen


async def _commands_until(reader: asyncio.StreamReader, last: str, seen: set[str]) -> None:
    while True:
        line = (await reader.readline()).decode(errors="replace")
        seen.add(line.split('"')[1].upper() if '"' in line else "")
        if f'"{last}"' in line:
            return


async def test_every_key_is_declared_and_shares_one_hash_tag(store: RedisRegistry, admin: Redis) -> None:
    await whole_life(store, admin)
    declared = {(doc.name.partition("<")[0], doc.kind.replace("sorted set", "zset")) for doc in KEY_DOCS}
    async for key in admin.scan_iter():
        name, kind = key.decode(errors="replace"), (await admin.type(key)).decode()
        assert name.startswith(TAG)
        short = name.removeprefix(TAG)
        assert any(short.startswith(start) and kind == known for start, known in declared), (name, kind)


@pytest.mark.parametrize("name", ["ratelimit:searchui:::1", "ratelimit:adminlogin:x", "ratelimit:z", "\x01a", "\x03"])
async def test_counters_are_listed_under_their_own_names(store: RedisRegistry, name: str) -> None:
    await store.run(commit_of(CountUp(name, 60_000)))
    items = [values["name"] async for kind, values in store.dump() if kind == "counter"]
    assert items == [name]
    await store.run(commit_of(DropCounter(name)))
    assert [kind async for kind, _ in store.dump() if kind == "counter"] == []
