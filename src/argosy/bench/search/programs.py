"""Runs a program to its end and tells what it cost: wall time, and the CPU of it and everything it started."""

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from argosy.base.errors import Unavailable

WALL_S_MAX = 600.0  # a program that is not done by then hangs
ERROR_CHARACTERS_MAX = 300
# 1 is "nothing found"; xargs says 123 when one of those it ran did so.
FINE = frozenset({0, 1, 123})


@dataclass(frozen=True)
class Spent:
    """What one question cost."""

    cpu_s: float
    wall_s: float


@dataclass(frozen=True)
class Ran:
    """A program that has ended well."""

    spent: Spent
    output: bytes


def run(command: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None, keeps_output: bool = False) -> Ran:
    """Output goes nowhere unless it is wanted: to print is part of what a program does, to store it is not."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        began = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=output if keeps_output else subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,  # so that a pipeline can be ended as a whole
        )
        code, cpu_s = _waited(process)
        spent = Spent(cpu_s, time.perf_counter() - began)
        said = _text(errors)
        if code not in FINE or said:
            raise Unavailable(f"{command[0]} failed with code {code}: {said or 'it did not say why'}")
        output.seek(0)
        return Ran(spent, output.read())


def _waited(process: "subprocess.Popen[bytes]") -> tuple[int, float]:
    """The exit code and the CPU seconds; children that it has waited for are counted with it."""
    timer = threading.Timer(WALL_S_MAX, _end, [process])
    timer.start()
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        _end(process)
        raise
    finally:
        timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime


def _end(process: "subprocess.Popen[bytes]") -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:  # it ended by itself just now
        return


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read(ERROR_CHARACTERS_MAX).decode(errors="replace").strip()
