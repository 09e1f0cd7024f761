"""`argosy config`: what a node would run with, and every error in it."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from argosy.app.settings import config_paths, default_data_dir
from argosy.cli.root import cli


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.toml"
    path.write_text('[ownership]\nttl_s = 20\nrenew_s = 5\n\n[node]\nadmin_token = "hunter2"\n')
    return path


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["config", *words])


def test_show_prints_each_value_and_its_source(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARGOSY_OWNERSHIP_RENEW_S", "6")
    values = json.loads(run("show", "--config", str(file), "--json").output)
    rows = {(row["section"], row["name"]): row for row in values}
    assert rows["ownership", "ttl_s"] == {"section": "ownership", "name": "ttl_s", "value": "20.0", "source": str(file)}
    assert rows["ownership", "renew_s"]["source"] == "ARGOSY_OWNERSHIP_RENEW_S"
    assert rows["ownership", "window_s"]["source"] == "default"


def test_the_file_may_be_named_by_a_variable(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARGOSY_CONFIG", str(file))
    assert json.loads(run("check", "--json").output)["ignored"] == []
    assert "ownership.ttl_s" in run("show").output


@pytest.mark.parametrize("words", [["show"], ["show", "--json"]])
def test_a_secret_is_never_printed(file: Path, words: list[str]) -> None:
    output = run(*words, "--config", str(file)).output
    assert "hunter2" not in output
    assert "***" in output


def test_check_reports_a_valid_configuration(file: Path) -> None:
    answer = run("check", "--config", str(file))
    assert (answer.exit_code, answer.stderr) == (0, "")
    assert "settings are valid" in answer.output


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
    assert "cannot read" in answer.stderr


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path, Path]:
    """Where a settings file is searched for; none of them exists yet."""
    here, user, machine = tmp_path / "here", tmp_path / "user", tmp_path / "machine"
    for folder in (here, user / "argosy", machine):
        folder.mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(user))
    monkeypatch.setattr("argosy.app.settings.MACHINE_CONFIG", machine / "config.toml")
    return here / "argosy.toml", user / "argosy" / "config.toml", machine / "config.toml"


def port_and_file() -> tuple[str, str]:
    rows = {(row["section"], row["name"]): row["value"] for row in json.loads(run("show", "--json").output)}
    return rows["node", "port"], run("show").output.splitlines()[0].removeprefix("settings file: ")


def test_the_first_settings_file_that_exists_is_read_and_shown(places: tuple[Path, Path, Path]) -> None:
    assert port_and_file() == ("6070", "none")
    for port, path in ((7003, places[2]), (7002, places[1]), (7001, places[0])):
        path.write_text(f"[node]\nport = {port}\n")
        assert port_and_file() == (str(port), str(path))


def test_the_folders_of_the_user_are_absolute(
    places: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Relative paths in XDG variables are ignored, and nothing is looked up or created in a folder called `~`."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(variable, "user")
    assert default_data_dir() == str(tmp_path / "home" / ".local" / "share" / "argosy")
    assert config_paths()[1] == tmp_path / "home" / ".config" / "argosy" / "config.toml"
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # a user ID that no password file knows
    answer = run("show")
    assert (answer.exit_code, answer.stderr) == (
        2,
        "error: no home directory found; set HOME or node.data_dir (ARGOSY_NODE_DATA_DIR)\n",
    )
    monkeypatch.setenv("ARGOSY_NODE_DATA_DIR", str(tmp_path))
    assert run("show").exit_code == 0


def test_a_named_file_overrides_the_default_files(
    places: tuple[Path, Path, Path], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places[0].write_text("[node]\nport = 7001\n")
    assert run("show", "--config", str(file)).output.startswith(f"settings file: {file}\n")
    monkeypatch.setenv("ARGOSY_CONFIG", str(file))
    assert port_and_file() == ("6070", str(file))


def test_a_default_file_must_be_valid(places: tuple[Path, Path, Path]) -> None:
    places[1].write_text("[node]\nprot = 7002\n")
    answer = run("show")
    assert answer.exit_code == 2
    assert f"{places[1]}:node.prot: unknown key; did you mean port?" in answer.stderr


def test_a_file_in_the_current_directory_runs_no_program_unless_it_is_named(places: tuple[Path, Path, Path]) -> None:
    """A clone of foreign code may have such a file."""
    text = '[fetch]\ncredentials_command = "steal"\n'
    places[0].write_text(text)
    answer = run("show")
    assert answer.exit_code == 2
    assert "fetch.credentials_command runs a program" in answer.stderr
    assert "--config argosy.toml" in answer.stderr
    assert run("show", "--config", "argosy.toml").exit_code == 0
    places[0].unlink()
    places[1].write_text(text)
    assert run("show").exit_code == 0


def test_every_setting_that_runs_a_program_is_among_those() -> None:
    from argosy.app.settings import PROGRAM_SETTINGS, SECTIONS
    from argosy.base.settings import describe

    names = [(each.section, each.name) for each in describe(SECTIONS)]
    assert {key for key in names if "command" in key[1] or "program" in key[1]} == set(PROGRAM_SETTINGS)
