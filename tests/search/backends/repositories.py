"""Repositories to read, made by git itself with everything fixed that would differ from run to run."""

import os
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from argosy.base.clock import SystemClock
from argosy.search.documents import Content, Source

COMMIT_S = 1_700_000_000
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": os.devnull,
    "LC_ALL": "C",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A. Sailor",
    "GIT_AUTHOR_EMAIL": "sailor@example.com",
    "GIT_AUTHOR_DATE": f"{COMMIT_S} +0000",
    "GIT_COMMITTER_NAME": "A. Sailor",
    "GIT_COMMITTER_EMAIL": "sailor@example.com",
    "GIT_COMMITTER_DATE": f"{COMMIT_S} +0000",
}


@dataclass(frozen=True)
class Repo:
    """A repository on the disk; `git` runs there and must succeed."""

    path: Path

    @classmethod
    def create(cls, path: Path, *options: str) -> "Repo":
        subprocess.run(["git", "init", "-q", "-b", "main", *options, str(path)], env=ENVIRONMENT, check=True)
        return cls(path)

    def git(self, *arguments: str, feed: bytes = b"", when_s: int = COMMIT_S) -> str:
        environment = ENVIRONMENT | {"GIT_COMMITTER_DATE": f"{when_s} +0000"}
        command = ["git", "-c", "protocol.file.allow=always", "-C", str(self.path), *arguments]
        answer = subprocess.run(command, env=environment, input=feed, capture_output=True, check=True)
        return answer.stdout.decode().strip()

    def commit(self, files: Mapping[str, bytes], *, when_s: int = COMMIT_S) -> str:
        """Writes the files, commits everything there is, and returns the commit's id."""
        for name, content in files.items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self.git("add", "-A", ".")
        self.git("commit", "-q", "--allow-empty", "-m", "a change", when_s=when_s)
        return self.git("rev-parse", "HEAD")

    def clone(self, path: Path, *options: str) -> "Repo":
        command = ["git", "clone", "-q", *options, f"file://{self.path}", str(path)]
        subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True)
        return Repo(path)

    def object_path(self, name: str) -> Path:
        """Where the loose object lies; it can be written to."""
        id_ = self.git("rev-parse", name)
        path = self.path / ".git" / "objects" / id_[:2] / id_[2:]
        path.chmod(0o600)
        return path


def all_of(source: Source) -> dict[bytes, Content]:
    """Every path with its content, or why there is none; for sources where a path has one content."""
    entries = source.entries()
    return dict(zip([entry.path for entry in entries], source.read(entries), strict=True))


def paths(source: Source) -> list[bytes]:
    return [entry.path for entry in source.entries()]


def children() -> set[int]:
    """The processes that this one has started and not yet reaped."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                state = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it ended while we looked
            if int(state[1]) == os.getpid():
                found.add(int(folder.name))
    return found


def feeders() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "argosy-git-feed"]


def put_before_git(folder: Path, monkeypatch: pytest.MonkeyPatch, lines: Sequence[str]) -> None:
    """Makes `git` a script of these lines; in them $GIT is the real one."""
    folder.mkdir()
    script = folder / "git"
    script.write_text("\n".join(["#!/bin/sh", f"GIT={shutil.which('git')}", *lines, ""]))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


class Later(SystemClock):
    """A clock so far ahead that every file has long been at rest."""

    def wall(self) -> float:
        return super().wall() + 3600
