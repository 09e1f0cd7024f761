"""Usage of the indexer's disks in percent."""

import os
from collections.abc import Sequence
from pathlib import Path

from argosy.ipni.indexer.freeze import UNREADABLE, Usage
from argosy.ipni.settings import IndexerSettings

# A percentage is short; more is another file that was named by mistake.
FILE_CHARS_MAX = 64


def usage_of(settings: IndexerSettings) -> Usage:
    return FileUsage(settings.usage_file) if settings.usage_file else DiskUsage([settings.dir])


class DiskUsage:
    """Usage of the fullest file system that holds one of the directories; directories on one device count once."""

    def __init__(self, directories: Sequence[str | Path]) -> None:
        self._directories = [Path(each) for each in directories]

    def percent(self) -> float:
        try:
            by_device = {os.stat(each).st_dev: os.statvfs(each) for each in self._directories}
        # Reported as -1 and not raised: an unreadable disk must not stop the ingest, and the metric shows it.
        except OSError:
            return UNREADABLE
        return max((_percent(stats) for stats in by_device.values()), default=0.0)


class FileUsage:
    """Usage written to a file by an external program; anything but a number from 0 to 100 is unreadable."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def percent(self) -> float:
        try:
            with self._path.open(encoding="ascii") as file:
                percent = float(file.read(FILE_CHARS_MAX).strip().removesuffix("%"))
        except (OSError, ValueError):
            return UNREADABLE
        return percent if 0.0 <= percent <= 100.0 else UNREADABLE


def _percent(stats: os.statvfs_result) -> float:
    """Used space as a share of what non-root users may use, as df computes it: blocks reserved for root do not
    count."""
    used = stats.f_blocks - stats.f_bfree
    usable = used + stats.f_bavail
    return 100.0 * used / usable if usable else 0.0
