"""Callers of one loop turn share a call to the server, and nothing else."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from argosy.base.clock import SystemClock, seeded_random
from argosy.base.errors import Conflict, Invalid, Unavailable
from argosy.registry.backends.redis import RedisRegistry
from argosy.registry.backends.redis_scripts import CALLERS_MAX
from argosy.registry.rows import AliasKind, IndexAlias, LivePod
from argosy.registry.tables import ALIASES, LIVE_PODS
from argosy.registry.transaction import CountUp, Delete, Get, Put, ReadCounter, ReadLog, Upsert
from tests.contracts.registry_stage import answer, commit_of, reads_of
from tests.servers.valkey import Valkey

ALIAS = IndexAlias("docs", AliasKind.SINGLE, "docs-1", (), 1)


@pytest.fixture(scope="module")
def server() -> Iterator[Valkey]:
    with Valkey() as started:
        yield started


@pytest.fixture
async def admin(server: Valkey) -> AsyncIterator[Redis]:
    client: Redis = Redis.from_url(server.url, decode_responses=True)
    await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture
async def store(server: Valkey, admin: Redis) -> AsyncIterator[RedisRegistry]:
    opened = await RedisRegistry.open(server.url, clock=SystemClock(), random=seeded_random(1))
    yield opened
    await opened.close()


async def calls(admin: Redis) -> int:
    stats = await admin.info("commandstats")
    return int(stats["cmdstat_evalsha"]["calls"])


async def test_callers_of_one_turn_share_calls(store: RedisRegistry, admin: Redis) -> None:
    await asyncio.gather(store.run(commit_of(CountUp("warm"))), answer(store, Get(ALIASES, ("docs",))))
    before = await calls(admin)
    names = [f"a{n}" for n in range(2 * CALLERS_MAX)]
    done = await asyncio.gather(*(store.run(commit_of(Put(ALIASES, replace(ALIAS, name=name)))) for name in names))
    assert await calls(admin) - before == 2
    assert len({each.revision for each in done}) == len(names)
    rows = await asyncio.gather(*(answer(store, Get(ALIASES, (name,))) for name in names))
    assert [row.name for row in rows] == names
    assert await calls(admin) - before == 4


async def test_a_rejected_commit_does_not_affect_its_neighbours(store: RedisRegistry) -> None:
    await store.run(commit_of(Put(ALIASES, ALIAS)))
    outcomes = await asyncio.gather(
        store.run(commit_of(Put(LIVE_PODS, LivePod("before", 1)), CountUp("n"))),
        store.run(
            commit_of(Put(LIVE_PODS, LivePod("never", 1)), Put(ALIASES, ALIAS), Put(LIVE_PODS, LivePod("no", 1)))
        ),
        store.run(commit_of(Put(LIVE_PODS, LivePod("after", 1)), CountUp("n"))),
        return_exceptions=True,
    )
    assert isinstance(outcomes[1], Conflict)
    found = [await answer(store, Get(LIVE_PODS, (name,))) is not None for name in ("before", "never", "no", "after")]
    assert found == [True, False, False, True]
    assert (await answer(store, ReadCounter("n")))[0] == 2


async def test_commits_of_one_call_see_one_another(store: RedisRegistry) -> None:
    done = await asyncio.gather(*(store.run(commit_of(Upsert(ALIASES, ALIAS))) for _ in range(10)))
    assert [each.versions for each in done] == [(n,) for n in range(1, 11)]


async def test_an_invalid_read_does_not_affect_its_neighbours(store: RedisRegistry) -> None:
    await store.run(commit_of(CountUp("number"), Put(ALIASES, ALIAS)))
    outcomes = await asyncio.gather(
        store.run(reads_of(ReadLog("number", 1))), answer(store, Get(ALIASES, ("docs",))), return_exceptions=True
    )
    assert isinstance(outcomes[0], Invalid)
    assert outcomes[1] == replace(ALIAS, version=1)


async def test_a_cancelled_caller_does_not_affect_its_neighbours(store: RedisRegistry) -> None:
    first = asyncio.ensure_future(store.run(commit_of(Put(LIVE_PODS, LivePod("a", 1)))))
    second = asyncio.ensure_future(store.run(commit_of(Put(LIVE_PODS, LivePod("b", 1)))))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).versions == (1,)
    assert first.cancelled()


async def test_callers_of_a_broken_connection_each_get_an_error_of_their_own(
    store: RedisRegistry, server: Valkey
) -> None:
    wire = await store._mux.connection()
    server.pause()
    pending = [asyncio.ensure_future(store.run(commit_of(Upsert(ALIASES, ALIAS)))) for _ in range(5)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    wire.abort("cut")
    outcomes = await asyncio.gather(*pending, return_exceptions=True)
    server.resume()
    assert [type(each) for each in outcomes] == [Unavailable] * 5
    assert len({id(each) for each in outcomes}) == 5


async def test_scripts_unknown_to_the_server_are_loaded_again(store: RedisRegistry, admin: Redis) -> None:
    await store.run(commit_of(Upsert(ALIASES, ALIAS)))
    await admin.script_flush()
    done = await asyncio.gather(*(store.run(commit_of(Upsert(ALIASES, ALIAS))) for _ in range(40)))
    assert sorted(each.versions[0] for each in done) == list(range(2, 42))


async def test_removals_go_alone_so_that_a_full_server_does_them(store: RedisRegistry, admin: Redis) -> None:
    await store.run(commit_of(Put(ALIASES, ALIAS)))
    await admin.config_set("maxmemory", "1mb")
    outcomes = await asyncio.gather(
        store.run(commit_of(Put(LIVE_PODS, LivePod("a", 1)))),
        store.run(commit_of(Delete(ALIASES, replace(ALIAS, version=1)))),
        store.run(commit_of(Put(LIVE_PODS, LivePod("b", 1)))),
        return_exceptions=True,
    )
    await admin.config_set("maxmemory", "0")
    assert [isinstance(each, Unavailable) for each in outcomes] == [True, False, True]
    assert await answer(store, Get(ALIASES, ("docs",))) is None
    assert await answer(store, Get(LIVE_PODS, ("a",))) is None
