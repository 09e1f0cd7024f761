"""Memory that this process may still allocate on Linux: the smallest of all limits that apply.

Pages of files that were not used recently (`inactive_file`) count as free: the kernel drops them before it kills a
process for lack of memory. A control group is also limited by its parents.
"""

import re
import resource
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from argosy.base.errors import Invalid, Unavailable

# At most 20 digits, as in 2^64: anything longer is no number of bytes.
_DIGITS = re.compile(r"[0-9]{1,20}")


class CgroupMemory:
    """A `MemoryProbe`. Every call reads the limits again, because they can change under a running process."""

    def __init__(
        self,
        root: Path = Path("/sys/fs/cgroup"),
        proc: Path = Path("/proc"),
        limit_bytes: int | None = None,
    ) -> None:
        if limit_bytes is not None and limit_bytes <= 0:
            raise Invalid(
                f"limit_bytes must be more than 0, not {limit_bytes}; omit it to use the limits of the machine"
            )
        self._root = root
        self._proc = proc
        self._limit_bytes = limit_bytes

    def free_bytes(self) -> int:
        limits = [*self._of_limit(), *self._of_groups(), *self._of_machine()]
        if not limits:
            raise Unavailable(f"no memory limit is readable in {self._root} or {self._proc}; set limit_bytes")
        # Use may exceed a limit that was lowered under a running process.
        return max(0, min(limits))

    def _of_limit(self) -> Iterator[int]:
        if self._limit_bytes is not None:
            resident_kib = _field(self._proc / "self/status", "VmRSS:")
            # Resident memory, because the limit set by the operator is meant for this process, not for its control
            # group.
            yield self._limit_bytes - (_peak_bytes() if resident_kib is None else resident_kib * 1024)

    def _of_groups(self) -> Iterator[int]:
        # Lines of `number:controllers:path`; number 0 is version 2. A host may have both versions at once.
        for line in (_text(self._proc / "self/cgroup") or "").splitlines():
            number, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            if number == "0":
                yield from self._of_v2(path)
            elif "memory" in controllers.split(","):
                yield from self._of_v1(path)

    def _of_v2(self, path: str) -> Iterator[int]:
        # Beside version 1 controllers, systemd mounts version 2 one level down.
        for mount in (self._root, self._root / "unified"):
            for group in _upwards(mount, path):
                limit, used = _number(group / "memory.max"), _number(group / "memory.current")
                if limit is not None and used is not None:
                    yield limit - used + (_field(group / "memory.stat", "inactive_file") or 0)

    def _of_v1(self, path: str) -> Iterator[int]:
        # Version 1 writes "no limit" as a huge number, which is never the smallest: the machine's own memory is less.
        for group in _upwards(self._root / "memory", path):
            limit, used = _number(group / "memory.limit_in_bytes"), _number(group / "memory.usage_in_bytes")
            if limit is not None and used is not None:
                yield limit - used + (_field(group / "memory.stat", "total_inactive_file") or 0)

    def _of_machine(self) -> Iterator[int]:
        available_kib = _field(self._proc / "meminfo", "MemAvailable:")
        if available_kib is not None:
            yield available_kib * 1024


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    """The group and all its parents up to the mount.

    In a container the path may be the host's, or begin with "..", while the mount shows the container's own group as
    its root. Directories that do not exist are skipped by the readers, and the root is always read.
    """
    names = [name for name in PurePosixPath(path).parts if name not in ("/", "..")]
    for depth in range(len(names), -1, -1):
        yield mount.joinpath(*names[:depth])


def _peak_bytes() -> int:
    """Peak memory of this process, where there is no /proc. It is never less than the current use."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS reports bytes, Linux KiB


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    # A file that is missing or not readable means that this limit does not apply or cannot be known.
    except OSError:
        return None


def _number(path: Path) -> int | None:
    """The number in a file; None for "max", and if the file does not exist or has no number."""
    text = (_text(path) or "").strip()
    return int(text) if _DIGITS.fullmatch(text) else None


def _field(path: Path, name: str) -> int | None:
    """The number beside `name` in a file of names and numbers."""
    for line in (_text(path) or "").splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == name and _DIGITS.fullmatch(words[1]):
            return int(words[1])
    return None
