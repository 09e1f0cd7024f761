"""What figures were measured on: a number without its machine says little."""

import os
import platform
import subprocess
from pathlib import Path
from typing import Any


def describe() -> dict[str, Any]:
    """The machine as this process sees it, and how busy it is just now."""
    load = os.getloadavg()
    return {
        "cpu": _field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load": [round(part, 2) for part in load],
    }


def commit() -> str:
    """The commit of the tree this package runs from, with a + if the tree has been changed; `unknown` elsewhere."""
    here = Path(__file__).resolve().parent
    try:
        # A package installed inside somebody else's repository must not report that repository's commit.
        top = _git(here, "rev-parse", "--show-toplevel")
        if not (Path(top) / "src" / "argosy" / "bench" / "machine.py").samefile(__file__):
            return "unknown"
        is_changed = bool(_git(here, "status", "--porcelain", "--untracked-files=no"))
        return _git(here, "rev-parse", "--short", "HEAD") + ("+" if is_changed else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def cpu_s(pid: int) -> float:
    """The CPU time a process has used, in seconds. The kernel counts each thread in nanoseconds."""
    total_ns = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total_ns += int(path.read_text().split()[0])
        except OSError:  # the thread ended as we looked
            continue
    return total_ns / 1e9


def _git(where: Path, *arguments: str) -> str:
    answer = subprocess.run(["git", *arguments], cwd=where, capture_output=True, text=True, check=True, timeout=5)
    return answer.stdout.strip()


def _field(path: str, name: str) -> str:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")
