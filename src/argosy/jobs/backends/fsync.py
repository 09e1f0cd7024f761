"""Makes the files of a SlateDB in a folder survive a loss of power, which SlateDB itself does not.

What is guaranteed, on a file system and a disk that honour fsync: when `sync` returns, every write-ahead file that was
there when it was called is on the disk, and so is its name. Rows are answered for after that, so no acknowledged row is
lost. Tables and manifests are synced too, tables first, before the next answer and at least once a second.

What is not: SlateDB names a new manifest before its tables are known to be on the disk. If power fails within that
second, the newest manifest may be empty, which `mend` puts right, or may name a table that is not whole, which nothing
here puts right: the write-ahead files that the table replaced are kept for `wal_retention_s`, and so is the manifest
before it, but going back to them is an operator's work.
"""

import os
from collections.abc import Iterator
from pathlib import Path

_WAL = "wal"
_DESCRIBING = ("manifest", "compactions")  # small numbered files, of which the newest counts
_OTHERS = ("compacted", "compactions", "manifest")  # what is named comes before what names it


class DirSync:
    """Keeps track of what has been synced in one shard's folder. Its calls block: run them in a thread, one at a time.

    `sync_names` may run beside `sync_files`: what both are about to sync has its name already.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._wal_next = 0
        self._others: dict[str, set[str]] = {name: set() for name in _OTHERS}
        self._seen_ns: dict[str, int] = {}

    def settle(self) -> None:
        """Syncs all there is: what a writer that crashed had not synced is about to be served."""
        if (self._folder / _WAL).exists():  # not yet in a clone that was never opened
            numbers = sorted(_numbers(self._folder / _WAL))
            for number in numbers:
                _fsync_if_there(self._wal_file(number))
            self._wal_next = numbers[-1] + 1 if numbers else 0
            self.sync_names()
        self.sync_others()
        for folder in (self._folder, *self._folder.parents[:2]):
            _fsync(folder)

    def sync_files(self) -> None:
        """Syncs the write-ahead files that have come since."""
        self.sync_others()
        if self._sync_next() == 0:
            # Nothing under the next number: either all is synced, or numbers were passed over.
            for number in sorted(number for number in _numbers(self._folder / _WAL) if number >= self._wal_next):
                _fsync_if_there(self._wal_file(number))
                self._wal_next = number + 1

    def sync_names(self) -> None:
        _fsync(self._folder / _WAL)

    def sync_others(self) -> None:
        """Syncs tables and manifests that have come since; cheap when none have."""
        for name in _OTHERS:
            folder = self._folder / name
            try:
                changed_ns = folder.stat().st_mtime_ns
            except FileNotFoundError:
                continue
            if self._seen_ns.get(name) != changed_ns:
                self._sync_new(folder, self._others[name])
                self._seen_ns[name] = changed_ns

    def _sync_next(self) -> int:
        synced = 0
        while _fsync_if_there(self._wal_file(self._wal_next)):
            self._wal_next += 1
            synced += 1
        return synced

    def _sync_new(self, folder: Path, synced: set[str]) -> None:
        there = {name for name in os.listdir(folder) if "#" not in name}  # with a #: still being written
        for name in sorted(there - synced):
            _fsync_if_there(folder / name)
        synced &= there
        synced |= there
        _fsync(folder)

    def _wal_file(self, number: int) -> Path:
        return self._folder / _WAL / f"{number:020d}.sst"


def remove_empty_manifests(folder: Path) -> list[Path]:
    """Removes the newest manifests if they are empty: a loss of power came before they were synced.

    Nothing that was answered for depends on them, because an answer waits until the manifests before it are synced.
    """
    removed = []
    for name in _DESCRIBING:
        try:
            files = sorted(path for path in (folder / name).iterdir() if "#" not in path.name)
        except FileNotFoundError:
            continue
        while len(files) > 1 and files[-1].stat().st_size == 0:
            files[-1].unlink()
            removed.append(files.pop())
    return removed


def _numbers(folder: Path) -> Iterator[int]:
    for name in os.listdir(folder):
        stem, dot, ending = name.partition(".")
        if dot and ending == "sst" and stem.isdigit():
            yield int(stem)


def _fsync_if_there(path: Path) -> bool:
    """A file that is gone since its folder was read was superseded, and SlateDB has collected it."""
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
