"""Processes that this one starts, and that must not outlive it however it ends."""

import ctypes
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any

_PR_SET_PDEATHSIG = 1  # from linux/prctl.h
_C = ctypes.CDLL(None) if sys.platform == "linux" else None


def start(
    command: Sequence[str],
    *,
    environ: Mapping[str, str] | None = None,
    output: IO[Any] | None = None,
    in_own_session: bool = False,
) -> subprocess.Popen[bytes]:
    """Starts a process that the kernel ends when this one is gone, even if it was killed outright (on Linux).

    To be called from the main thread: the kernel goes by the thread that started the process.
    """
    return subprocess.Popen(
        command,
        env=environ,
        stdout=output,
        stderr=output,
        start_new_session=in_own_session,
        preexec_fn=None if _C is None else _end_with_parent,
    )


def _end_with_parent() -> None:
    """Runs in the new process before its program: nothing here may import or take locks."""
    assert _C is not None
    _C.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
