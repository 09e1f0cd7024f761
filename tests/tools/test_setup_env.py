"""The set-up script alone: which Pythons it accepts, and that every part of the tree states the same range."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tools import setup_env

ROOT = Path(__file__).resolve().parents[2]
MINORS = range(setup_env.OLDEST[1], setup_env.NEWEST[1] + 1)


@pytest.mark.parametrize("version", [(2, 7, 18), (3, 8, 0), (3, MINORS[0] - 1, 9), (3, MINORS[-1] + 1, 0)])
def test_another_python_gets_one_line(version: tuple[int, int, int]) -> None:
    with pytest.raises(SystemExit) as refused:
        setup_env.check_python(version)
    message = str(refused.value)
    assert "\n" not in message
    assert "Python 3.11 to 3.14" in message
    assert ".".join(map(str, version)) in message


@pytest.mark.parametrize("minor", MINORS)
def test_every_supported_python_is_accepted(minor: int) -> None:
    assert setup_env.check_python((3, minor, 0)) is None


def test_old_pythons_can_parse_the_scripts_that_reject_them() -> None:
    for name in ("setup_env.py", "interpreters.py"):
        assert ast.parse((ROOT / "tools" / name).read_text(encoding="utf-8"), feature_version=(3, 6)).body, name


def test_the_range_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == f">=3.{MINORS[0]},<3.{MINORS[-1] + 1}"
    named = [each.rpartition("3.")[2] for each in project["classifiers"] if re.search(r":: 3\.\d+$", each)]
    assert [int(minor) for minor in named] == list(MINORS)
    for page in ("README.md", "docs/start.md"):
        assert f"Python 3.{MINORS[0]}–3.{MINORS[-1]}" in (ROOT / page).read_text(encoding="utf-8")


def test_the_version_check_precedes_syntax_another_python_lacks(tmp_path: Path) -> None:
    """A module that the script needs cannot be imported; the version is checked first."""
    script = tmp_path / "setup_env.py"
    text = (ROOT / "tools" / "setup_env.py").read_text(encoding="utf-8")
    script.write_text(text.replace(f"NEWEST = {setup_env.NEWEST}", "NEWEST = (3, 0)"), encoding="utf-8")
    (tmp_path / "venv.py").write_text("raise ImportError\n")
    result = subprocess.run([sys.executable, script, "run"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("argosy needs Python 3.11")
    assert result.stderr.count("\n") == 1


def test_a_reason_is_one_line_of_bounded_length(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = "print('progress\\nerror: no space left\\ncaused by: ' + 'x' * 999); raise SystemExit(3)"
    reason = setup_env.run_installer([sys.executable, "-c", code], log)
    assert reason.startswith("error: no space left; caused by: xxx")
    assert len(reason) <= setup_env.REASON_MAX + 1
    assert "progress" in log.read_text()
    assert setup_env.run_installer([sys.executable, "-c", "print('error: none')"], log) == ""
    assert "No such file" in setup_env.run_installer([str(tmp_path / "absent")], log)


def test_the_link_to_the_package_contains_no_path_of_the_checkout(tmp_path: Path) -> None:
    """site.py reads it in an encoding that depends on the version and the locale."""
    link = next(Path(sys.prefix).glob("lib/python3*/site-packages/argosy-dev.pth"))
    assert link.read_bytes().isascii()
    assert (link.parent / link.read_text().strip()).resolve() == (ROOT / "src").resolve()
