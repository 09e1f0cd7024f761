"""The machine and the commit of a measurement, which every result names: without them a number says little."""

import os
import platform
import subprocess
from pathlib import Path
from typing import Any


def describe() -> dict[str, Any]:
    """The machine as this process sees it, and its load at this moment."""
    load = os.getloadavg()
    return {
        "cpu": _field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        # What this process may use, which in a container is less than what the machine has.
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load": [round(part, 2) for part in load],
    }


def commit() -> str:
    """The commit of the checkout this package runs from, with a + if a tracked file is changed; `unknown` elsewhere."""
    here = Path(__file__).resolve().parent
    try:
        # A wheel installed below another repository must not report that repository's commit.
        top = _git(here, "rev-parse", "--show-toplevel")
        if not (Path(top) / "src" / "argosy" / "bench" / "machine.py").samefile(__file__):
            return "unknown"
        is_changed = bool(_git(here, "status", "--porcelain", "--untracked-files=no"))
        return _git(here, "rev-parse", "--short", "HEAD") + ("+" if is_changed else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def cpu_s(pid: int) -> float:
    """The CPU time that a process has used, in seconds.

    From `schedstat`, which counts nanoseconds for each thread; `/proc/PID/stat` counts ticks of 10 ms, too coarse for
    the cost of one query. Threads that have ended are not in the sum, so only processes with a fixed set of threads
    should be measured this way.
    """
    total_ns = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total_ns += int(path.read_text().split()[0])
        except OSError:  # the thread has ended since the directory was listed
            continue
    return total_ns / 1e9


def _git(directory: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=directory, capture_output=True, text=True, check=True, timeout=5)
    return done.stdout.strip()


def _field(path: str, name: str) -> str:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")
