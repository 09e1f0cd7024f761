"""The state of an `argosy up` on disk: one directory for each working set, used by one process at a time.

A working set is what one `argosy up` serves. Its directory follows from the addresses it was given
(`<data>/sets/<name>-<hash>`), or is named by `--data`. A process locks the directory as long as it runs; another
process for the same addresses takes the next numbered directory, so any number run side by side. While a process runs,
`<data>/running` has a record of it, by which other commands find its catalog.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec

from argosy.base.errors import Conflict, Invalid, NotFound

SETS = "sets"
RUNNING = "running"
LOCK = "lock"
RECORD = "running.json"
CATALOG = "registry.db"
SQLITE = "sqlite:///"
SIBLINGS_MAX = 100  # processes with the same addresses, side by side
RECORDS_MAX = 1000  # of running processes that are read
LOCK_TRIES_MAX = 100  # while other processes remove the directory that is being locked
NAME_CHARS_MAX = 40  # of a directory's name before the hash
HASH_CHARS = 10


class RunningUp(msgspec.Struct, frozen=True):
    """The record by which other commands of this user find a running `argosy up`."""

    pid: int
    address: str  # host:port
    data_dir: str
    catalog: str | None  # the SQLite file of its catalog; None if its settings name a registry
    sources: tuple[str, ...]  # what it was given: paths and URLs without passwords
    started_at: float  # seconds since 1970

    @property
    def summary(self) -> str:
        shown = ", ".join(self.sources[:3]) or "the default catalog"
        return f"http://{self.address} (pid {self.pid}, {shown}{', …' if len(self.sources) > 3 else ''})"


class WorkingSet:
    """A directory that this process has locked."""

    def __init__(self, directory: Path, lock: int, *, existed: bool, is_new: bool) -> None:
        self.directory = directory
        self.is_new = is_new  # nothing was in it
        self._existed = existed
        self._lock = lock
        self._index: Path | None = None

    def write_record(self, data: Path, record: RunningUp) -> None:
        """Makes the process known to other commands of this user until `release`."""
        _write(self.directory / RECORD, record)
        index = data / RUNNING / f"{self.directory.name}-{_hash(str(self.directory))}.json"
        index.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(index, record)
        self._index = index

    def release(self) -> None:
        if self._lock < 0:
            return
        for path in (self.directory / RECORD, self._index):
            if path is not None:
                path.unlink(missing_ok=True)
        os.close(self._lock)
        self._lock = -1

    def discard(self) -> None:
        """Removes what this process has created: its start has failed."""
        if self.is_new:
            for each in self.directory.iterdir():
                shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
            if not self._existed:
                self.directory.rmdir()
        self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def open_named_set(directory: Path) -> WorkingSet:
    """The directory given by `--data`; Conflict if another process uses it."""
    if directory.is_dir():
        entries = {each.name for each in directory.iterdir()}
        # A typing error must not put state into another directory of the user.
        if entries and not entries & {LOCK, CATALOG}:
            raise Invalid(
                f"{str(directory)!r} is not empty and contains no state of argosy; pass another one with --data"
            )
    found = _lock(directory)
    if found is None:
        record = _read(directory / RECORD)
        user = "another process" if record is None else f"argosy up at {record.summary}"
        raise Conflict(
            f"data directory {str(directory)!r} is in use by {user}; stop it, or pass another one with --data"
        )
    return found


def open_set(data: Path, urls: Sequence[str], *, name: str = "default") -> WorkingSet:
    """The first free directory for these addresses; the default one if there are none."""
    # Sorted, so that the order of the arguments does not matter; hashed, because paths may be longer than file names.
    base = f"{_plain(name)}-{_hash(*sorted(urls))}" if urls else name
    for number in range(1, SIBLINGS_MAX + 1):
        found = _lock(data / SETS / (base if number == 1 else f"{base}-{number}"))
        if found is not None:
            return found
    raise Conflict(f"{SIBLINGS_MAX} processes of argosy up serve the same repositories; stop one")


def list_running(data: Path) -> list[RunningUp]:
    """The running `argosy up` of this user, by age; records of processes that are gone are removed."""
    found = []
    for path in sorted((data / RUNNING).glob("*.json"))[:RECORDS_MAX]:
        record = _read(path)
        # The lock is the truth; a record may be left from a process that was killed.
        if record is not None and _is_locked(Path(record.data_dir)):
            found.append(record)
        else:
            with contextlib.suppress(OSError):  # on a read-only file system a stale record stays
                path.unlink(missing_ok=True)
    return sorted(found, key=lambda each: (each.started_at, each.pid))


@dataclass(frozen=True)
class CatalogChoice:
    url: str  # of the registry
    note: str = ""  # what the user should know


def choose_catalog(data: Path, configured: str, *, is_configured: bool, directory: Path | None) -> CatalogChoice:
    """The catalog that a command edits: in `directory`, or the configured one, or that of the one running `argosy up`.

    Invalid if several run, or if the one that runs uses a registry that only its own settings name.
    """
    running = list_running(data)
    if directory is not None:
        here = [each for each in running if Path(each.data_dir) == directory]
        if not here and not (directory / CATALOG).is_file():
            raise NotFound(
                f"no catalog found in {str(directory)!r}; pass the data directory of an argosy up with --data"
            )
        return CatalogChoice(f"{SQLITE}{directory / CATALOG}" if not here else _url_of(here[0]))
    if is_configured or not running:
        return CatalogChoice(configured)
    if len({each.catalog for each in running}) > 1:
        lines = [f"{each.summary}: --data {shlex.quote(each.data_dir)}" for each in running]
        raise Invalid("\n  ".join([f"{len(running)} argosy up are running; choose one:", *lines]))
    return CatalogChoice(_url_of(running[0]), f"using the catalog of {running[0].summary}")


def _url_of(record: RunningUp) -> str:
    if record.catalog is None:
        raise Invalid(f"argosy up at {record.summary} uses a registry of its settings; pass --config or --registry")
    return f"{SQLITE}{record.catalog}"


def _lock(directory: Path) -> WorkingSet | None:
    """Creates the directory if need be and locks it; None if another process has it."""
    if os.path.lexists(directory) and not directory.is_dir():
        raise Invalid(f"data directory {str(directory)!r} is not a directory; set node.data_dir or pass --data")
    for attempt in range(1, LOCK_TRIES_MAX + 1):
        try:
            existed = directory.is_dir()
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_new = not any(directory.iterdir())
            lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as why:
            # The process that created it may just have removed it; some file systems (/proc) never create one.
            if isinstance(why, FileNotFoundError) and attempt < LOCK_TRIES_MAX:
                continue
            raise Invalid(
                f"cannot write to data directory {str(directory)!r}: {why.strerror}; set node.data_dir or pass --data"
            ) from why
        try:
            # flock and not a pid file: the kernel releases it however the process ends, and a reused pid means nothing
            # (decision 0036).
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        with contextlib.suppress(FileNotFoundError):
            # Another process may have removed the directory after we opened the file: we would hold a lock that no one
            # sees.
            if os.path.samestat(os.fstat(lock), os.stat(directory / LOCK)):
                return WorkingSet(directory, lock, existed=existed, is_new=is_new)
        os.close(lock)  # the file was removed between opening and locking it
    raise Conflict(
        f"data directory {str(directory)!r} is removed repeatedly by other processes; pass another one with --data"
    )


def _is_locked(directory: Path) -> bool:
    try:
        lock = os.open(directory / LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        # Shared, so that two commands that look at the same time do not take each other for the owner.
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _write(path: Path, record: RunningUp) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.encode(record))
    # Readers of the record must never see half of it.
    os.replace(name, path)


def _read(path: Path) -> RunningUp | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunningUp)
    except (OSError, msgspec.DecodeError):
        return None


def _hash(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode(errors="surrogateescape")).hexdigest()[:HASH_CHARS]


def _plain(name: str) -> str:
    """Fit for a file system: letters, digits, dots, dashes."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-.")[:NAME_CHARS_MAX] or "set"
