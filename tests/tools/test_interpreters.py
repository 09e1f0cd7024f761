"""Which Pythons CI runs the tests on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import interpreters

ROOT = Path(__file__).resolve().parents[2]


def program(path: Path, line: str) -> str:
    """A program whose answer to the probe is this line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return str(path)


def test_pythons_are_found_on_the_path_and_among_the_versions_of_pyenv(tmp_path: Path) -> None:
    on_path = program(tmp_path / "bin" / "python3.12", "")
    of_pyenv = program(tmp_path / "py env" / "versions" / "3.13.0" / "bin" / "python3", "")
    (tmp_path / "bin" / "python3.13").write_text("not executable")
    found = interpreters.list_candidates(f"{tmp_path}/bin:{tmp_path}/absent:", str(tmp_path / "py env"))
    assert found[:2] == [on_path, of_pyenv]
    assert all(os.path.dirname(each) == "/usr/bin" for each in found[2:])


@pytest.mark.parametrize(
    "line",
    [
        "printf '3.10.13\\t/old'",  # too old
        "printf '3.99.0\\t/new'",  # too new
        "exit 127",  # a shim without a version
        "true",  # a pre-release, or an environment: the probe is silent
        "printf '3.12.1\\t/bin/python'; exit 1",  # it has no pip
    ],
)
def test_a_program_that_is_no_usable_python_does_not_count(tmp_path: Path, line: str) -> None:
    assert interpreters.probe(program(tmp_path / "python3", line)) is None


def test_a_usable_python_reports_its_version_and_path(tmp_path: Path) -> None:
    assert interpreters.probe(program(tmp_path / "python3", "printf '3.12.1\\t/opt/a b/python3\\n'")) == (
        (3, 12, 1),
        "/opt/a b/python3",
    )
    assert interpreters.probe(str(tmp_path / "absent")) is None


def test_an_environment_is_not_an_installed_python() -> None:
    assert sys.prefix != sys.base_prefix, "the tests run in an environment"
    assert interpreters.probe(sys.executable) is None


def test_the_oldest_and_the_newest_are_chosen() -> None:
    found = [((3, 12, 1), "/b"), ((3, 11, 2), "/a"), ((3, 13, 0), "/c"), ((3, 11, 2), "/again")]
    assert interpreters.choose(found) == [((3, 11, 2), "/a"), ((3, 13, 0), "/c")]
    assert interpreters.choose(found[:1]) == [((3, 12, 1), "/b")]
    assert interpreters.choose([]) == []


def test_ci_stops_at_the_first_python_whose_tests_fail(tmp_path: Path) -> None:
    """The script of CI with a `make` that records its targets, and fails on one Python."""
    (tmp_path / ".ci").mkdir()
    (tmp_path / "tools").mkdir()
    (tmp_path / ".ci" / "run").write_bytes((ROOT / ".ci" / "run").read_bytes())
    (tmp_path / "tools" / "interpreters.py").write_text("print('3.11.2\\t/a b/python3\\n3.13.0\\t/c/python3')\n")
    program(tmp_path / "bin" / "make", 'echo "make $*"; [ "$1" != test ] || [ "$3" != "VENV=.venv-$FAILS" ]')

    def run(fails: str) -> tuple[int, list[str]]:
        path = f"{tmp_path}/bin:{os.environ['PATH']}"
        ran = subprocess.run(
            ["bash", tmp_path / ".ci" / "run"],
            env={**os.environ, "PATH": path, "FAILS": fails},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return ran.returncode, [line for line in ran.stdout.splitlines() if line.startswith("make ")]

    old = [f"make {target} PYTHON=/a b/python3 VENV=.venv-3.11.2" for target in ("lint", "test")]
    new = [f"make {target} PYTHON=/c/python3 VENV=.venv-3.13.0" for target in ("lint", "test")]
    assert run("none") == (0, [*old, *new])
    code, commands = run("3.11.2")
    assert code != 0
    assert commands == old
    assert run("3.13.0")[0] != 0
