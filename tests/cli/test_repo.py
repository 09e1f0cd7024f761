"""`argosy repo`: wishes are written to the registry, checked before, and told in words or JSON."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from argosy.cli.root import cli

A, B = "https://example.org/o/a.git", "https://example.org/o/b"


class Catalog:
    """A registry of its own, asked as a person would."""

    def __init__(self, folder: Path) -> None:
        self.url = f"sqlite:///{folder / 'deep' / 'registry.db'}"

    def run(self, *words: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(cli, ["repo", *words, "--registry", self.url], input=stdin)

    def ask(self, *words: str, stdin: str | None = None) -> Any:
        answer = self.run(*words, "--json", stdin=stdin)
        assert answer.exit_code == 0, answer.stderr
        return json.loads(answer.stdout)

    def names(self) -> list[str]:
        return [row["repo_id"] for row in self.ask("list")]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path)


def test_a_wish_is_added_shown_changed_and_dropped(catalog: Catalog) -> None:
    (row,) = catalog.ask("add", A, "--branch", "main", "--branch", "next", "--pin", "--replicas", "1")
    assert (row["repo_id"], row["branches"], row["is_pinned"], row["replicas"]) == (
        "example.org/o/a",
        ["main", "next"],
        True,
        1,
    )
    assert not catalog.ask("unpin", "example.org/o/a")["is_pinned"]
    assert catalog.ask("pin", "example.org/o/a")["is_pinned"]
    assert catalog.ask("reindex", "example.org/o/a")["reindex_requested_at"] is not None
    told = catalog.run("list").stdout
    assert "example.org/o/a" in told
    assert "main, next" in told
    catalog.ask("drop", "example.org/o/a")
    assert catalog.names() == []
    assert "the catalog is empty" in catalog.run("list").stdout


def test_a_path_is_meant_from_where_one_stands(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path)
    (row,) = catalog.ask("add", "project")
    assert row["url"] == str(tmp_path / "project")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "ext::sh -c touch% /tmp/x"), "ext"),
        (("add", A, B, "--name", "one"), "--name is for one address"),
        (("add", A, "--replicas", "99"), "replicas are 0 to 8"),
    ],
)
def test_a_wrong_wish_is_refused_and_nothing_is_written(catalog: Catalog, words: tuple[str, ...], said: str) -> None:
    answer = catalog.run(*words)
    assert answer.exit_code == 2
    assert said in answer.stderr
    assert catalog.names() == []


def test_a_second_wish_for_the_same_is_a_conflict(catalog: Catalog) -> None:
    catalog.ask("add", A)
    answer = catalog.run("add", A, "--name", "other")
    assert answer.exit_code == 1
    assert "already has url" in answer.stderr


def test_what_is_already_there_keeps_nothing_else_out_and_both_are_told(catalog: Catalog) -> None:
    catalog.ask("add", A)
    answer = catalog.run("add", B, A, "https://example.org/o/c")
    assert (answer.exit_code, answer.stdout) == (1, "example.org/o/b is wished for\nexample.org/o/c is wished for\n")
    assert "'example.org/o/a' is already in the catalog" in answer.stderr
    assert sorted(catalog.names()) == ["example.org/o/a", "example.org/o/b", "example.org/o/c"]


@pytest.mark.parametrize("verb", ["pin", "unpin", "reindex", "drop"])
def test_what_is_not_in_the_catalog_is_told(catalog: Catalog, verb: str) -> None:
    answer = catalog.run(verb, "nothing")
    assert answer.exit_code == 1
    assert answer.stderr == ("error: the catalog has no repository 'nothing': `argosy repo list` shows those it has\n")


def test_a_list_is_imported_whole_and_twice_does_no_harm(catalog: Catalog) -> None:
    text = f"{A}\n{B} main\n"
    assert catalog.ask("import", "-", stdin=text) == {"added": 2, "already there": 0}
    assert catalog.ask("import", "-", stdin=text) == {"added": 0, "already there": 2}
    assert sorted(catalog.names()) == ["example.org/o/a", "example.org/o/b"]


def test_a_list_with_one_wrong_line_imports_nothing(catalog: Catalog) -> None:
    answer = catalog.run("import", "-", stdin=f"{A}\n--upload-pack=x\n")
    assert answer.exit_code == 2
    assert "line 2" in answer.stderr
    assert catalog.names() == []


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_a_list_that_cannot_be_read_is_told_and_imports_nothing(
    catalog: Catalog, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "list.txt"
    if content is not None:
        path.write_bytes(content)
    answer = catalog.run("import", str(path))
    assert answer.exit_code == 2
    assert answer.stderr.startswith(f"error: '{path}' cannot be read as text")
    assert catalog.names() == []
