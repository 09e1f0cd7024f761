"""Document 004, "Task Registry + Persistence": its definition of done and its keyspace. Each test quotes its sentence.

The document's statements on the chart and on memory are proved by the tests of the chart and of the memory page.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from argosy.base.clock import SystemClock, seeded_random
from argosy.base.errors import ArgosyError, Conflict, Invalid
from argosy.registry import (
    aliases,
    canaries,
    catalog,
    changes,
    crud,
    idempotency,
    jobs,
    leadership,
    limits,
    open_registry,
    policies,
    scoped_keys,
    sessions,
    settings_versions,
    tasks,
)
from argosy.registry.backends.redis import RedisRegistry
from argosy.registry.backends.redis_keys import RegistryKeys
from argosy.registry.backends.sqlite import SqliteStore
from argosy.registry.ports import RegistryStore
from argosy.registry.rows import ControlJobState, LivePod, RolloverPolicy, RunStatus
from argosy.registry.tables import LIVE_PODS, ROLLOVER_POLICIES, SEARCH_UI_CONFIG, TABLES
from argosy.registry.transaction import Get, Put, Transaction, TransactionBody, Upsert, commit, get, now, transaction
from tests.contracts import registry_moves as moves
from tests.contracts.registry_moves import timeless
from tests.contracts.registry_stage import answer, commit_of
from tests.contracts.test_registry_rows import full
from tests.registry.interpreter import Interpreter
from tests.servers.valkey import Valkey

NAMESPACE = "design"
DOCUMENTED = (
    "tasks", "node_settings_version", "aliases", "sessions", "idempotency_cache", "jobs", "leader_lease", "canaries",
    "canary_runs", "cdc_cursors", "tenant_map", "rollover_policies", "search_ui_config", "admin_sessions",
)  # fmt: skip
NEVER, ENDS = False, True


@pytest.fixture(scope="module")
def server() -> Iterator[Valkey]:
    with Valkey() as valkey:
        yield valkey


@pytest.fixture
def raw(server: Valkey) -> Iterator[redis.Redis]:
    client = redis.Redis.from_url(server.url)
    client.flushall()
    yield client
    client.close()


@pytest.fixture(params=["sqlite", "redis"])
async def url(request: pytest.FixtureRequest, tmp_path: Path, server: Valkey) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/registry.db"
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    return server.url


async def open_initialised(url: str) -> RegistryStore:
    return await open_registry(url, clock=SystemClock(), random=seeded_random(1), namespace=NAMESPACE)


@pytest.fixture
async def redis_store(server: Valkey, raw: redis.Redis) -> AsyncIterator[RegistryStore]:
    store = await open_initialised(server.url)
    yield store
    await store.close()


# -- definition of done -------------------------------------------------------------------------------------------


def test_all_fourteen_tables_are_declared() -> None:
    """ "covering all 14 tables from plan §4" """
    declared = {table.name for table in TABLES} | {"canary_runs"}  # runs are a log, not rows
    assert set(DOCUMENTED) <= declared


async def test_every_table_exists_and_opening_is_idempotent(tmp_path: Path) -> None:
    """ "rusqlite-backed store initializing every table idempotently" """
    url = f"sqlite:///{tmp_path}/registry.db"
    first = await open_initialised(url)
    await first.run(commit_of(*(Put(table, full(table)) for table in TABLES)))
    second = await open_initialised(url)
    await second.close()
    third = await open_initialised(url)
    for table in TABLES:
        row = full(table)
        assert await answer(third, Get(table, table.key_of(row))) == replace(row, version=1)
    await first.close()
    await third.close()


async def test_concurrent_initialisation_succeeds(url: str) -> None:
    """ "SQLite backend with idempotent schema initialization" """
    stores = await asyncio.gather(*(open_initialised(url) for _ in range(8)))
    await asyncio.gather(*(store.run(tasks.next_uid()) for store in stores))
    assert await stores[0].run(tasks.next_uid()) == 9
    for store in stores:
        await store.close()


async def test_both_stores_return_the_same_results(tmp_path: Path, server: Valkey, raw: redis.Redis) -> None:
    """ "Redis-backed store mirroring the same API (TaskStore trait)" """
    programs: list[Transaction[Any]] = [
        aliases.create("docs", ["docs-1"]),
        aliases.create("docs", ["docs-1"]),
        aliases.flip("docs", ["docs-2"], expected_version=1),
        jobs.enqueue("j", "import", {"n": 1}),
        jobs.claim("w"),
        leadership.acquire("ilm", "w"),
        idempotency.begin("k", b"b" * 32),
        idempotency.begin("k", b"c" * 32),
    ]
    answers = []
    for url in (f"sqlite:///{tmp_path}/registry.db", server.url):
        store = await open_initialised(url)
        answers.append([await run_or_error(store, program) for program in programs])
        await store.close()
    assert answers[0] == answers[1]
    assert answers[0][1] == "Conflict"


async def run_or_error(store: RegistryStore, program: Transaction[Any]) -> object:
    try:
        return timeless(await store.run(program))
    except ArgosyError as error:
        return type(error).__name__


async def test_the_url_chooses_the_store(tmp_path: Path, server: Valkey) -> None:
    """ "Unified TaskStore trait with runtime backend selection" """
    wanted = {f"sqlite:///{tmp_path}/r.db": SqliteStore, "memory://": SqliteStore, server.url: RedisRegistry}
    for url, kind in wanted.items():
        store = await open_initialised(url)
        assert isinstance(store, kind)
        await store.close()
    with pytest.raises(Invalid, match="did you mean redis"):
        await open_initialised("rediss3://host")


async def test_a_store_with_a_newer_schema_is_rejected(
    server: Valkey, redis_store: RegistryStore, tmp_path: Path
) -> None:
    """ "Schema versioning with schema_version row" """
    clock, random = SystemClock(), seeded_random(1)
    path = f"sqlite:///{tmp_path}/r.db"
    newer = await SqliteStore.open(path, clock=clock)
    await newer.close()
    with pytest.raises((Conflict, Invalid), match="version"):
        await SqliteStore.open(path, clock=clock, version=0)
    with pytest.raises((Conflict, Invalid), match="version"):
        await RedisRegistry.open(server.url, clock=clock, random=random, namespace=NAMESPACE, version=0)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.one_of(moves.TASKS, moves.JOBS, moves.NAMES_AND_LEASES), max_size=25))
def test_sqlite_matches_the_model_for_any_sequence(moves_played: list[moves.Move]) -> None:
    """ "Property tests on SQLite backend" """

    async def both() -> None:
        store, oracle = await open_initialised("memory://"), Interpreter()
        for move in moves_played:
            try:
                expected = timeless(oracle.run(move.begin()), is_timed=move.is_timed)
            except ArgosyError as error:
                expected = type(error).__name__
            try:
                given_back = timeless(await store.run(move.begin()), is_timed=move.is_timed)
            except ArgosyError as error:
                given_back = type(error).__name__
            assert without_order(given_back) == without_order(expected)
        await store.close()

    asyncio.run(both())
    assert len(moves_played) <= 25


def without_order(answer: object) -> object:
    """Rows of one millisecond may come in any order."""
    return sorted(answer, key=repr) if isinstance(answer, list) else answer


async def test_nothing_is_lost_when_a_pod_restarts(url: str) -> None:
    """ "Integration test for pod restart simulation" """
    before = await open_initialised(url)
    await before.run(commit_of(*(Upsert(table, full(table)) for table in TABLES)))
    await before.run(tasks.next_uid())
    await before.run(changes.push("hook", b"event"))
    await before.run(jobs.enqueue("j", "t", {}))
    claimed = await before.run(jobs.claim("pod-1", types=["t"]))
    await before.close()
    after = await open_initialised(url)
    for table in TABLES:
        row = full(table)
        assert await answer(after, Get(table, table.key_of(row))) == replace(row, version=1)
    assert await after.run(tasks.next_uid()) == 2
    assert await after.run(changes.pop("hook")) == (b"event",)
    assert claimed is not None
    assert await after.run(jobs.complete(claimed.job_id, "pod-1", claimed.fence)), "the claim is still this pod's"
    await after.close()


def test_the_tests_run_on_a_real_server(server: Valkey) -> None:
    """ "Redis-backend integration tests with testcontainers" """
    with redis.Redis.from_url(server.url) as client:
        assert client.info("server")["server_name"] == "valkey"


async def test_lists_use_indexes_without_scans(redis_store: RegistryStore, raw: redis.Redis) -> None:
    """ "miroir:tasks:_index pattern for list endpoints (no SCAN)" """
    raw.config_resetstat()
    await keyspace(redis_store)
    for table in TABLES:
        if any(index.name == "all" for index in table.indexes):
            await redis_store.run(crud.every(table))
    await redis_store.run(tasks.page(limit=10))
    await redis_store.run(tasks.prune(1 << 50))
    await redis_store.run(jobs.prune(1 << 50))
    await redis_store.run(sessions.prune_admins())
    async for _ in redis_store.dump():
        pass
    used = {name.removeprefix("cmdstat_").partition("|")[0] for name in raw.info("commandstats")}
    assert used & {"scan", "keys", "hscan", "sscan", "zscan", "randomkey"} == set()


async def test_a_claim_returns_the_updated_job(url: str) -> None:
    """ "Fixed job_dequeue() to properly fetch the updated job after transaction … Previously returned a stale Job
    object from before the UPDATE" """
    store = await open_initialised(url)
    await store.run(jobs.enqueue("j", "t", {}))
    job = await store.run(jobs.claim("w"))
    assert job is not None
    assert (job.state, job.claimed_by, job.attempts) == (ControlJobState.IN_PROGRESS, "w", 1)
    assert await store.run(jobs.read("j")) == job
    await store.close()


async def test_a_new_feature_needs_no_new_backend(url: str) -> None:
    """ "All future features … can consume this persistence layer without modification." """

    @transaction
    def rename(old: str, new: str) -> TransactionBody[LivePod | None]:
        clock = yield from now()
        pod = yield from get(LIVE_PODS, old)
        if pod is None or (yield from get(LIVE_PODS, new)) is not None:
            return None
        yield from commit(Put(LIVE_PODS, LivePod(new, clock)))
        return pod

    store = await open_initialised(url)
    await store.run(commit_of(Put(LIVE_PODS, LivePod("a", 1))))
    assert await store.run(rename("a", "b")) == LivePod("a", 1, 1)
    assert await store.run(rename("a", "b")) is None
    await store.close()


# -- keyspace -----------------------------------------------------------------------------------------------------


async def keyspace(store: RegistryStore) -> None:
    """One row of every table and one key of every kind."""
    runs: list[Transaction[Any]] = [
        tasks.insert("t1", 1),
        settings_versions.advance("i1", "n1", 1),
        aliases.create("a1", ["i1"]),
        sessions.upsert("s1", last_write_task_id=None, last_write_at=None, pinned_groups={}, min_settings_version=0),
        idempotency.begin("k1", b"b" * 32),
        jobs.enqueue("j1", "t", {}),
        leadership.acquire("ilm", "n1"),
        canaries.create("c1", "name", index_uid="i1", interval_s=60, query={}, assertions=[]),
        canaries.append_run("c1", RunStatus.PASS, 1),
        changes.advance("sink1", "i1", expected_seq=0, new_seq=1),
        policies.put_tenant(policies.hash_api_key("key"), "acme"),
        policies.put_rollover(RolloverPolicy("p1", "w", "r", "x-{n}", {}, {}, {}, True)),
        policies.put_search_ui("i1", {}),
        sessions.insert_admin("s1", csrf_token="t", admin_key_hash="h"),
        catalog.add("r1", "https://example.org/r.git"),
        limits.hit_search_ui("10.0.0.1"),
        limits.hit_admin_login("10.0.0.1"),
        limits.login_failed("10.0.0.1"),
        changes.push("sink1", b"event"),
        scoped_keys.rotate("i1", "uid", expected_generation=0),
        scoped_keys.observe("pod1", "i1", 1),
    ]
    for run in runs:
        await store.run(run)


KEYSPACE = [
    ("miroir:tasks:{miroir_id}", "tasks:t1", b"hash", NEVER),
    ("miroir:tasks:_index", "tasks:_index", b"zset", NEVER),
    ("miroir:node_settings_version:{index}:{node}", "node_settings_version:i1", b"hash", NEVER),
    ("miroir:aliases:{name}", "aliases:a1", b"hash", NEVER),
    ("miroir:aliases:_index", "aliases:_index", b"zset", NEVER),
    ("miroir:sessions:{session_id}", "sessions:s1", b"hash", ENDS),
    ("miroir:idempotency_cache:{key}", "idempotency_cache:k1", b"string", ENDS),
    ("miroir:jobs:{job_id}", "jobs:j1", b"hash", NEVER),
    ("miroir:jobs:_index", "jobs:_index", b"zset", NEVER),
    ("miroir:leader_lease", "leader_lease", b"hash", NEVER),
    ("miroir:canaries:{name}", "canaries", b"hash", NEVER),
    ("miroir:canary_runs:{canary}:index", "canary_runs:c1", b"list", NEVER),
    ("miroir:cdc_cursors:{sink}:{index}", "cdc_cursors:sink1", b"hash", NEVER),
    ("miroir:tenant_map:{api_key}", "tenant_map", b"hash", NEVER),
    ("miroir:rollover_policies:{name}", "rollover_policies", b"hash", NEVER),
    ("miroir:search_ui_config:{index}", "search_ui_config", b"hash", NEVER),
    ("miroir:admin_sessions:{session_id}", "admin_sessions:s1", b"hash", ENDS),
    ("miroir:ratelimit:searchui:{ip}", "ratelimit:searchui:10.0.0.1", b"string", ENDS),
    ("miroir:ratelimit:adminlogin:{ip}", "ratelimit:adminlogin:10.0.0.1", b"string", ENDS),
    ("miroir:ratelimit:adminlogin:backoff:{ip}", "ratelimit:adminlogin:backoff:10.0.0.1", b"hash", ENDS),
    ("miroir:cdc:overflow:{sink}", "cdc:overflow:sink1", b"list", NEVER),
    ("miroir:search_ui_scoped_key:{index}", "search_ui_scoped_key", b"hash", NEVER),
    ("miroir:search_ui_scoped_key_observed:{pod}:{index}", "search_ui_scoped_key_observed:pod1:i1", b"hash", ENDS),
    ("miroir:schema_version", "_meta", b"hash", NEVER),
]


async def test_every_keyspace_line_has_its_key(redis_store: RegistryStore, raw: redis.Redis) -> None:
    """ "Every table in the task store maps to a Redis hash + _index secondary set for O(cardinality) list queries
    without SCAN." Small tables lie in one hash, which is its own index; see the ruling on each in the keys page."""
    await keyspace(redis_store)
    prefix = RegistryKeys(NAMESPACE).prefix
    actual = [(line, key, raw.type(prefix + key), raw.pttl(prefix + key) > 0) for line, key, _, _ in KEYSPACE]
    assert actual == KEYSPACE


async def test_no_raw_api_key_is_in_the_store(redis_store: RegistryStore, raw: redis.Redis) -> None:
    """ "miroir:tenant_map:{api_key}", ruled: the hash of the key, never the key."""
    await keyspace(redis_store)
    assert list(raw.hgetall(RegistryKeys(NAMESPACE).prefix + "tenant_map")) == [policies.hash_api_key("key").encode()]


async def test_sessions_expire_by_ttl(redis_store: RegistryStore, raw: redis.Redis) -> None:
    """ "Sessions: TTL-bound, naturally expires" """
    await keyspace(redis_store)
    left_ms = raw.pttl(RegistryKeys(NAMESPACE).prefix + "sessions:s1")
    assert 0 < left_ms <= sessions.TTL_MS


async def test_overflow_is_bounded_per_sink(url: str) -> None:
    """ "CDC overflow: Can be up to 1 GiB per sink (configurable)" """
    assert changes.OVERFLOW_BYTES == 1 << 30
    store = await open_initialised(url)
    for n in range(10):
        await store.run(changes.push("small", b"x" * 10, max_bytes=45))
        await store.run(changes.push("other", b"%d" % n))
    assert await store.run(changes.overflow("small")) == changes.OverflowStats(4, 40, 6)
    assert (await store.run(changes.overflow("other"))).events == 10
    await store.close()


async def test_a_canary_can_keep_a_thousand_runs(url: str) -> None:
    """ "10 canaries with 1000 runs each" """
    store = await open_initialised(url)
    await store.run(canaries.create("c1", "name", index_uid="i1", interval_s=60, query={}, assertions=[]))
    appends = (canaries.append_run("c1", RunStatus.PASS, 1, keep=1000) for _ in range(1010))
    await asyncio.gather(*map(store.run, appends))
    assert (await store.run(canaries.run_stats("c1"))).runs == 1000
    await store.close()


async def test_small_tables_are_listed_whole(url: str) -> None:
    """ "20 rollover policies", "Search UI configs: 10", "100 tenants" """
    store = await open_initialised(url)
    for n in range(20):
        await store.run(policies.put_rollover(RolloverPolicy(f"p{n}", "w", "r", "x", {}, {}, {}, True)))
        await store.run(policies.put_search_ui(f"i{n}", {"n": n}))
    for n in range(100):
        await store.run(policies.put_tenant(policies.hash_api_key(str(n)), "acme", n))
    assert len(await store.run(crud.every(ROLLOVER_POLICIES))) == 20
    assert len(await store.run(crud.every(SEARCH_UI_CONFIG))) == 20
    assert {tenant.group_id for tenant in await store.run(policies.list_tenants())} == set(range(100))
    await store.close()
