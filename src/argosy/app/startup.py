"""From start to ready: how far the indexes of a process are, reported to a person (`console.py`) or to the log.

A process is ready when every role of it says so, as for `/readyz`, and each repository is served, has failed since the
start, or has found no node for `STALL_S`.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from argosy.base import logs
from argosy.base.errors import ArgosyError
from argosy.gateway.model import FleetStatus, RepoState, RepoView

LOOK_S = 0.25  # between two looks at the repositories until the process is ready
RELOOK_S = 10.0  # and afterwards, for repositories that fail later
STALL_S = 60.0  # a repository that no node has taken for so long does not hold up the others

Status = Callable[[], Awaitable[FleetStatus]]

log = logs.get("app")


@dataclass(frozen=True)
class IndexProgress:
    """The repositories of a fleet by what becomes of them."""

    ready: tuple[RepoView, ...] = ()
    pending: tuple[RepoView, ...] = ()
    failed: tuple[RepoView, ...] = ()

    @property
    def total(self) -> int:
        return len(self.ready) + len(self.pending) + len(self.failed)

    @property
    def memory_bytes(self) -> int:
        return sum(each.status.memory_bytes for each in self.ready if each.status is not None)

    @property
    def problems(self) -> dict[str, str]:
        """By repository: why it failed, or why it is served but could not be updated."""
        return {each.name: each.reason for each in (*self.failed, *self.ready) if each.reason}


def classify(fleet: FleetStatus, *, since_ms: float = 0.0) -> IndexProgress:
    """A failure from before `since_ms`, in a former run, does not count: the repository is tried again."""
    ready, pending, failed = [], [], []
    for each in fleet.repositories:
        if each.state in (RepoState.READY, RepoState.DRAINING):
            ready.append(each)
        elif each.state is RepoState.FAILED and (each.wish.last_failed_at or 0) >= since_ms:
            failed.append(each)
        else:
            pending.append(each)
    return IndexProgress(tuple(ready), tuple(pending), tuple(failed))


class ChildProcess(Protocol):
    """A node that this process has started."""

    @property
    def name(self) -> str: ...

    @property
    def pid(self) -> int | None: ...

    @property
    def address(self) -> str: ...


class Display(Protocol):
    """Where the start of a process is reported."""

    def set_step(self, text: str, *, hint: str = "") -> None:
        """What is being waited for; the `hint` says why it may take long."""
        ...

    def set_url(self, url: str) -> None:
        """The process answers at this URL."""
        ...

    def set_children(self, children: Sequence[ChildProcess]) -> None: ...

    def show_progress(self, progress: IndexProgress) -> None: ...

    def show_ready(self, progress: IndexProgress) -> None: ...

    def warn(self, text: str) -> None:
        """One line that a user can act on."""
        ...

    def note(self, text: str) -> None:
        """One line that a user may want to know."""
        ...

    def show_draining(self) -> None: ...

    def show_stopping(self) -> None: ...


class LogDisplay:
    """For a service: the log has it all, and gets one line when the process is ready."""

    def __init__(self, started_at: float | None = None) -> None:
        self._started_at = time.monotonic() if started_at is None else started_at
        self._url = ""

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._started_at

    def set_step(self, text: str, *, hint: str = "") -> None: ...

    def set_url(self, url: str) -> None:
        self._url = url

    def set_children(self, children: Sequence[ChildProcess]) -> None: ...

    def show_progress(self, progress: IndexProgress) -> None: ...

    def show_ready(self, progress: IndexProgress) -> None:
        log.info(
            "ready",
            url=self._url,
            seconds=round(self.elapsed_s, 1),
            repositories=len(progress.ready),
            failed=len(progress.failed),
        )
        if self._url and _is_stdout_redirected():
            with suppress(OSError):  # nobody has to read it
                sys.stdout.write(f"argosy is ready: {self._url}\n")
                sys.stdout.flush()

    def warn(self, text: str) -> None: ...

    def note(self, text: str) -> None:
        log.warning(text)

    def show_draining(self) -> None: ...

    def show_stopping(self) -> None: ...


def _is_stdout_redirected() -> bool:
    """Whether stdout goes to a file or a pipe that stderr does not go to, as in `argosy up > log`."""
    try:
        out, err = sys.stdout.fileno(), sys.stderr.fileno()
        return not os.isatty(out) and not os.path.sameopenfile(out, err)
    except (OSError, ValueError, AttributeError):  # closed, or not a file
        return False


async def watch_startup(display: Display, is_ready: Callable[[], bool], status: Status | None) -> None:
    """Reports progress until the process is ready, then repositories that fail; ends only by cancellation.

    Without `status` the process has no repositories to wait for.
    """
    since_ms, stall = time.time() * 1000, _StallClock()
    while True:
        progress = IndexProgress() if status is None else await _read(status, since_ms)
        if progress is not None:
            display.show_progress(progress)
            if is_ready() and (not progress.pending or stall.is_over(progress, time.monotonic())):
                break
        await asyncio.sleep(LOOK_S)
    display.show_ready(progress)
    stalled = {each.name: "no node has room for it" for each in progress.pending}
    reported = _warn(display, {**progress.problems, **stalled}, {})
    while True:
        await asyncio.sleep(RELOOK_S)
        later = None if status is None else await _read(status, since_ms)
        if later is not None:
            reported = _warn(display, later.problems, reported)


async def _read(status: Status, since_ms: float) -> IndexProgress | None:
    """None while the gateway cannot tell yet."""
    try:
        return classify(await status(), since_ms=since_ms)
    except ArgosyError:
        return None


def _warn(display: Display, problems: dict[str, str], reported: dict[str, str]) -> dict[str, str]:
    """Reports each problem once; one that went away and comes back is reported again."""
    for name, reason in problems.items():
        if reported.get(name) != reason:
            display.warn(f"{name}: {reason}")
    return problems


@dataclass
class _StallClock:
    """How long the same repositories have had no node."""

    _names: frozenset[str] = frozenset()
    _since: float = field(default=0.0)

    def is_over(self, progress: IndexProgress, now: float) -> bool:
        names = frozenset(each.name for each in progress.pending)
        is_idle = all(each.state is not RepoState.WARMING for each in progress.pending)
        if names != self._names or not is_idle:
            self._names, self._since = names, now
        return now - self._since >= STALL_S
