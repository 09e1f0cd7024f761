"""Opening a registry file, and the errors when that fails."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from argosy.base.errors import ArgosyError, Invalid, Unavailable
from argosy.registry.backends import sqlite_setup
from argosy.registry.backends.sqlite_setup import MEMORY, path_of, to_argosy_error
from argosy.registry.transaction import Get, Put
from tests.registry.sqlite_stage import BALLS, Ball, commit_of, opened, reads_of


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///registry.db", "registry.db"),
        ("sqlite:////var/lib/registry.db", "/var/lib/registry.db"),
        ("registry.db", "registry.db"),
        (Path("/var/lib/registry.db"), "/var/lib/registry.db"),
        ("sqlite://", MEMORY),
        ("memory://", MEMORY),
        (":memory:", MEMORY),
    ],
)
def test_a_url_names_a_file_or_memory(url: str | Path, path: str) -> None:
    assert path_of(url) == path


@pytest.mark.parametrize("url", ["sqlite://registry.db", "sqlite:///", "redis://host", ""])
def test_a_url_that_names_neither_is_rejected(url: str) -> None:
    with pytest.raises(Invalid, match=r"write sqlite:///relative\.db"):
        path_of(url)


async def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    for version in (1, 2):
        async with opened(f"sqlite:///{tmp_path}/r.db") as store:
            known = await store.run(reads_of(Get(BALLS, ("a",))))
            done = await store.run(commit_of(Put(BALLS, Ball("a", version=known.version if known else 0))))
            assert done.versions == (version,)


async def test_many_open_a_new_file_at_once(tmp_path: Path) -> None:
    async def writes(name: str) -> None:
        async with opened(tmp_path / "r.db") as store:
            await store.run(commit_of(Put(BALLS, Ball(name))))

    await asyncio.gather(*(writes(str(n)) for n in range(12)))
    async with opened(tmp_path / "r.db") as store:
        assert await store.revision() == 12


async def test_every_connection_waits_for_the_disk(tmp_path: Path) -> None:
    def settings(session: Any) -> list[Any]:
        return [session.cursor.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]

    for durability, number in (("full", 2), ("normal", 1)):
        async with opened(tmp_path / f"{durability}.db", durability=durability) as store:
            assert await store._writer.submit(settings) == ["wal", number]


async def test_two_stores_in_memory_are_independent() -> None:
    async with opened() as one, opened() as other:
        await one.run(commit_of(Put(BALLS, Ball("a"))))
        assert await other.run(reads_of(Get(BALLS, ("a",)))) is None


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"nowhere/r\.db failed .*check that the directory exists"):
        async with opened(tmp_path / "nowhere" / "r.db"):
            pass


async def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot be opened"):
        async with opened(tmp_path):
            pass


async def test_a_file_that_is_no_database_is_not_modified(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("dear reader, " * 100)
    with pytest.raises(Invalid, match="it is not a SQLite database"):
        async with opened(path):
            pass
    assert path.read_text() == "dear reader, " * 100


async def test_another_programs_database_is_rejected(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "r.db")
    connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()
    with pytest.raises(Invalid, match="another program's database: name another file"):
        async with opened(tmp_path / "r.db"):
            pass


async def test_a_damaged_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    async with opened(path) as store:
        await store.run(commit_of(*(Put(BALLS, Ball(f"{n}", owner="x" * 500)) for n in range(200))))
    content = bytearray(path.read_bytes())
    for page in range(5, len(content) // 4096):
        content[page * 4096 : page * 4096 + 100] = b"\xff" * 100
    path.write_bytes(content)
    everyone = reads_of(*(Get(BALLS, (str(n),)) for n in range(200)))
    async with opened(path) as store:
        with pytest.raises(Invalid, match="it is damaged: stop, keep the file, and restore a copy"):
            await store.run(everyone)


async def test_a_file_locked_by_another_process_is_unavailable(tmp_path: Path) -> None:
    async with opened(tmp_path / "r.db") as store:
        await store._writer.submit(lambda session: session.cursor.execute("PRAGMA busy_timeout = 1").fetchall())
        other = sqlite3.connect(tmp_path / "r.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="another process has held it for 10000 ms: retry with back-off"):
            await store.run(commit_of(Put(BALLS, Ball("a"))))
        other.execute("ROLLBACK")
        other.close()
        assert (await store.run(commit_of(Put(BALLS, Ball("a"))))).versions == (1,)


async def test_a_file_that_became_read_only_is_unavailable(tmp_path: Path) -> None:
    async with opened(tmp_path / "r.db") as store:
        await store._writer.submit(lambda session: session.cursor.execute("PRAGMA query_only = 1").fetchall())
        with pytest.raises(Unavailable, match="it cannot be written: check the file's and its directory's owner"):
            await store.run(commit_of(Put(BALLS, Ball("a"))))


@pytest.mark.parametrize("name", sorted(sqlite_setup._ADVICE))
def test_every_error_has_its_cause_and_advice(name: str) -> None:
    error = sqlite3.OperationalError("the library's words")
    error.sqlite_errorname = f"{name}_DETAIL"
    converted = to_argosy_error(error, "r.db")
    assert isinstance(converted, ArgosyError)
    assert str(converted).startswith("the registry r.db failed (the library's words): ")
    assert converted.__cause__ is error


def test_an_unclassified_error_is_not_converted() -> None:
    mistake = sqlite3.OperationalError("near SELEKT: syntax error")
    mistake.sqlite_errorname = "SQLITE_ERROR"
    assert to_argosy_error(mistake, "r.db") is mistake
