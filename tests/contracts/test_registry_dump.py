"""Moving a registry from one backend to another loses nothing."""

from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from argosy.base.errors import Conflict
from argosy.registry import canaries, changes, jobs, limits, tasks
from argosy.registry.rows import ControlJobState, LivePod, RunStatus
from argosy.registry.tables import LIVE_PODS, TABLES
from argosy.registry.transaction import Get, Notify, Put, ReadCounter, Upsert
from tests.contracts.registry_stage import BACKENDS, LoadingStore, Stage, answer, commit_of, url_of
from tests.contracts.test_registry_rows import empty, full
from tests.servers.valkey import Valkey

Item = tuple[str, dict[str, Any]]

PAIRS = [(source, target) for source in BACKENDS for target in BACKENDS]


async def fill(store: LoadingStore) -> None:
    """Unusual rows in every table, logs that have dropped entries, counters with and without an expiry."""
    for table in TABLES:
        await store.run(commit_of(Put(table, full(table)), Put(table, empty(table))))
        await store.run(commit_of(Upsert(table, full(table))))
    await store.run(canaries.create("c1", "n", index_uid="i", interval_s=1, query={}, assertions=[]))
    for n in range(5):
        await store.run(canaries.append_run("c1", RunStatus.PASS, n, keep=3))
        await store.run(changes.push("hook:1", b"event %d" % n, 20))
        await store.run(changes.push("emptied", b"12345", 6))
        await store.run(tasks.next_uid())
        await store.run(limits.hit_search_ui("::1"))
    await store.run(changes.pop("emptied", 9))
    await store.run(commit_of(*(Upsert(LIVE_PODS, LivePod(f"p{n}", n)) for n in range(600)), Notify("x", "y")))


async def dump_sorted(store: LoadingStore) -> list[Item]:
    """Sorted, so that the order does not depend on the store; logs keep theirs."""
    items = [item async for item in store.dump()]
    return sorted(items, key=lambda item: (item[0], repr(item[1].get("name", item[1]))))


async def iterate(items: list[Item]) -> AsyncIterator[Item]:
    for item in items:
        yield item


@pytest.mark.parametrize(("source", "target"), PAIRS)
async def test_a_dump_loads_without_loss(source: str, target: str, tmp_path: Path, registry_valkey: Valkey) -> None:
    first, second = (Stage(name, url_of(name, tmp_path, registry_valkey)) for name in (source, target))
    old, new = await first.open(), await second.open()
    await fill(old)
    items = await dump_sorted(old)
    stream: AsyncIterable[Item] = old.dump()
    assert await new.load(stream) == len(items)
    assert await dump_sorted(new) == items
    for table in TABLES:
        assert await answer(new, Get(table, ("k",) * len(table.key))) == replace(empty(table), version=1)
    assert await new.run(changes.overflow("hook:1")) == await old.run(changes.overflow("hook:1"))
    assert await new.run(changes.overflow("emptied")) == await old.run(changes.overflow("emptied"))
    assert await new.run(canaries.newest_runs("c1")) == await old.run(canaries.newest_runs("c1"))
    assert await new.run(tasks.next_uid()) == 6
    value, left_ms = await answer(new, ReadCounter("ratelimit:searchui:%3A%3A1"))
    assert value == 5
    assert 0 < left_ms <= 60_000
    await first.close()
    await second.close()


@pytest.mark.parametrize("target", BACKENDS)
async def test_a_loaded_registry_continues_like_the_original(
    target: str, tmp_path: Path, registry_valkey: Valkey
) -> None:
    first, second = (Stage(name, url_of(name, tmp_path, registry_valkey)) for name in ("memory", target))
    old, new = await first.open(), await second.open()
    for n in range(3):
        await old.run(jobs.enqueue(f"j{n}", "t", {}, dedupe_key=f"d{n}"))
    await old.run(jobs.claim("w"))
    await new.load(old.dump())
    with pytest.raises(Conflict):
        await new.run(jobs.enqueue("other", "t", {}, dedupe_key="d1"))
    claimed = await new.run(jobs.claim("w2"))
    assert claimed is not None
    assert (claimed.job_id, claimed.version) == ("j1", 2)
    assert await new.run(jobs.complete("j0", "w", 1))
    assert [await new.run(jobs.count(state)) for state in ControlJobState] == [1, 1, 1, 0, 0]
    await first.close()
    await second.close()


async def test_loading_into_a_registry_with_data_is_rejected(store: LoadingStore) -> None:
    await store.run(commit_of(Put(LIVE_PODS, LivePod("p", 1))))
    items = await dump_sorted(store)
    with pytest.raises(Conflict, match="empty"):
        await store.load(iterate(items))
    assert await dump_sorted(store) == items
