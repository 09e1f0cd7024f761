"""Races, on every backend: of many concurrent operations exactly as many succeed as allowed."""

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from argosy.base.errors import Conflict
from argosy.registry import (
    aliases,
    catalog,
    changes,
    idempotency,
    jobs,
    leadership,
    limits,
    scoped_keys,
    settings_versions,
    tasks,
)
from argosy.registry.idempotency import IdempotencyVerdict
from argosy.registry.ports import RegistryStore
from argosy.registry.rows import ControlJobState, LivePod
from argosy.registry.tables import LIVE_PODS
from argosy.registry.transaction import Put, TransactionBody, Upsert, commit, get, transaction
from tests.contracts.registry_stage import RACERS, Stage, commit_of, errors, race, results, url_of
from tests.servers.valkey import Valkey

CLIENTS = 4
BODY = b"b" * 32


async def clients(stage: Stage) -> list[RegistryStore]:
    return [await stage.open() for _ in range(CLIENTS)]


async def test_every_job_is_claimed_once(stage: Stage) -> None:
    stores = await clients(stage)
    for n in range(RACERS // 2):
        await stores[0].run(jobs.enqueue(f"j{n}", "t", {}))
    outcomes = await race(stores, [jobs.claim(f"w{n}") for n in range(RACERS)])
    assert errors(outcomes) == []
    claimed = [job for job in results(outcomes) if job is not None]
    assert sorted(job.job_id for job in claimed) == sorted(f"j{n}" for n in range(RACERS // 2))
    assert {(job.fence, job.attempts, job.version) for job in claimed} == {(1, 1, 2)}
    for job in claimed:
        assert await stores[1].run(jobs.read(job.job_id)) == job
    assert await stores[0].run(jobs.count(ControlJobState.QUEUED)) == 0


async def test_of_concurrent_flips_from_one_version_one_succeeds(stage: Stage) -> None:
    stores = await clients(stage)
    await stores[0].run(aliases.create("docs", ["docs-0"]))
    flips = [aliases.flip("docs", [f"docs-{n}"], expected_version=1) for n in range(1, RACERS + 1)]
    outcomes = await race(stores, flips)
    [winner] = results(outcomes)
    assert errors(outcomes) == [Conflict] * (RACERS - 1)
    assert await stores[1].run(aliases.read("docs")) == winner
    assert winner.version == 2


async def test_flips_without_a_version_all_succeed(stage: Stage) -> None:
    stores = await clients(stage)
    await stores[0].run(aliases.create("docs", ["docs-0"]))
    outcomes = await race(stores, [aliases.flip("docs", [f"docs-{n}"]) for n in range(1, 21)])
    flipped = sorted(results(outcomes), key=lambda alias: alias.version)
    assert [alias.version for alias in flipped] == list(range(2, 22))
    states = aliases.history_of(flipped[-1])
    assert [state.uids for state in states] == [aliases.uids_of(alias) for alias in flipped[9:19]]


async def test_of_concurrent_requests_with_one_key_one_is_new(stage: Stage) -> None:
    stores = await clients(stage)
    outcomes = await race(stores, [idempotency.begin("k", BODY) for _ in range(RACERS)])
    assert Counter(result.verdict for result in results(outcomes)) == {
        IdempotencyVerdict.NEW: 1,
        IdempotencyVerdict.PENDING: RACERS - 1,
    }


async def test_a_scope_has_one_leader(stage: Stage) -> None:
    stores = await clients(stage)
    outcomes = await race(stores, [leadership.acquire("ilm", f"n{n}") for n in range(RACERS)])
    [lease] = [lease for lease in results(outcomes) if lease is not None]
    assert errors(outcomes) == []
    assert lease.fence == 1
    assert await stores[2].run(leadership.leader("ilm")) == lease


async def test_tasks_get_distinct_numbers(stage: Stage) -> None:
    stores = await clients(stage)
    uids = results(await race(stores, [tasks.next_uid() for _ in range(RACERS)]))
    outcomes = await race(stores, [tasks.insert(f"t{n}", uid) for n, uid in enumerate(uids)])
    assert errors(outcomes) == []
    page = await stores[0].run(tasks.page(limit=RACERS))
    assert [task.task_uid for task in page.tasks] == list(range(RACERS, 0, -1))
    again = await race(stores, [tasks.insert("one", RACERS + n) for n in range(1, RACERS)])
    assert (len(results(again)), set(errors(again))) == (1, {Conflict})


async def test_concurrent_node_reports_are_all_recorded(stage: Stage) -> None:
    stores = await clients(stage)
    await stores[0].run(tasks.insert("t", 1))
    outcomes = await race(stores, [tasks.set_node_task("t", f"n{n}", str(n)) for n in range(20)])
    assert errors(outcomes) == []
    task = await stores[1].run(tasks.read("t"))
    assert task is not None
    assert task.node_tasks == {f"n{n}": str(n) for n in range(20)}


async def test_settings_versions_converge_to_the_highest(stage: Stage) -> None:
    stores = await clients(stage)
    await race(stores, [settings_versions.advance("docs", "n1", n) for n in range(20)])
    assert await stores[0].run(settings_versions.nodes_of("docs")) == {"n1": 19}
    bumped = await race(stores, [settings_versions.bump("docs") for _ in range(20)])
    assert sorted(results(bumped)) == list(range(1, 21))


async def test_a_cursor_is_advanced_once(stage: Stage) -> None:
    stores = await clients(stage)
    moves = [changes.advance("hook", "docs", expected_seq=0, new_seq=n) for n in range(1, RACERS + 1)]
    outcomes = await race(stores, moves)
    [moved] = results(outcomes)
    assert errors(outcomes) == [Conflict] * (RACERS - 1)
    assert await stores[3].run(changes.cursor("hook", "docs")) == moved


async def test_a_limit_admits_exactly_its_number(stage: Stage) -> None:
    stores = await clients(stage)
    hits = results(await race(stores, [limits.hit_search_ui("::1", limit=10) for _ in range(RACERS)]))
    assert sum(hit.is_allowed for hit in hits) == 10
    assert sorted(hit.count for hit in hits) == list(range(1, RACERS + 1))


async def test_an_event_counts_once(stage: Stage) -> None:
    stores = await clients(stage)
    outcomes = await race(stores, [limits.is_first_seen("docs", "e") for _ in range(RACERS)])
    assert Counter(results(outcomes)) == {True: 1, False: RACERS - 1}


async def test_failures_are_all_counted(stage: Stage) -> None:
    stores = await clients(stage)
    locked = results(await race(stores, [limits.login_failed("ip") for _ in range(10)]))
    assert sorted(locked) == [limits.lock_ms(n) for n in range(1, 11)]


async def test_an_address_is_added_to_the_catalog_once(stage: Stage) -> None:
    stores = await clients(stage)
    outcomes = await race(stores, [catalog.add(f"r{n}", "https://example.org/a.git") for n in range(RACERS)])
    assert (len(results(outcomes)), set(errors(outcomes))) == (1, {Conflict})
    assert await stores[0].run(catalog.everything()) == results(outcomes)


async def test_a_scope_has_one_operation(stage: Stage) -> None:
    stores = await clients(stage)
    starts = [leadership.start_operation(f"op{n}", "reshard", "docs", phase="copy", fence=1) for n in range(RACERS)]
    outcomes = await race(stores, starts)
    assert (len(results(outcomes)), set(errors(outcomes))) == (1, {Conflict})


async def test_a_key_is_rotated_once(stage: Stage) -> None:
    stores = await clients(stage)
    outcomes = await race(stores, [scoped_keys.rotate("docs", f"k{n}", expected_generation=0) for n in range(RACERS)])
    [key] = results(outcomes)
    assert set(errors(outcomes)) == {Conflict}
    assert await stores[0].run(scoped_keys.read("docs")) == key


async def test_a_row_changed_between_two_reads_is_a_lost_race(registry_valkey: Valkey, tmp_path: Path) -> None:
    """On a store with optimistic transactions: what the first read returned must still hold at the commit."""
    stage = Stage("valkey", url_of("valkey", tmp_path, registry_valkey))
    store = await stage.open()
    await store.run(commit_of(Put(LIVE_PODS, LivePod("p", 1))))
    reads: list[int] = []

    def rival() -> None:
        async def write() -> None:
            other = await stage.reopen()
            await other.run(commit_of(Upsert(LIVE_PODS, LivePod("p", 2))))
            await other.close()

        asyncio.run(write())

    @transaction
    def read_twice() -> TransactionBody[tuple[int, int]]:
        first = yield from get(LIVE_PODS, "p")
        if not reads:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(rival).result()
        second = yield from get(LIVE_PODS, "p")
        assert first is not None
        assert second is not None
        reads.append(first.seen_at)
        yield from commit(Put(LIVE_PODS, LivePod("q", first.seen_at)))
        return first.seen_at, second.seen_at

    assert await store.run(read_twice()) == (2, 2)
    assert reads == [1, 2]
    await stage.close()
