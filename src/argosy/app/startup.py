"""Startup progress: reports the state of the indexes until the process is ready, to a terminal (`console.py`) or the
log.

A process is ready when all its roles are, as for `/readyz`, and each repository is served, has failed since the start,
or has been without a node for `STALL_S`.
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
from argosy.gateway.ports import FleetStatus, RepoState, RepoView

POLL_S = 0.25  # between two reads of the status until the process is ready
READY_POLL_S = 10.0  # afterwards, for repositories that fail later
STALL_S = 60.0  # readiness does not wait for a repository that has had no node for so long

Status = Callable[[], Awaitable[FleetStatus]]

log = logs.get("app")


@dataclass(frozen=True)
class IndexProgress:
    """The repositories of a fleet by progress."""

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
        """By repository: the error of a failed index, or of a failed update of a served one."""
        return {each.name: each.reason for each in (*self.failed, *self.ready) if each.reason}


def classify(fleet: FleetStatus, *, since_ms: float = 0.0) -> IndexProgress:
    """Sorts repositories; a failure before `since_ms`, in an earlier run, does not count because it is retried."""
    ready, pending, failed = [], [], []
    for each in fleet.repositories:
        if each.state in (RepoState.READY, RepoState.DRAINING):
            ready.append(each)
        elif each.state is RepoState.FAILED and (each.spec.last_failed_at or 0) >= since_ms:
            failed.append(each)
        else:
            pending.append(each)
    return IndexProgress(tuple(ready), tuple(pending), tuple(failed))


class ChildProcess(Protocol):
    """A search node that this process started."""

    @property
    def name(self) -> str: ...

    @property
    def pid(self) -> int | None: ...

    @property
    def address(self) -> str: ...


class Display(Protocol):
    """Receives the progress of the start."""

    def set_step(self, text: str, *, hint: str = "") -> None:
        """Sets the current step; `hint` explains why it may take long."""
        ...

    def set_url(self, url: str) -> None:
        """Sets the URL of the process."""
        ...

    def set_children(self, children: Sequence[ChildProcess]) -> None: ...

    def show_progress(self, progress: IndexProgress) -> None: ...

    def show_ready(self, progress: IndexProgress) -> None: ...

    def warn(self, text: str) -> None:
        """Shows a line that requires action."""
        ...

    def note(self, text: str) -> None:
        """Shows a line for information."""
        ...

    def show_draining(self) -> None: ...

    def show_stopping(self) -> None: ...


class LogDisplay:
    """The display of a service: one log line when the process is ready."""

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
        # `argosy up > file` and test harnesses wait for this line.
        if self._url and _is_stdout_redirected():
            with suppress(OSError):  # the reader may be gone
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
    """Reports progress until the process is ready, then failing repositories, until it is cancelled.

    Without `status` there are no repositories to wait for.
    """
    since_ms, stall = time.time() * 1000, _StallClock()
    while True:
        progress = IndexProgress() if status is None else await _read(status, since_ms)
        if progress is not None:
            display.show_progress(progress)
            if is_ready() and (not progress.pending or stall.is_over(progress, time.monotonic())):
                break
        # Polled, because the state contains reports of nodes, which are only available on request.
        await asyncio.sleep(POLL_S)
    display.show_ready(progress)
    stalled = {each.name: "no node has enough free memory" for each in progress.pending}
    reported = _warn(display, {**progress.problems, **stalled}, {})
    while True:
        await asyncio.sleep(READY_POLL_S)
        later = None if status is None else await _read(status, since_ms)
        if later is not None:
            reported = _warn(display, later.problems, reported)


async def _read(status: Status, since_ms: float) -> IndexProgress | None:
    """None while the gateway has no status yet."""
    try:
        return classify(await status(), since_ms=since_ms)
    except ArgosyError:
        return None


def _warn(display: Display, problems: dict[str, str], reported: dict[str, str]) -> dict[str, str]:
    """Reports each problem once, and again if it recurs."""
    for name, reason in problems.items():
        if reported.get(name) != reason:
            # A problem that is no longer reported is forgotten, so that it is shown again when it recurs.
            display.warn(f"{name}: {reason}")
    return problems


@dataclass
class _StallClock:
    """Measures how long the same repositories have been without a node."""

    _names: frozenset[str] = frozenset()
    _since: float = field(default=0.0)

    def is_over(self, progress: IndexProgress, now: float) -> bool:
        # Indexing may take longer than any stall; only repositories that no node has taken are given up.
        names = frozenset(each.name for each in progress.pending)
        is_idle = all(each.state is not RepoState.WARMING for each in progress.pending)
        if names != self._names or not is_idle:
            self._names, self._since = names, now
        return now - self._since >= STALL_S
