"""Runs a program to its end and measures wall time, and the CPU of it and of everything that it started."""

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

WALL_S_MAX = 600.0  # a program that takes longer hangs
ERROR_CHARACTERS_MAX = 300
# 1 is "nothing found"; xargs exits with 123 if one of the programs it ran exited with 1.
SUCCESS_CODES = frozenset({0, 1, 123})


@dataclass(frozen=True)
class CpuAndWall:
    """What some work cost."""

    cpu_s: float
    wall_s: float


@dataclass(frozen=True)
class ProgramResult:
    """A program that has ended without an error."""

    spent: CpuAndWall
    output: bytes


def run_program(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None, keeps_output: bool = False
) -> ProgramResult:
    """The output goes to /dev/null unless it is needed: printing is part of a program's work, storing is not."""
    # Files and not pipes: a full pipe would make the program wait for this process to read.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=output if keeps_output else subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,  # so that a whole pipeline can be killed
        )
        code, cpu_s = _wait(process)
        spent = CpuAndWall(cpu_s, time.perf_counter() - started)
        message = _read_text(errors)
        if code not in SUCCESS_CODES or message:
            raise Unavailable(f"{command[0]} failed with code {code}: {message or 'no message'}")
        output.seek(0)
        return ProgramResult(spent, output.read())


def _wait(process: "subprocess.Popen[bytes]") -> tuple[int, float]:
    """The exit code and the CPU seconds. `wait4` also counts the children that the program itself has waited for."""
    timer = threading.Timer(WALL_S_MAX, _kill, [process])
    timer.start()
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        _kill(process)
        raise
    finally:
        timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime


def _kill(process: "subprocess.Popen[bytes]") -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:  # it has ended in the meantime
        return


def _read_text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read(ERROR_CHARACTERS_MAX).decode(errors="replace").strip()
