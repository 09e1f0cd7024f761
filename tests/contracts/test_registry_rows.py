"""Rows, on every backend: stored values are returned unchanged, in the declared order, at the counted version."""

import asyncio
from dataclasses import fields, replace
from typing import Any

import pytest

from argosy.base.errors import Conflict, Invalid
from argosy.registry import rows as kinds
from argosy.registry.ports import RegistryStore
from argosy.registry.rows import (
    AliasKind,
    Canary,
    CdcCursor,
    ClientSession,
    ControlJob,
    ControlJobState,
    ControlTask,
    IndexAlias,
    LivePod,
    SearchUiConfig,
    TaskStatus,
    Tenant,
)
from argosy.registry.table import Column, ColumnKind, Table
from argosy.registry.tables import (
    ALIASES,
    CANARIES,
    CDC_CURSORS,
    JOBS,
    LIVE_PODS,
    SEARCH_UI_CONFIG,
    SESSIONS,
    TABLES,
    TASKS,
    TENANT_MAP,
)
from argosy.registry.transaction import (
    CountRows,
    Delete,
    Find,
    Get,
    Now,
    Put,
    TransactionBody,
    Upsert,
    commit,
    get,
    transaction,
)
from tests.contracts.registry_stage import Stage, answer, commit_of, reads_of

FUTURE_MS = 1 << 44  # an expiry after the end of the test
STRANGE = "_index:%3A \x00\x7f{a}*?\"'\\ ünïcode 𝄞\n"
PLAIN: dict[ColumnKind, Any] = {
    ColumnKind.TEXT: STRANGE,
    ColumnKind.INTEGER: -(1 << 53),
    ColumnKind.BOOLEAN: True,
    ColumnKind.BYTES: bytes(range(256)),
    ColumnKind.LIST: (STRANGE, "", "b" * 100),
    ColumnKind.MAP: {STRANGE: [1, -2.5, None, True, {"deep": STRANGE}], "": "", "n": 1 << 40, "long": "x" * 5000},
}


def enum_of(table: Table[Any], column: Column) -> Any:
    """The first member, if the column is an enumeration."""
    hint: Any = table.row.__annotations__[column.name]
    return next(iter(hint)) if isinstance(hint, type) and hasattr(hint, "__members__") else None


def full(table: Table[Any], **given: Any) -> Any:
    """A row with an unusual value in every column."""
    values = {column.name: enum_of(table, column) or PLAIN[column.kind] for column in table.columns}
    if table.expires:
        values[table.expires] = FUTURE_MS
    return table.row(**(values | given))


def empty(table: Table[Any]) -> Any:
    """A row with None wherever it is allowed."""
    nothing = {
        ColumnKind.TEXT: "",
        ColumnKind.INTEGER: 0,
        ColumnKind.BOOLEAN: False,
        ColumnKind.BYTES: b"",
        ColumnKind.LIST: (),
        ColumnKind.MAP: {},
    }
    values = {
        column.name: None if column.is_nullable else enum_of(table, column) or nothing[column.kind]
        for column in table.columns
    }
    values |= dict.fromkeys(table.key, "k")
    if table.expires:
        values[table.expires] = FUTURE_MS
    return table.row(**values)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
async def test_every_value_of_every_column_is_returned_unchanged(store: RegistryStore, table: Table[Any]) -> None:
    for row in (full(table), empty(table)):
        done = await store.run(commit_of(Put(table, row)))
        assert done.versions == (1,)
        stored = await answer(store, Get(table, table.key_of(row)))
        assert stored == replace(row, version=1)
        for item in fields(row):
            assert type(getattr(stored, item.name)) in (type(getattr(row, item.name)), int), item.name
        await store.run(commit_of(Delete(table, stored)))
        assert await answer(store, Get(table, table.key_of(row))) is None


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
async def test_columns_missing_in_the_next_version_are_removed(store: RegistryStore, table: Table[Any]) -> None:
    """A defect of a later branch: columns set to None kept their old value."""
    row = full(table, **dict.fromkeys(table.key, "k"))
    await store.run(commit_of(Put(table, row)))
    await store.run(commit_of(Put(table, replace(empty(table), version=1))))
    assert await answer(store, Get(table, table.key_of(row))) == replace(empty(table), version=2)
    await store.run(commit_of(Upsert(table, row)))
    assert await answer(store, Get(table, table.key_of(row))) == replace(row, version=3)


async def test_versions_are_counted_and_compared(store: RegistryStore) -> None:
    pod = LivePod("p", 1)
    assert (await store.run(commit_of(Put(LIVE_PODS, pod)))).versions == (1,)
    for version in (0, 2):
        with pytest.raises(Conflict):
            await store.run(commit_of(Put(LIVE_PODS, replace(pod, version=version))))
        with pytest.raises(Conflict):
            await store.run(commit_of(Delete(LIVE_PODS, replace(pod, version=version))))
    assert (await store.run(commit_of(Upsert(LIVE_PODS, pod)))).versions == (2,)
    with pytest.raises(Conflict):
        await store.run(commit_of(Delete(LIVE_PODS, LivePod("unknown", 1, 1))))
    await store.run(commit_of(Delete(LIVE_PODS, replace(pod, version=2))))
    assert (await store.run(commit_of(Upsert(LIVE_PODS, pod)))).versions == (1,)


async def test_writes_take_effect_together_or_not_at_all(store: RegistryStore) -> None:
    """Defect R3: a row and its index were two calls."""
    await store.run(commit_of(Put(LIVE_PODS, LivePod("taken", 1))))
    revision = await store.revision()
    with pytest.raises(Conflict):
        await store.run(commit_of(Put(LIVE_PODS, LivePod("new", 1)), Put(LIVE_PODS, LivePod("taken", 2))))
    with pytest.raises(Invalid):
        await store.run(commit_of(Put(LIVE_PODS, LivePod("new", 1)), Put(LIVE_PODS, LivePod("wrong", "x"))))  # type: ignore[arg-type]
    assert await answer(store, Find(LIVE_PODS, "all")) == [LivePod("taken", 1, 1)]
    assert await store.revision() == revision


async def test_an_exception_in_a_body_reaches_the_caller_and_nothing_is_written(store: RegistryStore) -> None:
    @transaction
    def raise_after_read() -> TransactionBody[None]:
        yield from get(LIVE_PODS, "p")
        raise KeyError("second thoughts")

    with pytest.raises(KeyError, match="second thoughts"):
        await store.run(raise_after_read())
    assert await answer(store, CountRows(LIVE_PODS, "all")) == 0


async def test_a_transaction_that_loses_a_race_is_retried(stage: Stage) -> None:
    stores = [await stage.open() for _ in range(4)]
    await stores[0].run(commit_of(Put(CDC_CURSORS, CdcCursor("s", "i", 0, 0))))

    @transaction
    def add_one() -> TransactionBody[None]:
        cursor = yield from get(CDC_CURSORS, "s", "i")
        assert cursor is not None
        yield from commit(Put(CDC_CURSORS, replace(cursor, last_event_seq=cursor.last_event_seq + 1)))

    await asyncio.gather(*(stores[n % 4].run(add_one()) for n in range(100)))
    assert await answer(stores[0], Get(CDC_CURSORS, ("s", "i"))) == CdcCursor("s", "i", 100, 0, 101)


async def test_a_duplicate_of_a_unique_value_is_rejected(store: RegistryStore) -> None:
    first, second = (Canary(f"c{n}", "name", "docs", 1, {}, (), True, n) for n in range(2))
    await store.run(commit_of(Put(CANARIES, first)))
    for write in (Put(CANARIES, second), Upsert(CANARIES, second)):
        with pytest.raises(Conflict):
            await store.run(commit_of(write))
    await store.run(commit_of(Put(CANARIES, replace(first, name="other", version=1)), Put(CANARIES, second)))
    assert await answer(store, Find(CANARIES, "name", ("name",))) == [replace(second, version=1)]
    assert await answer(store, Find(CANARIES, "name", ("unknown",))) == []
    await store.run(commit_of(Delete(CANARIES, replace(second, version=1))))
    await store.run(commit_of(Put(CANARIES, replace(second, canary_id="c9"))))


async def test_a_unique_value_of_none_is_unconstrained(store: RegistryStore) -> None:
    jobs = [ControlJob(f"j{n}", "t", {}, ControlJobState.QUEUED, n, n) for n in range(3)]
    await store.run(commit_of(*(Put(JOBS, job) for job in jobs)))
    assert await answer(store, Find(JOBS, "dedupe", (None,))) == []
    assert await answer(store, CountRows(JOBS, "dedupe", (None,))) == 0


def task(name: str, uid: int, status: TaskStatus = TaskStatus.ENQUEUED, index_uid: str | None = None) -> ControlTask:
    return ControlTask(name, uid, uid, status, index_uid=index_uid)


async def find_names(store: RegistryStore, *args: Any, **how: Any) -> list[str]:
    return [row.task_id for row in await answer(store, Find(TASKS, *args, **how))]


async def test_rows_are_found_in_order_and_within_bounds(store: RegistryStore) -> None:
    uids = {"a": 5, "b": 3, "c": 3, "d": -7, "e": 1 << 52}
    await store.run(commit_of(*(Put(TASKS, task(name, uid)) for name, uid in uids.items())))
    assert await find_names(store, "all") == ["d", "b", "c", "a", "e"]
    assert await find_names(store, "all", is_newest_first=True) == ["e", "a", "c", "b", "d"]
    assert await find_names(store, "all", after=3) == ["a", "e"]
    assert await find_names(store, "all", after=2, until=5) == ["b", "c", "a"]
    assert await find_names(store, "all", after=5, is_newest_first=True) == ["c", "b", "d"]
    assert await find_names(store, "all", until=3, is_newest_first=True) == ["e", "a", "c", "b"]
    assert await find_names(store, "all", limit=2) == ["d", "b"]
    assert await find_names(store, "all", limit=3, is_newest_first=True) == ["e", "a", "c"]
    assert await find_names(store, "all", limit=0) == []
    assert await find_names(store, "all", after=1 << 53) == []


async def test_an_index_follows_its_rows(store: RegistryStore) -> None:
    await store.run(commit_of(*(Put(TASKS, task(f"t{n}", n, index_uid="docs" if n % 2 else None)) for n in range(6))))
    assert await find_names(store, "index", ("docs",)) == ["t1", "t3", "t5"]
    await store.run(commit_of(Put(TASKS, replace(task("t3", 3, TaskStatus.FAILED, "logs"), version=1))))
    assert await find_names(store, "index", ("docs",)) == ["t1", "t5"]
    assert await find_names(store, "index", ("logs",)) == ["t3"]
    assert await find_names(store, "status", (TaskStatus.FAILED,)) == ["t3"]
    assert await answer(store, CountRows(TASKS, "status", (TaskStatus.ENQUEUED,))) == 5
    assert await find_names(store, "index", (None,)) == []
    await store.run(commit_of(Delete(TASKS, task_at("t3", 2))))
    assert await find_names(store, "index", ("logs",)) == []
    assert await answer(store, CountRows(TASKS, "all")) == 5


def task_at(name: str, version: int) -> ControlTask:
    return replace(task(name, 3, TaskStatus.FAILED, "logs"), version=version)


async def test_a_row_without_an_order_is_not_in_that_index(store: RegistryStore) -> None:
    job = ControlJob("j", "t", {}, ControlJobState.QUEUED, 1, 1)
    await store.run(commit_of(Put(JOBS, job)))
    assert await answer(store, Find(JOBS, "finished", (ControlJobState.QUEUED,))) == []
    assert await answer(store, CountRows(JOBS, "finished", (ControlJobState.QUEUED,))) == 0
    assert len(await answer(store, Find(JOBS, "state", (ControlJobState.QUEUED,)))) == 1


async def test_families_are_independent(store: RegistryStore) -> None:
    names = ["a", "a:b", "a\x00b", "_index", "ä"]
    cursors = [CdcCursor(sink, index, 1, 1) for sink in names for index in names]
    await store.run(commit_of(*(Put(CDC_CURSORS, cursor) for cursor in cursors)))
    for sink in names:
        rows = await answer(store, Find(CDC_CURSORS, "family", (sink,)))
        assert [(row.sink_name, row.index_uid) for row in rows] == [
            (sink, index) for index in sorted(names, key=str.encode)
        ]


async def test_names_like_internal_keys_are_ordinary_names(store: RegistryStore) -> None:
    """Defect R24: an alias named `_index` collided with the index."""
    names = ["_index", "_index:all", "a:b", "a%3Ab", "%", "*", "{x}", " ", "a\x00b", "ünïcode", "x" * 1024]
    for n, name in enumerate(names):
        await store.run(commit_of(Put(ALIASES, IndexAlias(name, AliasKind.SINGLE, name, (), n))))
    assert [alias.name for alias in await answer(store, Find(ALIASES, "all"))] == names
    for name in names:
        alias = await answer(store, Get(ALIASES, (name,)))
        assert alias.current_uid == name


async def test_many_rows_are_listed_in_pages(store: RegistryStore) -> None:
    """Defect R5: everything was loaded, then cut."""
    for start in range(0, 2500, 500):
        batch = (Put(TASKS, task(f"t{n:04}", n)) for n in range(start, start + 500))
        await store.run(commit_of(*batch))
    names: list[str] = []
    after: int | None = None
    while page := await find_names(store, "all", after=after, limit=1000, is_newest_first=True):
        names += page
        after = int(page[-1][1:])
    assert names == [f"t{n:04}" for n in range(2499, -1, -1)]
    assert await answer(store, CountRows(TASKS, "all")) == 2500
    with pytest.raises(Invalid):
        await find_names(store, "all", limit=1001)


async def test_reads_yielded_together_are_one_snapshot(store: RegistryStore) -> None:
    await store.run(commit_of(Put(LIVE_PODS, LivePod("p", 1))))
    pod, clock, pods, number, again = await store.run(
        reads_of(Get(LIVE_PODS, ("p",)), Now(), Find(LIVE_PODS, "all"), CountRows(LIVE_PODS, "all"), Now())
    )
    assert (pods, number) == ([pod], 1)
    assert 0 <= again - clock < 1000


WRONG = [
    Put(LIVE_PODS, LivePod("", 1)),
    Put(LIVE_PODS, LivePod("x" * 1025, 1)),
    Put(LIVE_PODS, LivePod("p", 1 << 60)),
    Put(LIVE_PODS, LivePod("p", True)),
    Put(LIVE_PODS, LivePod("p", None)),  # type: ignore[arg-type]
    Put(LIVE_PODS, LivePod(7, 1)),  # type: ignore[arg-type]
    Put(LIVE_PODS, SearchUiConfig("p", {}, 1)),
    Put(SEARCH_UI_CONFIG, SearchUiConfig("i", {"x": "y" * (1 << 20)}, 1)),
    Put(SEARCH_UI_CONFIG, SearchUiConfig("i", {"x": object()}, 1)),
    Put(SEARCH_UI_CONFIG, SearchUiConfig("i", {"x": float("nan")}, 1)),
    Put(SEARCH_UI_CONFIG, SearchUiConfig("i", {"x": [{"y": 1 << 60}]}, 1)),
    Put(SEARCH_UI_CONFIG, SearchUiConfig("i", {"x": {1: 2}}, 1)),
    Put(SEARCH_UI_CONFIG, SearchUiConfig("i", {"x": b"raw"}, 1)),
    Put(SEARCH_UI_CONFIG, SearchUiConfig("i", {1: 2}, 1)),  # type: ignore[dict-item]
    Put(TENANT_MAP, Tenant("lone \ud800 surrogate", "t", None)),
    Put(SEARCH_UI_CONFIG, SearchUiConfig("i", {"x": "\ud800"}, 1)),
]


@pytest.mark.parametrize("write", WRONG, ids=range(len(WRONG)))
async def test_a_value_that_cannot_be_read_back_is_rejected(store: RegistryStore, write: Put) -> None:
    with pytest.raises(Invalid):
        await store.run(commit_of(write))
    assert await answer(store, CountRows(write.table, "all")) == 0


async def test_two_clients_share_one_store(stage: Stage) -> None:
    first, second = await stage.open(), await stage.open()
    session = ClientSession("s", None, None, {"docs": 2}, 0, FUTURE_MS)
    await first.run(commit_of(Put(SESSIONS, session)))
    assert await answer(second, Get(SESSIONS, ("s",))) == replace(session, version=1)


def test_every_kind_of_row_has_a_table() -> None:
    declared = {table.row for table in TABLES}
    written_down = {each for each in vars(kinds).values() if isinstance(each, type) and hasattr(each, "version")}
    assert declared == written_down
