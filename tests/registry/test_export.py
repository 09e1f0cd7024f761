"""Export and import: the content of a registry round-trips through text, and a damaged file is rejected."""

import json
from collections.abc import AsyncIterator, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, cast, get_args, get_type_hints

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis import Redis

from argosy.base.clock import SystemClock, system_random
from argosy.base.errors import Conflict, Invalid
from argosy.registry.backends.sqlite import SqliteStore
from argosy.registry.export import (
    DumpItem,
    ExportHeader,
    LoadableStore,
    end_line,
    header_line,
    item_line,
    read_header,
    read_items,
)
from argosy.registry.factory import open_registry
from argosy.registry.migrations import SCHEMA_VERSION
from argosy.registry.table import Column, ColumnKind, Table
from argosy.registry.tables import TABLES
from tests.servers.valkey import Valkey

FOR_EVER = 1 << 52
WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
NUMBERS = st.integers(-(1 << 53), 1 << 53)
LEAVES = st.none() | st.booleans() | NUMBERS | WORDS
PLAIN = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=2), max_leaves=4)
KINDS: dict[ColumnKind, st.SearchStrategy[Any]] = {
    ColumnKind.TEXT: WORDS,
    ColumnKind.INTEGER: NUMBERS,
    ColumnKind.BOOLEAN: st.booleans(),
    ColumnKind.BYTES: st.binary(max_size=40),
    ColumnKind.LIST: st.lists(WORDS, max_size=3).map(tuple),
    ColumnKind.MAP: st.dictionaries(WORDS, WORDS, max_size=3),
}


def values_of(table: Table[Any], column: Column) -> st.SearchStrategy[Any]:
    hint = get_type_hints(table.row)[column.name]
    enums = [each for each in (hint, *get_args(hint)) if isinstance(each, type) and issubclass(each, StrEnum)]
    is_open = column.kind is ColumnKind.MAP and Any in get_args(hint)
    kind = st.sampled_from(enums[0]) if enums else KINDS[column.kind]
    if column.name == table.expires:
        kind = st.just(FOR_EVER)
    if is_open:
        kind = st.dictionaries(WORDS, PLAIN, max_size=3)
    return st.none() | kind if column.is_nullable else kind


def rows_of(table: Table[Any]) -> st.SearchStrategy[DumpItem]:
    columns = {column.name: values_of(table, column) for column in table.columns}
    versions = st.integers(1, 1 << 40)
    return st.fixed_dictionaries({**columns, "version": versions}).map(lambda values: (table.name, values))


# A log without entries is exported for its count of dropped entries. Names that begin with _ are the stores' own.
NAMES = WORDS.map(lambda name: f"x{name}")
ENTRIES = st.fixed_dictionaries(
    {"name": NAMES, "payload": st.none() | st.binary(max_size=30), "dropped": st.integers(1, 1 << 40)}
)
COUNTERS = st.fixed_dictionaries(
    {"name": NAMES, "value": st.integers(1, 1 << 53), "expires_at": st.none() | st.just(FOR_EVER)}
)
ITEMS = st.one_of(
    *[rows_of(table) for table in TABLES],
    ENTRIES.map(lambda values: ("log", values)),
    COUNTERS.map(lambda values: ("counter", values)),
)


def export(items: list[DumpItem]) -> list[bytes]:
    return [header_line(7), *map(item_line, items), end_line(len(items))]


def imported(lines: list[bytes]) -> list[DumpItem]:
    read_header(lines[0])
    return list(read_items(iter(lines[1:])))


@given(st.lists(ITEMS, max_size=8))
def test_every_item_round_trips(items: list[DumpItem]) -> None:
    assert imported(export(items)) == items


@given(st.lists(ITEMS, min_size=1, max_size=4))
def test_an_item_is_one_line_of_plain_json(items: list[DumpItem]) -> None:
    for line in export(items):
        assert line.count(b"\n") == 1
        assert isinstance(json.loads(line), dict)


def test_the_header_has_the_versions() -> None:
    assert read_header(header_line(4711)) == ExportHeader(SCHEMA_VERSION, 4711)


COUNTER = item_line(("counter", {"name": "n", "value": 1, "expires_at": None}))
LEASE = {"scope": "s", "holder": None, "expires_at": 1, "fence": 1, "acquired_at": 1, "version": 1}


def lease(**changes: Any) -> bytes:
    return msgspec.json.encode({"table": "leader_lease", "row": {**LEASE, **changes}})


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"hello", "line 1: is not JSON"),
        (b"[1]", "line 1: is not a JSON object"),
        (b"{}", "line 1: not an export of a registry"),
        (b'{"argosy-registry": 2, "schema_version": 1, "revision": 1}', "has format 2, this argosy reads 1"),
        (b'{"argosy-registry": 1, "revision": 1}', "lacks schema_version or revision"),
        (b'{"argosy-registry": 1, "schema_version": 999, "revision": 1}', "use the argosy that wrote it"),
    ],
)
def test_a_file_that_is_not_an_export_is_rejected(line: bytes, why: str) -> None:
    with pytest.raises(Invalid, match=why.replace("{", r"\{")):
        read_header(line)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([COUNTER], "is cut off after 1 items"),
        ([], "is cut off after 0 items"),
        ([COUNTER, end_line(2)], "line 3: the export should have 2 items and has 1"),
        ([COUNTER, COUNTER[:10]], "line 3: is not JSON"),
        ([end_line(0), COUNTER], "line 3: there is more after the end"),
        ([b'{"table": "stars", "row": {}}'], "line 2: there is no table 'stars'"),
        ([b"{}"], "line 2: is no row, log entry or counter"),
        ([b'{"table": "jobs"}'], "line 2: is no row"),
        ([b'{"log": "x", "payload": "%%", "dropped": 0}'], "line 2: .*base64"),
        ([b'{"counter": "x", "value": "1", "expires_at": null}'], "line 2: Expected `int`"),
        ([b'{"counter": "x", "value": 1, "expires_at": null, "y": 2}'], "unknown field `y`"),
        ([lease(colour="red")], "line 2: leader_lease has no column 'colour'"),
        ([lease(fence="one")], "line 2: leader_lease.fence must be integer"),
        ([lease(scope="")], "line 2: a key of leader_lease must be text of 1 to"),
        ([lease(fence=1 << 60)], "must lie within"),
        ([lease(version=0)], "has a version of 1 or more, not 0"),
        ([b'{"table": "leader_lease", "row": {"scope": "s"}}'], "line 2: .*missing"),
        ([b'{"table": "leader_lease", "row": 5}'], "line 2: "),
    ],
)
def test_a_damaged_file_is_rejected_with_the_number_of_the_line(lines: list[bytes], why: str) -> None:
    with pytest.raises(Invalid, match=why):
        list(read_items(iter(lines)))


def test_a_column_newer_than_the_export_takes_its_default() -> None:
    row = {"repo_id": "r", "url": "u", "version": 2}
    line = msgspec.json.encode({"table": "repositories", "row": row})
    [(_, values)] = read_items(iter([line, end_line(1)]))
    assert (values["branches"], values["replicas"], values["version"]) == ((), 0, 2)


def test_an_endless_line_is_not_read_into_memory() -> None:
    with pytest.raises(Invalid, match="a line has at most"):
        read_header(b"x" * (8 << 20) + b"x")


# -- with a store ---------------------------------------------------------------------------------------------


def unlike(items: list[DumpItem]) -> list[DumpItem]:
    """Rows that can be in one registry together: no key, unique value or name twice."""
    taken: set[tuple[object, ...]] = set()
    chosen = []
    for kind, values in items:
        table = next((table for table in TABLES if table.name == kind), None)
        marks = [("log or counter", values["name"])] if table is None else _marks(table, values)
        if not taken & set(marks):
            taken |= set(marks)
            chosen.append((kind, values))
    return chosen


def _marks(table: Table[Any], values: dict[str, Any]) -> list[tuple[object, ...]]:
    unique = [index for index in table.indexes if index.is_unique and values[index.by[0]] is not None]
    indexed = [(table.name, index.name, *[values[name] for name in index.by]) for index in unique]
    return [(table.name, "", *[values[name] for name in table.key]), *indexed]


async def streamed(items: Iterator[DumpItem]) -> AsyncIterator[DumpItem]:
    for item in items:
        yield item


def canonical(items: list[DumpItem]) -> list[str]:
    return sorted(repr((kind, sorted(values.items()))) for kind, values in items)


@pytest.fixture(scope="module")
def valkey() -> Iterator[Valkey]:
    with Valkey() as server:
        yield server


async def moved(store: LoadableStore, items: list[DumpItem]) -> list[DumpItem]:
    """Imports the rows through text, and exports them again."""
    lines = export(items)
    read_header(lines[0])
    try:
        assert await store.load(streamed(read_items(iter(lines[1:])))) == len(items)
        return [item async for item in store.dump()]
    finally:
        await store.close()


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ITEMS, max_size=12).map(unlike))
async def test_sqlite_and_redis_export_what_was_imported(valkey: Valkey, items: list[DumpItem]) -> None:
    with Redis.from_url(valkey.url) as client:
        client.flushall()
    embedded = await open_registry("memory://", clock=SystemClock(), random=system_random())
    shared = await open_registry(valkey.url, clock=SystemClock(), random=system_random())
    wanted = canonical(items)
    assert canonical(await moved(cast(LoadableStore, embedded), items)) == wanted
    assert canonical(await moved(cast(LoadableStore, shared), items)) == wanted


async def test_a_registry_that_is_not_empty_rejects_an_import(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "r.db", clock=SystemClock())
    try:
        item: DumpItem = ("counter", {"name": "n", "value": 1, "expires_at": None})
        await store.load(streamed(iter([item])))
        with pytest.raises(Conflict, match="needs an empty registry"):
            await store.load(streamed(iter([item])))
    finally:
        await store.close()
