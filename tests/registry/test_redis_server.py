"""The registry on a server that fails, forgets, is full, is a replica, or belongs to a newer argosy."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from redis.asyncio import Redis

from argosy.base.backends.redis import connection as redis_connection
from argosy.base.backends.redis.connection import RedisConnection
from argosy.base.clock import SystemClock, seeded_random
from argosy.base.errors import Conflict, Gone, Invalid, Unavailable
from argosy.registry import jobs
from argosy.registry.backends import redis as redis_backend
from argosy.registry.backends.redis import RedisRegistry
from argosy.registry.backends.redis_keys import RegistryKeys
from argosy.registry.backends.redis_schema import RedisMigration
from argosy.registry.ports import Change
from argosy.registry.rows import AliasKind, IndexAlias, Tenant
from argosy.registry.tables import ALIASES, TENANT_MAP
from argosy.registry.transaction import (
    Append,
    CountUp,
    Delete,
    Get,
    Notify,
    Put,
    TransactionBody,
    Upsert,
    commit,
    get,
    transaction,
)
from tests.contracts.registry_stage import answer, commit_of
from tests.servers.valkey import Valkey, free_port

PATIENCE_S = 20.0
ALIAS = IndexAlias("docs", AliasKind.SINGLE, "docs-1", (), 1)
Open = Callable[..., Awaitable[RedisRegistry]]


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Valkey]:
    """One per test, since these tests stop it; by default without persistence."""
    with Valkey(is_durable=getattr(request, "param", False)) as started:
        yield started


@pytest.fixture
async def opened() -> AsyncIterator[Open]:
    stores: list[RedisRegistry] = []

    async def open_one(url: str, **given: Any) -> RedisRegistry:
        store = await RedisRegistry.open(url, clock=SystemClock(), random=seeded_random(1), **given)
        stores.append(store)
        return store

    yield open_one
    for store in stores:
        await store.close()


@pytest.fixture
async def admin(server: Valkey) -> AsyncIterator[Redis]:
    client: Redis = Redis.from_url(server.url, decode_responses=True)
    yield client
    await client.aclose()


durable = pytest.mark.parametrize("server", [True], indirect=True)


@transaction
def flip(name: str, uid: str) -> TransactionBody[IndexAlias]:
    alias = yield from get(ALIASES, name)
    assert alias is not None
    yield from commit(Put(ALIASES, replace(alias, current_uid=uid)))
    return alias


async def persistently(call: Callable[[], Awaitable[Any]]) -> Any:
    """The first answer that is not Unavailable."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await call()
            except Unavailable:
                continue


# -- connection faults ------------------------------------------------------------------------------------------------


async def test_an_unreachable_server_is_unavailable_at_once_and_its_password_is_not_shown(opened: Open) -> None:
    with pytest.raises(Unavailable, match=r"unreachable: .*; check that it is running") as refused:
        await opened(f"redis://user:secret@127.0.0.1:{free_port()}/0")
    assert "secret" not in str(refused.value)


async def test_a_wrong_password_is_reported_and_not_shown(opened: Open) -> None:
    with Valkey(options=("--requirepass", "right")) as server:
        for url, complaint in (
            (f"redis://:wrong@127.0.0.1:{server.port}", "rejected the login; check the user and the password"),
            (f"redis://127.0.0.1:{server.port}", "requires a password"),
        ):
            with pytest.raises(Unavailable, match=complaint) as refused:
                await opened(url)
            assert "wrong" not in str(refused.value)
        store = await opened(f"redis://:right@127.0.0.1:{server.port}")
        assert (await store.run(commit_of(Put(ALIASES, ALIAS)))).versions == (1,)


async def test_a_needless_password_is_rejected_and_not_shown(opened: Open, server: Valkey) -> None:
    with pytest.raises(Unavailable, match="rejected the login") as refused:
        await opened(f"redis://:secret@127.0.0.1:{server.port}")
    assert "secret" not in str(refused.value)


async def test_a_lost_reply_is_unavailable_and_the_commit_is_atomic(opened: Open, server: Valkey, admin: Redis) -> None:
    """A commit is one script: a crash finds it done or not started, and a caller that lost the reply can read it."""
    store, other = await opened(server.url), await opened(server.url)
    names = [client["id"] for client in await admin.client_list() if client["name"] == "argosy-registry"]
    writes = [Put(ALIASES, replace(ALIAS, name=f"a{n}")) for n in range(200)]
    pending = asyncio.ensure_future(store.run(commit_of(*writes, CountUp("task_uid"), Append("cdc:overflow:s", b"x"))))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for name in names:
        await admin.client_kill_filter(_id=name)
    (outcome,) = await asyncio.gather(pending, return_exceptions=True)
    assert not isinstance(outcome, Exception) or "may or may not have taken effect" in str(outcome)
    await persistently(other.revision)
    rows = [alias for alias in [await answer(other, Get(ALIASES, (f"a{n}",))) for n in range(200)] if alias]
    counted = await admin.get("{argosy}:task_uid")
    assert (len(rows), counted) in ((200, "1"), (0, None))


async def test_a_hung_server_times_out(opened: Open, server: Valkey, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await opened(server.url)
    wire = await store._mux.connection()
    wire._timeout_s = 0.05
    server.pause()
    with pytest.raises(Unavailable, match="no answer within"):
        await store.run(commit_of(Put(ALIASES, ALIAS)))
    server.resume()
    assert (await persistently(lambda: store.run(commit_of(Upsert(ALIASES, ALIAS))))).versions in ((1,), (2,))


async def test_scripts_lost_by_the_server_are_loaded_again(opened: Open, server: Valkey, admin: Redis) -> None:
    store = await opened(server.url)
    await store.run(commit_of(Put(ALIASES, ALIAS)))
    await admin.script_flush()
    assert (await store.run(flip("docs", "docs-2"))).current_uid == "docs-1"
    assert (await answer(store, Get(ALIASES, ("docs",)))).current_uid == "docs-2"


# -- a server that rejects --------------------------------------------------------------------------------------------


async def test_when_maxmemory_is_reached_nothing_is_written_and_pruning_works(
    opened: Open, server: Valkey, admin: Redis
) -> None:
    store = await opened(server.url)
    await store.run(commit_of(*(Put(ALIASES, replace(ALIAS, name=f"a{n}")) for n in range(50))))
    before = sorted([repr(item) async for item in store.dump()])
    revision = await store.revision()
    await admin.config_set("maxmemory-policy", "noeviction")
    await admin.config_set("maxmemory", "1mb")
    moved = replace(ALIAS, name="a0", created_at=9, version=1)
    refused = (Put(ALIASES, ALIAS), Put(ALIASES, moved), CountUp("task_uid"), Append("cdc:overflow:s", b"x"))
    for write in refused:
        with pytest.raises(Unavailable, match="is out of memory, nothing was written; raise its maxmemory"):
            await store.run(commit_of(write))
        with pytest.raises(Unavailable, match="maxmemory"):
            await store.run(commit_of(Delete(ALIASES, replace(ALIAS, name="a1", version=1)), write))
    assert sorted([repr(item) async for item in store.dump()]) == before
    assert await store.revision() == revision
    await store.run(commit_of(*(Delete(ALIASES, replace(ALIAS, name=f"a{n}", version=1)) for n in range(50))))
    assert [item async for item in store.dump()] == []


async def test_a_read_only_replica_is_rejected_with_advice(opened: Open, server: Valkey) -> None:
    advice = "is a replica, nothing was written; set the URL to the primary"
    with (
        Valkey(options=("--replicaof", "127.0.0.1", str(server.port))) as replica,
        pytest.raises(Unavailable, match=advice),
    ):
        await opened(replica.url)


async def test_a_primary_that_became_a_replica_is_rejected_until_it_is_one_again(
    opened: Open, server: Valkey, admin: Redis
) -> None:
    store = await opened(server.url)
    await store.run(commit_of(Put(ALIASES, ALIAS)))
    await admin.replicaof("127.0.0.1", str(free_port()))
    with pytest.raises(Unavailable, match="set the URL to the primary"):
        await store.run(commit_of(Upsert(ALIASES, ALIAS)))
    await admin.replicaof("NO", "ONE")
    assert (await persistently(lambda: store.run(commit_of(Upsert(ALIASES, ALIAS))))).versions == (2,)


async def test_a_name_used_for_a_log_cannot_be_a_counter(opened: Open, server: Valkey) -> None:
    store = await opened(server.url)
    await store.run(commit_of(Append("mine", b"x")))
    with pytest.raises(Invalid, match="already used for something else"):
        await store.run(commit_of(Put(ALIASES, ALIAS), CountUp("mine")))
    assert await answer(store, Get(ALIASES, ("docs",))) is None


async def test_a_transaction_that_always_loses_fails(
    opened: Open, server: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_backend, "ATTEMPTS_MAX", 3)
    store, rival = await opened(server.url), await opened(server.url)
    await store.run(commit_of(Put(ALIASES, ALIAS)))
    reads = store.read_many

    async def slipped_in(questions: Any) -> Any:
        answers = await reads(questions)
        await rival.run(commit_of(Upsert(ALIASES, ALIAS)))
        return answers

    monkeypatch.setattr(store, "read_many", slipped_in)
    with pytest.raises(Unavailable, match="lost 3 races"):
        await store.run(flip("docs", "x"))


# -- restarts ---------------------------------------------------------------------------------------------------------


@durable
async def test_acknowledged_commits_survive_a_restart(opened: Open, server: Valkey) -> None:
    """ "Integration test for pod restart simulation" """
    store = await opened(server.url)
    for n in range(20):
        await store.run(jobs.enqueue(f"j{n}", "t", {}))
    await store.run(jobs.claim("w", lease_ms=60_000))
    before = sorted([repr(item) async for item in store.dump()])
    server.restart()
    items = await persistently(lambda: _dumped(store))
    assert items == before
    assert await store.run(jobs.complete("j0", "w", 1))


async def _dumped(store: RedisRegistry) -> list[str]:
    return sorted([repr(item) async for item in store.dump()])


async def test_a_server_without_persistence_starts_empty_and_watchers_get_gone(opened: Open, server: Valkey) -> None:
    store = await opened(server.url)
    done = await store.run(commit_of(Put(ALIASES, ALIAS)))
    server.restart()
    again = await persistently(lambda: store.run(commit_of(Upsert(ALIASES, ALIAS))))
    assert again.versions == (1,)
    assert again.revision > done.revision
    with pytest.raises(Gone):
        await anext(aiter(store.watch(done.revision)))


@durable
async def test_a_watcher_across_a_restart_gets_gone(opened: Open, server: Valkey) -> None:
    """The server may have lost the last second, so nothing read before is certain."""
    store = await opened(server.url)
    start = await store.revision()
    await store.run(commit_of(Put(ALIASES, ALIAS)))
    changes = aiter(store.watch(start))
    assert (await anext(changes)).key == ("docs",)
    waiting = asyncio.ensure_future(anext(changes))  # type: ignore[arg-type]
    server.restart()
    await persistently(lambda: store.run(commit_of(Upsert(ALIASES, ALIAS))))
    with pytest.raises(Gone):
        async with asyncio.timeout(PATIENCE_S):
            await waiting


async def test_a_watcher_of_a_flushed_server_gets_gone(opened: Open, server: Valkey, admin: Redis) -> None:
    store = await opened(server.url)
    done = await store.run(commit_of(Put(ALIASES, ALIAS)))
    waiting = asyncio.ensure_future(anext(aiter(store.watch(done.revision))))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    await admin.flushall()
    await store.run(commit_of(Put(ALIASES, ALIAS)))
    with pytest.raises(Gone):
        async with asyncio.timeout(PATIENCE_S):
            await waiting


async def test_a_lagging_watcher_gets_an_error(opened: Open, server: Valkey) -> None:
    store = await opened(server.url)
    start = await store.revision()
    rows = [Upsert(TENANT_MAP, Tenant(f"{n:064}", "t", None)) for n in range(500)]
    for _ in range(4):
        await store.run(commit_of(*rows))
    with pytest.raises(Gone):
        await anext(aiter(store.watch(start)))
    with pytest.raises(Gone):
        await anext(aiter(store.watch(await store.revision() + 1)))
    latest: Change = await anext(aiter(store.watch(await store.revision() - 1)))
    assert latest == Change(await store.revision(), "tenant_map", (f"{499:064}",), False)


async def test_a_listener_reconnects_after_a_restart(opened: Open, server: Valkey) -> None:
    store = await opened(server.url)
    messages = aiter(store.listen("admin_session:revoked"))
    waiting = asyncio.ensure_future(anext(messages))  # type: ignore[arg-type]
    assert await _notify_until_received(store, waiting, "before") == "before"
    server.restart()
    waiting = asyncio.ensure_future(anext(messages))  # type: ignore[arg-type]
    assert await _notify_until_received(store, waiting, "after") in ("before", "after")


async def _notify_until_received(store: RedisRegistry, waiting: "asyncio.Future[str]", message: str) -> str:
    async with asyncio.timeout(PATIENCE_S):
        while not waiting.done():
            try:
                await store.run(commit_of(Notify("admin_session:revoked", message)))
            except Unavailable:
                continue
    return await waiting


async def test_a_slow_listener_gets_gone(opened: Open, server: Valkey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_connection, "MESSAGES_MAX", 5)
    store = await opened(server.url)
    messages = aiter(store.listen("noise"))
    waiting = asyncio.ensure_future(anext(messages))  # type: ignore[arg-type]
    async with asyncio.timeout(PATIENCE_S):
        while not waiting.done():
            await store.run(commit_of(Notify("noise", "x")))
    await store.run(commit_of(*(Notify("noise", str(n)) for n in range(50))))

    async def listen_on() -> None:
        async with asyncio.timeout(PATIENCE_S):
            async for _ in messages:
                await store.run(commit_of(*(Notify("noise", str(n)) for n in range(50))))

    with pytest.raises(Gone, match="behind"):
        await listen_on()


async def test_closing_the_registry_ends_its_watchers(opened: Open, server: Valkey) -> None:
    store = await opened(server.url)
    watching = asyncio.ensure_future(anext(aiter(store.watch(await store.revision()))))  # type: ignore[arg-type]
    listening = asyncio.ensure_future(anext(aiter(store.listen("x"))))  # type: ignore[arg-type]
    await store.revision()
    await store.close()
    for waiting in (watching, listening):
        with pytest.raises(Unavailable):
            async with asyncio.timeout(PATIENCE_S):
                await waiting


# -- versions of the layout -------------------------------------------------------------------------------------------


async def test_a_registry_of_a_newer_argosy_is_not_modified(opened: Open, server: Valkey, admin: Redis) -> None:
    await opened(server.url)
    await admin.hset("{argosy}:_meta", "schema", "99")
    with pytest.raises(Conflict, match="schema version 99 and this argosy knows 1"):
        await opened(server.url)


async def test_an_older_registry_is_migrated_step_by_step_by_one(opened: Open, server: Valkey, admin: Redis) -> None:
    done: list[int] = []

    def step(number: int) -> RedisMigration:
        async def run(wire: RedisConnection, keys: RegistryKeys) -> None:
            assert await wire.send("EXISTS", keys.migrating)
            done.append(number)

        return RedisMigration(number, "for the test", run)

    await opened(server.url)
    await opened(server.url, version=3, steps=(step(2), step(3)))
    assert (done, await admin.hget("{argosy}:_meta", "schema")) == ([2, 3], "3")
    assert await admin.exists("{argosy}:_migrating") == 0
    with pytest.raises(Invalid, match="there is no way from there to 5"):
        await opened(server.url, version=5, steps=(step(5),))
    await admin.set("{argosy}:_migrating", "another")
    with pytest.raises(Unavailable, match="another process is migrating"):
        await opened(server.url, version=4, steps=(step(4),))


async def test_many_who_come_first_at_once_agree(opened: Open, server: Valkey, admin: Redis) -> None:
    """Defect R25: GET then SET raced on first start."""
    stores = await asyncio.gather(*(opened(server.url) for _ in range(20)))
    revisions = {await store.revision() for store in stores}
    assert len(revisions) == 1
    assert await admin.hget("{argosy}:_meta", "schema") == "1"


async def test_a_half_imported_registry_is_not_opened(opened: Open, server: Valkey) -> None:
    store, empty = await opened(server.url), await opened(server.url, namespace="other")
    await store.run(commit_of(Put(ALIASES, ALIAS)))

    async def broken_off() -> AsyncIterator[tuple[str, dict[str, Any]]]:
        async for item in store.dump():
            yield item
        raise RuntimeError("the file ended")

    with pytest.raises(RuntimeError):
        await empty.load(broken_off())
    with pytest.raises(Conflict, match="is half imported"):
        await opened(server.url, namespace="other")


async def test_an_import_needs_an_empty_registry_and_keeps_everything(opened: Open, server: Valkey) -> None:
    store, empty = await opened(server.url), await opened(server.url, namespace="other")
    await store.run(commit_of(Put(ALIASES, ALIAS), CountUp("task_uid"), Append("cdc:overflow:s", b"ab", keep=1)))
    await store.run(commit_of(Upsert(ALIASES, ALIAS), Append("cdc:overflow:s", b"cd", keep=1), CountUp("r:x", 60_000)))
    assert await empty.load(store.dump()) == 4
    assert await _dumped(empty) == await _dumped(store)
    with pytest.raises(Conflict, match="an import needs an empty registry"):
        await store.load(empty.dump())
