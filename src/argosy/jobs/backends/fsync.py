"""Makes the files of a SlateDB in a directory survive a power failure. SlateDB itself calls no fsync.

Guaranteed, on a file system and a disk that honour fsync: when `sync_files` and `sync_names` have returned, every
write-ahead file that existed when they were called is on the disk, and so is its name. Rows are acknowledged after
that, so no acknowledged row is lost (JOB-1). Tables and manifests are synced too, tables first, before the next
acknowledgement and at least once a second.

Not guaranteed: SlateDB writes a new manifest before its tables are known to be on the disk. If power fails within that
second, the newest manifest may be empty, which `remove_empty_manifests` repairs, or may name an incomplete table, which
nothing here repairs: the write-ahead files that the table replaced are kept for `wal_retention_s`, and so is the
previous manifest, but going back to them is an operator's work.
"""

import os
from collections.abc import Iterator
from pathlib import Path

_WAL = "wal"
_NUMBERED = ("manifest", "compactions")  # small files with increasing numbers; the newest one is used
# Synced in this order: a manifest must not be on the disk before the tables that it names.
_OTHERS = ("compacted", "compactions", "manifest")


class DirSync:
    """Tracks what has been synced in one shard's directory. Its calls block: run them in a thread, one at a time.

    `sync_names` may run concurrently with `sync_files`: the files that both are about to sync have their names already.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._wal_next = 0
        self._others: dict[str, set[str]] = {name: set() for name in _OTHERS}
        self._seen_ns: dict[str, int] = {}

    def sync_all(self) -> None:
        """Syncs all files, when a shard is opened: rows that a crashed writer had not synced are about to be served."""
        if (self._folder / _WAL).exists():  # not yet in a clone that was never opened
            numbers = sorted(_numbers(self._folder / _WAL))
            for number in numbers:
                _fsync_if_present(self._wal_file(number))
            self._wal_next = numbers[-1] + 1 if numbers else 0
            self.sync_names()
        self.sync_others()
        # The names of new directories are in their parents.
        for folder in (self._folder, *self._folder.parents[:2]):
            _fsync(folder)

    def sync_files(self) -> None:
        """Syncs the write-ahead files that are new."""
        self.sync_others()
        # Usually one file is new and has the next number: no directory is listed then.
        if self._sync_next() == 0:
            # No file with the next number: either all are synced, or SlateDB has skipped numbers.
            for number in sorted(number for number in _numbers(self._folder / _WAL) if number >= self._wal_next):
                _fsync_if_present(self._wal_file(number))
                self._wal_next = number + 1

    def sync_names(self) -> None:
        _fsync(self._folder / _WAL)

    def sync_others(self) -> None:
        """Syncs tables and manifests that are new; three stat calls if there are none."""
        for name in _OTHERS:
            folder = self._folder / name
            try:
                # A directory's time changes with its names; without a change there is no new file.
                changed_ns = folder.stat().st_mtime_ns
            except FileNotFoundError:
                continue
            if self._seen_ns.get(name) != changed_ns:
                self._sync_new(folder, self._others[name])
                self._seen_ns[name] = changed_ns

    def _sync_next(self) -> int:
        synced = 0
        while _fsync_if_present(self._wal_file(self._wal_next)):
            self._wal_next += 1
            synced += 1
        return synced

    def _sync_new(self, folder: Path, synced: set[str]) -> None:
        present = {
            name for name in os.listdir(folder) if "#" not in name
        }  # object_store's names of unfinished files have #
        for name in sorted(present - synced):
            _fsync_if_present(folder / name)
        # Forgets files that SlateDB has collected, so the set does not grow.
        synced &= present
        synced |= present
        _fsync(folder)

    def _wal_file(self, number: int) -> Path:
        return self._folder / _WAL / f"{number:020d}.sst"


def remove_empty_manifests(folder: Path) -> list[Path]:
    """Removes the newest manifests if they are empty: power failed before they were synced.

    No acknowledged row depends on them, because an acknowledgement waits until earlier manifests are synced.
    """
    removed = []
    for name in _NUMBERED:
        try:
            files = sorted(path for path in (folder / name).iterdir() if "#" not in path.name)
        except FileNotFoundError:
            continue
        # At least one is left: without any the shard would look new.
        while len(files) > 1 and files[-1].stat().st_size == 0:
            files[-1].unlink()
            removed.append(files.pop())
    return removed


def _numbers(folder: Path) -> Iterator[int]:
    for name in os.listdir(folder):
        stem, dot, ending = name.partition(".")
        if dot and ending == "sst" and stem.isdigit():
            yield int(stem)


def _fsync_if_present(path: Path) -> bool:
    """Returns whether the file exists. One that is gone since its directory was listed was collected by SlateDB."""
    try:
        _fsync(path)
    except FileNotFoundError:
        return False
    return True


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
