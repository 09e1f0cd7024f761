"""Watching and listening, on every backend."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import TypeVar, cast

import pytest

from argosy.base.errors import Gone
from argosy.registry import aliases, sessions
from argosy.registry.ports import Change, RegistryStore
from argosy.registry.rows import LivePod, NodeSettingsVersion
from argosy.registry.tables import LIVE_PODS, NODE_SETTINGS_VERSION, REVOKED_CHANNEL
from argosy.registry.transaction import Delete, Notify, Put, Upsert
from tests.contracts.registry_stage import Stage, commit_of
from tests.contracts.stage import PATIENCE_S, eventually

T = TypeVar("T")

HISTORY_MAX = 10_000  # more changes than any backend retains
BATCH = 500


async def first(stream: AsyncIterator[T], number: int) -> list[T]:
    """The first `number` items, within a deadline."""
    taken: list[T] = []
    async with asyncio.timeout(PATIENCE_S), aclosing(cast("AsyncGenerator[T]", stream)) as items:
        async for item in items:
            taken.append(item)
            if len(taken) == number:
                return taken
    raise AssertionError(f"the stream ended after {taken}")


async def test_a_watcher_gets_every_change_in_order(store: RegistryStore) -> None:
    start = await store.revision()
    pod, unusual = LivePod("p", 1), NodeSettingsVersion("a:b", "_x\x00", 1, 1)
    await store.run(commit_of(Put(LIVE_PODS, pod), Put(NODE_SETTINGS_VERSION, unusual)))
    await store.run(commit_of(Upsert(LIVE_PODS, pod)))
    await store.run(commit_of(Delete(LIVE_PODS, replace(pod, version=2))))
    changes = await first(store.watch(start), 4)
    assert [(change.table, change.key, change.is_deleted) for change in changes] == [
        ("live_pods", ("p",), False),
        ("node_settings_version", ("a:b", "_x\x00"), False),
        ("live_pods", ("p",), False),
        ("live_pods", ("p",), True),
    ]
    revisions = [change.revision for change in changes]
    assert revisions == sorted(set(revisions))
    assert revisions[-1] == await store.revision()
    assert await first(store.watch(revisions[1]), 2) == changes[2:]


async def test_changes_of_the_named_tables_carry_their_row(store: RegistryStore) -> None:
    start = await store.revision()
    pod, unusual = LivePod("p", 1), NodeSettingsVersion("a:b", "_x\x00", 1, 1)
    await store.run(commit_of(Put(LIVE_PODS, pod), Put(NODE_SETTINGS_VERSION, unusual)))
    changes = await first(store.watch(start, rows_of=[LIVE_PODS]), 2)
    assert [change.row for change in changes] == [replace(pod, version=1), None]
    assert [change.row for change in await first(store.watch(start), 2)] == [None, None]


async def test_a_change_carries_the_row_as_it_is_at_delivery(store: RegistryStore) -> None:
    start = await store.revision()
    pod = LivePod("p", 1)
    await store.run(commit_of(Put(LIVE_PODS, pod)))
    later = replace(pod, seen_at=2, version=1)
    await store.run(commit_of(Put(LIVE_PODS, later)))
    changes = await first(store.watch(start, rows_of=[LIVE_PODS]), 2)
    assert [change.row for change in changes] == [replace(later, version=2)] * 2
    await store.run(commit_of(Delete(LIVE_PODS, replace(later, version=2))))
    changes = await first(store.watch(start, rows_of=[LIVE_PODS]), 3)
    assert [(change.is_deleted, change.row) for change in changes] == [(False, None), (False, None), (True, None)]


async def test_a_watcher_waits_for_writes_of_other_clients(stage: Stage) -> None:
    watcher, writer = await stage.open(), await stage.open()
    start = await watcher.revision()
    watching = asyncio.create_task(first(watcher.watch(start), 3))
    await writer.run(aliases.create("docs", ["docs-1"]))
    await writer.run(aliases.flip("docs", ["docs-2"]))
    await writer.run(aliases.remove("docs"))
    changes = await watching
    assert [(change.table, change.key, change.is_deleted) for change in changes] == [
        ("aliases", ("docs",), False),
        ("aliases", ("docs",), False),
        ("aliases", ("docs",), True),
    ]


async def test_a_commit_returns_its_revision(store: RegistryStore) -> None:
    done = await store.run(commit_of(Put(LIVE_PODS, LivePod("p", 1)), Put(LIVE_PODS, LivePod("q", 1))))
    assert done.revision == await store.revision()
    later = await store.run(commit_of(Put(LIVE_PODS, LivePod("r", 1))))
    [change] = await first(store.watch(done.revision), 1)
    assert change == Change(later.revision, "live_pods", ("r",), False)


async def test_a_watcher_that_fell_behind_gets_an_error(store: RegistryStore) -> None:
    start = (await store.run(commit_of(Upsert(LIVE_PODS, LivePod("p0", 0))))).revision
    for number in range(0, HISTORY_MAX + BATCH, BATCH):
        await store.run(commit_of(*(Upsert(LIVE_PODS, LivePod(f"p{n}", number)) for n in range(BATCH))))
    with pytest.raises(Gone):
        await first(store.watch(start), 1)
    now = await store.revision()
    await store.run(commit_of(Upsert(LIVE_PODS, LivePod("p0", 1))))
    assert len(await first(store.watch(now), 1)) == 1


async def test_a_revision_of_another_history_is_rejected(store: RegistryStore) -> None:
    await store.run(commit_of(Put(LIVE_PODS, LivePod("p", 1))))
    with pytest.raises(Gone):
        await first(store.watch(await store.revision() + 1_000_000), 1)


async def test_listeners_get_notifications(stage: Stage) -> None:
    store = await stage.open()
    messages: list[str] = []

    async def listen() -> None:
        async for message in store.listen(REVOKED_CHANNEL):
            messages.extend([message])

    listening = asyncio.create_task(listen())

    async def is_listening() -> bool:
        await store.run(commit_of(Notify(REVOKED_CHANNEL, "hello")))
        return "hello" in messages

    await eventually(is_listening)
    await store.run(sessions.insert_admin("s", csrf_token="t", admin_key_hash="k"))
    await store.run(commit_of(Notify("elsewhere", "not for us")))
    assert await store.run(sessions.revoke_admin("s"))

    async def has_received() -> bool:
        return messages[-1] == "s"

    await eventually(has_received)
    assert set(messages) == {"hello", "s"}
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
