"""`argosy repo`: changes are validated, written to the registry, and printed as text or JSON."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from argosy.cli.root import cli

A, B = "https://example.org/o/a.git", "https://example.org/o/b"


class Catalog:
    """The command with its own registry."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'deep' / 'registry.db'}"

    def run(self, *words: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(cli, ["repo", *words, "--registry", self.url], input=stdin)

    def run_json(self, *words: str, stdin: str | None = None) -> Any:
        answer = self.run(*words, "--json", stdin=stdin)
        assert answer.exit_code == 0, answer.stderr
        return json.loads(answer.stdout)

    def names(self) -> list[str]:
        return [row["repo_id"] for row in self.run_json("list")]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path)


def test_a_repository_is_added_listed_changed_and_removed(catalog: Catalog) -> None:
    (row,) = catalog.run_json("add", A, "--branch", "main", "--branch", "next", "--pin", "--replicas", "1")
    assert (row["repo_id"], row["branches"], row["is_pinned"], row["replicas"]) == (
        "example.org/o/a",
        ["main", "next"],
        True,
        1,
    )
    assert not catalog.run_json("unpin", "example.org/o/a")["is_pinned"]
    assert catalog.run_json("pin", "example.org/o/a")["is_pinned"]
    assert catalog.run_json("reindex", "example.org/o/a")["reindex_requested_at"] is not None
    listed = catalog.run("list").stdout
    assert "example.org/o/a" in listed
    assert "main, next" in listed
    catalog.run_json("remove", "example.org/o/a")
    assert catalog.names() == []
    assert "no repositories found" in catalog.run("list").stdout


def test_a_path_is_relative_to_the_working_directory(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path)
    (row,) = catalog.run_json("add", "project")
    assert row["url"] == str(tmp_path / "project")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("add", "ext::sh -c touch% /tmp/x"), "ext"),
        (("add", A, B, "--name", "one"), "--name requires a single address"),
        (("add", A, "--replicas", "99"), "replicas are 0 to 8"),
    ],
)
def test_an_invalid_add_is_rejected_and_writes_nothing(catalog: Catalog, words: tuple[str, ...], message: str) -> None:
    answer = catalog.run(*words)
    assert answer.exit_code == 2
    assert message in answer.stderr
    assert catalog.names() == []


def test_adding_an_address_twice_is_a_conflict(catalog: Catalog) -> None:
    catalog.run_json("add", A)
    answer = catalog.run("add", A, "--name", "other")
    assert answer.exit_code == 1
    assert "already has url" in answer.stderr


def test_a_conflict_of_one_address_does_not_stop_the_others(catalog: Catalog) -> None:
    catalog.run_json("add", A)
    answer = catalog.run("add", B, A, "https://example.org/o/c")
    assert (answer.exit_code, answer.stdout) == (1, "added example.org/o/b\nadded example.org/o/c\n")
    assert "'example.org/o/a' is already in the catalog" in answer.stderr
    assert sorted(catalog.names()) == ["example.org/o/a", "example.org/o/b", "example.org/o/c"]


@pytest.mark.parametrize("verb", ["pin", "unpin", "reindex", "remove"])
def test_a_repository_that_is_not_in_the_catalog_is_an_error(catalog: Catalog, verb: str) -> None:
    answer = catalog.run(verb, "nothing")
    assert answer.exit_code == 1
    assert answer.stderr == "error: repository 'nothing' not found; run `argosy repo list` to see all\n"


def test_a_list_is_imported_and_importing_it_again_skips_all(catalog: Catalog) -> None:
    text = f"{A}\n{B} main\n"
    assert catalog.run_json("import", "-", stdin=text) == {"added": 2, "skipped": 0}
    assert catalog.run_json("import", "-", stdin=text) == {"added": 0, "skipped": 2}
    assert sorted(catalog.names()) == ["example.org/o/a", "example.org/o/b"]


def test_a_list_with_one_wrong_line_imports_nothing(catalog: Catalog) -> None:
    answer = catalog.run("import", "-", stdin=f"{A}\n--upload-pack=x\n")
    assert answer.exit_code == 2
    assert "line 2" in answer.stderr
    assert catalog.names() == []


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_an_unreadable_list_is_an_error_and_imports_nothing(
    catalog: Catalog, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "list.txt"
    if content is not None:
        path.write_bytes(content)
    answer = catalog.run("import", str(path))
    assert answer.exit_code == 2
    assert answer.stderr.startswith(f"error: cannot read '{path}': ")
    assert catalog.names() == []
