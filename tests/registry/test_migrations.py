"""A store is created at the present version, migrated from an older one, and rejected if it is of a newer argosy."""

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from argosy.base.errors import Conflict, Invalid
from argosy.registry.migrations import (
    MIGRATIONS,
    SCHEMA_VERSION,
    Migration,
    add_column,
    create,
    create_index,
    create_indexes,
    create_table,
    steps,
)
from argosy.registry.table import Table, TableIndex, TableLayout
from argosy.registry.tables import JOBS, NODE_SETTINGS_VERSION, TABLES
from argosy.registry.transaction import Find, Get, Put
from tests.registry.sqlite_stage import commit_of, opened, reads_of


@dataclass(frozen=True)
class OldShip:
    name: str
    tonnage: int
    version: int = 0


@dataclass(frozen=True)
class Ship:
    name: str
    tonnage: int
    port: str | None = None
    flag: str = "it's ours"
    is_afloat: bool = True
    crew: tuple[str, ...] = ("cook",)
    cargo: dict[str, Any] = field(default_factory=dict)
    seal: bytes = b"\x01"
    version: int = 0


OLD = Table("ships", OldShip, ("name",), TableLayout.ROW, "before", (TableIndex("all", order="tonnage"),))
NEW = Table(
    "ships",
    Ship,
    ("name",),
    TableLayout.ROW,
    "after",
    (TableIndex("all", order="tonnage"), TableIndex("flag", ("flag",), "tonnage")),
)
ADDED = ("port", "flag", "is_afloat", "crew", "cargo", "seal")
TO_NEW = Migration(
    1, "ships have more to them", (*(add_column(NEW, name) for name in ADDED), create_index(NEW, NEW.index("flag")))
)


async def with_an_old_ship(path: Path) -> None:
    """A store of version 0."""
    async with opened(path, tables=[OLD], version=0, migrations=()) as store:
        await store.run(commit_of(Put(OLD, OldShip("argo", 50))))


def stored(path: Path, sql: str) -> list[Any]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


async def test_rows_written_before_a_column_existed_take_its_default(tmp_path: Path) -> None:
    await with_an_old_ship(tmp_path / "r.db")
    for _ in range(2):  # the second time there is nothing left to do
        async with opened(tmp_path / "r.db", tables=[NEW], version=1, migrations=[TO_NEW]) as store:
            found, by_flag = await store.run(reads_of(Get(NEW, ("argo",)), Find(NEW, "flag", ("it's ours",))))
            assert found == Ship("argo", 50, version=1)
            assert by_flag == [found]
    assert stored(tmp_path / "r.db", "SELECT value FROM _meta WHERE name = 'schema_version'") == [(1,)]


async def test_a_migration_that_fails_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    await with_an_old_ship(tmp_path / "r.db")
    broken = Migration(1, "half of it", (add_column(NEW, "port"), "ALTER TABLE nowhere ADD COLUMN x"))
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        async with opened(tmp_path / "r.db", tables=[NEW], version=1, migrations=[broken]):
            pass
    async with opened(tmp_path / "r.db", tables=[OLD], version=0, migrations=()) as store:
        assert await store.run(reads_of(Get(OLD, ("argo",)))) == OldShip("argo", 50, version=1)


async def test_a_store_of_a_newer_argosy_is_rejected(tmp_path: Path) -> None:
    async with opened(tmp_path / "r.db", version=7):
        pass
    with pytest.raises(Conflict, match="has schema version 7 and this argosy knows 1: use the argosy that wrote it"):
        async with opened(tmp_path / "r.db", version=1):
            pass


async def test_an_old_store_waits_for_the_operator_unless_it_may_migrate(tmp_path: Path) -> None:
    await with_an_old_ship(tmp_path / "r.db")
    with pytest.raises(Conflict, match="run `argosy registry migrate` first"):
        async with opened(tmp_path / "r.db", tables=[NEW], version=1, migrations=[TO_NEW], may_migrate=False):
            pass


async def test_a_store_too_old_for_every_migration_is_rejected(tmp_path: Path) -> None:
    await with_an_old_ship(tmp_path / "r.db")
    later = Migration(2, "the first one was retired", ())
    with pytest.raises(Invalid, match="no way from there to 2: export it"):
        async with opened(tmp_path / "r.db", tables=[NEW], version=2, migrations=[later]):
            pass


async def test_a_missing_migration_is_noticed_when_the_store_is_opened(tmp_path: Path) -> None:
    await with_an_old_ship(tmp_path / "r.db")
    with pytest.raises(Invalid, match=r"ships lacks the column 'port'.*a migration is missing"):
        async with opened(tmp_path / "r.db", tables=[NEW], version=0, migrations=()):
            pass


async def test_a_half_imported_store_is_rejected(tmp_path: Path) -> None:
    async def breaks_off() -> Any:
        yield "ships", {"name": "argo", "tonnage": 50, "version": 3}
        raise ConnectionError("the export ended early")

    async with opened(tmp_path / "r.db", tables=[OLD]) as store:
        with pytest.raises(ConnectionError):
            await store.load(breaks_off())
    with pytest.raises(Conflict, match="half imported: remove the file and import again"):
        async with opened(tmp_path / "r.db", tables=[OLD]):
            pass


async def test_an_item_that_no_table_takes_is_named() -> None:
    async def of(kind: str, values: dict[str, Any]) -> Any:
        yield kind, values

    wrong: list[tuple[str, dict[str, Any]]] = [
        ("boats", {"name": "argo"}),
        ("ships", {"name": "argo", "tonnage": 1, "sails": 2, "version": 1}),
        ("ships", {"name": "argo", "tonnage": 1}),
        ("ships", {"name": "argo", "version": 1}),
        ("ships", {"name": "argo", "tonnage": "heavy", "version": 1}),
        ("log", {"name": "x"}),
        ("counter", {"name": "x", "value": {}, "expires_at": None}),
    ]
    for kind, values in wrong:
        async with opened(tables=[OLD]) as store:
            with pytest.raises(Invalid):
                await store.load(of(kind, values))


def test_the_declared_migrations_lead_to_the_present_version() -> None:
    assert [step.number for step in MIGRATIONS] == list(range(SCHEMA_VERSION - len(MIGRATIONS) + 1, SCHEMA_VERSION + 1))
    assert steps(SCHEMA_VERSION, SCHEMA_VERSION, MIGRATIONS, where="here") == []


def test_the_text_of_a_table_and_its_indexes() -> None:
    assert create_table(NODE_SETTINGS_VERSION) == (
        'CREATE TABLE "node_settings_version" (\n'
        '    "index_uid" TEXT NOT NULL,\n    "node_id" TEXT NOT NULL,\n'
        '    "settings_version" INTEGER NOT NULL,\n    "updated_at" INTEGER NOT NULL,\n'
        '    "version" INTEGER NOT NULL,\n    PRIMARY KEY ("index_uid", "node_id")\n) WITHOUT ROWID'
    )
    assert create_indexes(NODE_SETTINGS_VERSION) == [], "the key already refers to a family"
    assert 'CREATE INDEX "jobs.state" ON "jobs" ("state", "due")' in create_indexes(JOBS)
    assert (
        'CREATE INDEX "jobs.claims" ON "jobs" ("state", "claim_expires_at") WHERE "claim_expires_at" IS NOT NULL'
        in create_indexes(JOBS)
    )
    assert (
        'CREATE UNIQUE INDEX "jobs.dedupe" ON "jobs" ("dedupe_key") WHERE "dedupe_key" IS NOT NULL'
        in create_indexes(JOBS)
    )


async def test_every_index_of_every_table_answers(tmp_path: Path) -> None:
    async with opened(tmp_path / "r.db", tables=TABLES) as store:
        for table in TABLES:
            for index in table.indexes:
                values = tuple("x" for _ in index.by)
                bounds = {"after": 1, "until": 2} if index.order else {}
                for is_newest_first in (False, True):
                    question = Find(table, index.name, values, is_newest_first=is_newest_first, **bounds)  # type: ignore[arg-type]
                    assert await store.run(reads_of(question)) == []
    assert len(create(TABLES)) > len(TABLES)
