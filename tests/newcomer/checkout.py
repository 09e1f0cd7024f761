"""A clone of this checkout as a newcomer has it: in its own folder, with its own home, no environment yet.

The clone has what the working tree has, committed or not. The download caches of uv and pip are those of the machine,
and the kernels that this checkout has compiled are copied, so that a set-up takes seconds.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

ROOT = Path(__file__).resolve().parents[2]
PYTHON = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"  # not of an environment
SET_UP = (PYTHON, "tools/setup_env.py", "run")
COMMAND_S_MAX = 240.0  # the longest is a set-up on a busy machine
STOP_S_MAX = 20.0
LOOK_S = 0.05
# Variables that point out of the newcomer's home, or to this test's environment.
DROPPED = ("ARGOSY_", "XDG_", "VIRTUAL_ENV", "PYTHON", "PYTEST_", "MAKE", "GIT_", "NUMBA_", "CI", "VENV")


@dataclass(frozen=True)
class Checkout:
    """A clone, and the home of the person who made it."""

    folder: Path
    home: Path

    @property
    def argosy(self) -> Path:
        return self.folder / ".venv" / "bin" / "argosy"

    def environment(self, **more: str) -> dict[str, str]:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(DROPPED)},
            "HOME": str(self.home),
            "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR") or str(caches / "uv"),
            "PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR") or str(caches / "pip"),
            **more,
        }

    def run(
        self, *command: str | Path, cwd: Path | None = None, **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        """Runs a command to its end, with its output as text."""
        return subprocess.run(
            [str(word) for word in command],
            cwd=cwd or self.folder,
            env=self.environment(**variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_S_MAX,
            check=False,
        )

    @contextmanager
    def start(self, *command: str | Path, log: Path, **variables: str) -> Iterator["subprocess.Popen[bytes]"]:
        """A command in a process group of its own, as a terminal has it; what is left of it at the end is killed."""
        with log.open("wb") as output:
            started = subprocess.Popen(
                [str(word) for word in command],
                cwd=self.folder,
                env=self.environment(**variables),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            yield started
        finally:
            try:
                os.killpg(started.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            started.wait()

    def set_up(self, **variables: str) -> "subprocess.CompletedProcess[str]":
        """What `make run` does before it starts anything."""
        return self.run(*SET_UP, **variables)


def clone(folder: Path, home: Path) -> Checkout:
    """The working tree as a repository with a commit, and the kernels that are already compiled."""
    home.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "clone", "-q", "--no-tags", str(ROOT), str(folder)], check=True)
    changed = _names("diff", "--name-only", "-z", "HEAD")
    for name in [*changed, *_names("ls-files", "-z", "--others", "--exclude-standard")]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).exists():
            shutil.copy2(ROOT / name, folder / name)
        else:
            (folder / name).unlink()
    for compiled in (ROOT / "src").rglob("__pycache__/*.nb[ic]"):
        target = folder / compiled.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(compiled, target)
        for source in compiled.parent.parent.glob("*.py"):  # compiled code belongs to a source's time of change
            shutil.copystat(source, folder / source.relative_to(ROOT))
    return Checkout(folder, home)


def _names(*command: str) -> list[str]:
    found = subprocess.run(["git", "-C", str(ROOT), *command], check=True, capture_output=True).stdout
    return [os.fsdecode(name) for name in found.split(b"\0") if name]


def wait_until(condition: Callable[[], object], what: str, within_s: float = COMMAND_S_MAX) -> None:
    ends_at = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < ends_at, f"gave up after {within_s:g} s, waiting until {what}"
        Event().wait(LOOK_S)
