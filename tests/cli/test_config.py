"""`argosy config`: what a node would run with, and everything that is wrong with it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from argosy.cli.root import cli


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.toml"
    path.write_text('[ownership]\nttl_s = 20\nrenew_s = 5\n\n[node]\nadmin_token = "hunter2"\n')
    return path


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["config", *words])


def test_show_tells_each_value_and_where_it_comes_from(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARGOSY_OWNERSHIP_RENEW_S", "6")
    told = json.loads(run("show", "--config", str(file), "--json").output)
    rows = {(row["section"], row["name"]): row for row in told}
    assert rows["ownership", "ttl_s"] == {"section": "ownership", "name": "ttl_s", "value": "20.0", "source": str(file)}
    assert rows["ownership", "renew_s"]["source"] == "ARGOSY_OWNERSHIP_RENEW_S"
    assert rows["ownership", "window_s"]["source"] == "default"


def test_the_file_may_be_named_by_a_variable(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARGOSY_CONFIG", str(file))
    assert json.loads(run("check", "--json").output)["ignored"] == []
    assert "ownership.ttl_s" in run("show").output


@pytest.mark.parametrize("words", [["show"], ["show", "--json"]])
def test_a_secret_is_never_shown(file: Path, words: list[str]) -> None:
    output = run(*words, "--config", str(file)).output
    assert "hunter2" not in output
    assert "***" in output


def test_check_says_that_all_is_in_order(file: Path) -> None:
    answer = run("check", "--config", str(file))
    assert (answer.exit_code, answer.stderr) == (0, "")
    assert "settings are in order" in answer.output


def test_check_lists_everything_that_is_wrong_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('[ownership]\nttl = 20\n\n[log]\nlevel = "loud"\n')
    monkeypatch.setenv("ARGOSY_NODE_PORT", "high")
    answer = run("check", "--config", str(path))
    assert answer.exit_code == 2
    assert "3 settings are wrong" in answer.stderr
    for hint in ("did you mean", "log.level", "ARGOSY_NODE_PORT"):
        assert hint in answer.stderr


def test_an_unknown_variable_is_a_warning_with_the_setting_that_was_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARGOSY_HTTP_PORT", "6071")
    answer = run("check")
    assert answer.exit_code == 0
    assert answer.stderr.startswith("warning: unknown variable ARGOSY_HTTP_PORT ignored; did you mean ")
    assert json.loads(run("check", "--json").stdout)["ignored"] == ["ARGOSY_HTTP_PORT"]


def test_an_unknown_section_or_key_of_the_file_is_an_error_with_the_name_that_was_meant(tmp_path: Path) -> None:
    path = tmp_path / "argosy.toml"
    path.write_text("[nodes]\nport = 6071\n\n[node]\nprot = 6071\n")
    answer = run("check", "--config", str(path))
    assert answer.exit_code == 2
    assert "nodes: unknown section; did you mean node?" in answer.stderr
    assert "node.prot: unknown key; did you mean port?" in answer.stderr


def test_a_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    answer = run("show", "--config", str(tmp_path / "none.toml"))
    assert answer.exit_code == 2
    assert "cannot be read" in answer.stderr
