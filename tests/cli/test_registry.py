"""`argosy registry`: a registry moves between SQLite and Redis unchanged, and errors are reported."""

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from argosy.base.clock import SystemClock, system_random
from argosy.cli.root import cli
from argosy.registry import changes, idempotency, jobs, limits, migrations, open_registry
from argosy.registry.backends import redis_memory
from argosy.registry.ports import RegistryStore
from tests.servers.valkey import Valkey

DIGEST = bytes(range(32))
RAW = bytes(range(256))


def run(*words: object, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["registry", *map(str, words)], input=stdin)


def output_of(answer: Result) -> Any:
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


@pytest.fixture(scope="module")
def valkey() -> Iterator[Valkey]:
    with Valkey() as server:
        yield server


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A registry with a row of every type."""
    made = f"sqlite:///{tmp_path}/registry.db"
    asyncio.run(fill(made))
    return made


async def fill(url: str) -> None:
    store = await open_registry(url, clock=SystemClock(), random=system_random())
    try:
        await _fill(store)
    finally:
        await store.close()


async def _fill(store: RegistryStore) -> None:
    for n in range(3):
        await store.run(jobs.enqueue(f"job-{n}", "reindex", {"index": "docs", "depth": n, "odd": ["é", None, 1.5]}))
    await store.run(jobs.claim("worker", lease_ms=60_000))
    await store.run(idempotency.begin("key", DIGEST))
    for event in (RAW, b"second", b"third"):
        await store.run(changes.push("sink", event, max_bytes=300))
    await store.run(changes.next_seq("docs"))
    await store.run(limits.hit_search_ui("::1"))


def lines_of(url: str, *more: object) -> list[dict[str, Any]]:
    """The sorted lines of an export, without its header."""
    answer = run("export", "--url", url, *more, "-")
    assert answer.exit_code == 0, answer.output
    found = [json.loads(line) for line in answer.stdout.splitlines()]
    return sorted(found[1:], key=lambda line: json.dumps(line, sort_keys=True))


def test_a_registry_moves_to_redis_and_back_without_loss(url: str, valkey: Valkey, tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    back = f"sqlite:///{tmp_path}/back.db"
    there = ("--url", valkey.url, "--namespace", "moved")
    counts = output_of(run("export", "--url", url, first, "--json"))["counts"]
    assert counts["jobs"] == 3
    assert output_of(run("import", *there, first, "--json"))["counts"] == counts
    assert output_of(run("check", *there, "--json")) == {"ok": True, "counts": counts, "problems": []}
    assert output_of(run("export", *there, second, "--json"))["counts"] == counts
    assert output_of(run("import", "--url", back, second, "--json"))["counts"] == counts
    assert lines_of(url) == lines_of(*there[1:2], *there[2:]) == lines_of(back)


def test_an_export_goes_through_a_pipe(url: str, tmp_path: Path) -> None:
    export = run("export", "--url", url, "-")
    back = f"sqlite:///{tmp_path}/new/folder/back.db"
    assert output_of(run("import", "--url", back, "-", "--json", stdin=export.stdout_bytes))["counts"]["jobs"] == 3
    assert lines_of(back) == lines_of(url)


def test_the_summary_counts_the_moved_items(url: str, tmp_path: Path) -> None:
    answer = run("export", "--url", url, tmp_path / "all.jsonl")
    assert "jobs" in answer.stdout
    assert "exported to" in answer.stderr


def test_a_non_empty_registry_is_not_imported_into(url: str, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    output_of(run("export", "--url", url, file, "--json"))
    answer = run("import", "--url", url, file)
    assert answer.exit_code == 1
    assert "an import needs an empty registry" in answer.stderr


def test_a_damaged_export_stores_nothing(url: str, tmp_path: Path) -> None:
    file, new = tmp_path / "all.jsonl", tmp_path / "new.db"
    output_of(run("export", "--url", url, file, "--json"))
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))
    answer = run("import", "--url", f"sqlite:///{new}", file)
    assert answer.exit_code == 2
    assert "the export is cut off" in answer.stderr
    assert not new.exists()


def test_an_empty_file_is_no_export(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    answer = run("import", "--url", f"sqlite:///{tmp_path}/new.db", tmp_path / "empty")
    assert (answer.exit_code, "is not JSON" in answer.stderr) == (2, True)


def test_an_export_that_fails_leaves_no_file(tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    assert run("export", "--url", f"sqlite:///{tmp_path}/none.db", file).exit_code == 1
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_reported(url: str, tmp_path: Path) -> None:
    answer = run("export", "--url", url, tmp_path / "no" / "all.jsonl")
    assert (answer.exit_code, "cannot write" in answer.stderr) == (2, True)


def test_a_missing_registry_is_not_created_by_reading(tmp_path: Path, valkey: Valkey) -> None:
    for words in (("--url", f"sqlite:///{tmp_path}/none.db"), ("--url", valkey.url, "--namespace", "none")):
        for command in ("check", "migrate"):
            answer = run(command, *words, "--json")
            assert answer.exit_code == 1
            assert json.loads(answer.stderr)["error"]["kind"] == "NotFound"
    assert list(tmp_path.iterdir()) == []


def test_check_counts_what_it_has_read(url: str) -> None:
    answer = run("check", "--url", url)
    assert answer.exit_code == 0
    assert "no problems found" in answer.stderr


def test_check_reports_what_it_cannot_read(url: str) -> None:
    path = url.removeprefix("sqlite:///")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE jobs SET type = x'00ff' WHERE job_id = 'job-1'")
    connection.close()
    answer = run("check", "--url", url, "--json")
    assert answer.exit_code == 1
    assert [problem for problem in json.loads(answer.stdout)["problems"] if "jobs.type must be text" in problem]


def test_check_reports_where_it_had_to_stop(url: str) -> None:
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE jobs SET params = 'not json' WHERE job_id = 'job-1'")
    connection.close()
    answer = run("check", "--url", url)
    assert answer.exit_code == 1
    assert "reading failed after" in answer.stderr


def test_migrate_reports_its_steps(url: str) -> None:
    assert output_of(run("migrate", "--url", url, "--json")) == {"found": 1, "now": 1, "steps": []}
    assert "already up to date" in run("migrate", "--url", url).stdout


def test_check_migrates_nothing_and_migrate_prints_its_steps(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "SCHEMA_VERSION", 2)
    monkeypatch.setattr(migrations, "MIGRATIONS", (migrations.Migration(2, "jobs know their tenant", ()),))
    answer = run("check", "--url", url)
    assert answer.exit_code == 1
    assert "schema version is 1, expected 2; run `argosy registry migrate`" in answer.stderr
    answer = run("migrate", "--url", url)
    assert answer.stdout.splitlines() == ["2: jobs know their tenant", "schema version 2: migrated from 1"]


def test_a_registry_of_a_newer_argosy_is_refused(url: str) -> None:
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE _meta SET value = 99 WHERE name = 'schema_version'")
    connection.close()
    for command in ("check", "migrate"):
        answer = run(command, "--url", url)
        assert answer.exit_code == 1
        assert "use the argosy that wrote it, or a newer one" in answer.stderr


def test_a_registry_in_the_memory_of_another_process_cannot_be_read() -> None:
    answer = run("check", "--url", "memory://")
    assert (answer.exit_code, "is private to one process" in answer.stderr) == (2, True)


def test_a_password_in_a_url_is_not_printed() -> None:
    answer = run("check", "--url", "redis://user:hunter2@127.0.0.1:1/0")
    assert answer.exit_code == 1
    assert "hunter2" not in answer.output


def test_memory_is_measured_and_printed(valkey: Valkey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_memory, "ROUNDS", 1)
    found = output_of(run("memory", "--url", valkey.url, "--json"))
    assert 0 < found["total_bytes"] < found["document_bytes"]
    assert "set one of 100 MB or more" in found["advice"]
    answer = run("memory", "--url", valkey.url)
    assert "canary_runs" in answer.stdout
    assert "alert when used_memory passes 80%" in answer.stdout


def test_memory_is_not_measured_on_a_file() -> None:
    answer = run("memory", "--url", "sqlite:///registry.db")
    assert (answer.exit_code, "is a file; pass a server with --url" in answer.stderr) == (2, True)


@pytest.mark.parametrize("url", ["registry.db", "ftp://host/registry", "sqlite:registry.db"])
@pytest.mark.parametrize("command", ["check", "migrate", "memory"])
def test_an_invalid_registry_is_reported_as_typed(command: str, url: str) -> None:
    answer = run(command, "--url", url)
    assert answer.exit_code == 2
    assert answer.stderr.startswith(f"error: invalid registry URL {url!r}: expected sqlite://, redis[s]://")
