"""Mirrors on the disk, shared by all nodes of a machine: one bare repository per address (decision 0024).

Two file locks guard each. `writing` has one holder, which may fetch into the mirror. `using` is shared by the readers,
which a fetch does not disturb, and is exclusive for a deletion or a repack. A lock file outlives its mirror: if one
process deleted it while another waits on it, a third would create and lock another file. Its modification time is the
time of the mirror's last use.
"""

import asyncio
import fcntl
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from os.path import exists, join

from argosy.base.clock import Clock
from argosy.base.errors import Unavailable
from argosy.search.backends.remote_git import folder_bytes, run_to_end
from argosy.search.catalog.addresses import Address

WAIT_FIRST_S = 0.02  # between two attempts to lock; doubles. A blocking flock would occupy a thread
WAIT_CEILING_S = 0.5
ABANDONED_S = 60.0  # an unlocked temporary clone of this age is of a process that died
PACKS_MAX = 50  # git's own number: more make reading slow
_MIRROR, _NEW, _WRITING, _USING = ".git", ".new", ".writing", ".using"
_DAMAGED = "argosy-damaged"
_TEMPORARY = "passing"


class FileLock:
    """A lock between processes, and between tasks of one process: each has a file description of its own."""

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def try_lock(self, mode: int) -> bool:
        try:
            fcntl.flock(self.descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    async def lock(self, mode: int, clock: Clock, wait_s: float) -> bool:
        deadline, delay_s = clock.now() + wait_s, WAIT_FIRST_S
        while not self.try_lock(mode):
            if clock.now() >= deadline:
                return False
            await clock.sleep(delay_s)
            delay_s = min(delay_s * 2, WAIT_CEILING_S)
        return True

    def close(self) -> None:
        os.close(self.descriptor)


@dataclass
class Mirror:
    """A locked mirror: writable until `release_write_lock`, readable until the context ends."""

    path: str
    new_path: str  # a clone is created here, then renamed
    _writing: FileLock
    _using: FileLock

    @property
    def is_usable(self) -> bool:
        return exists(join(self.path, "HEAD")) and not exists(join(self.path, _DAMAGED))

    @property
    def lock_fds(self) -> tuple[int, ...]:
        return self._writing.descriptor, self._using.descriptor

    @property
    def needs_repack(self) -> bool:
        """Whether it consists of too many packs."""
        folder = join(self.path, "objects", "pack")
        return exists(folder) and sum(name.endswith(".pack") for name in os.listdir(folder)) > PACKS_MAX

    def delete_leftovers(self) -> None:
        """Deletes the temporary files of a killed git. This process has the write lock, so every lock file of git is
        stale."""
        shutil.rmtree(self.new_path, ignore_errors=True)
        for folder, _, names in os.walk(self.path):
            for name in names:
                if name.endswith(".lock") or name.startswith("tmp_"):
                    os.unlink(join(folder, name))

    def publish(self) -> None:
        """Puts the finished clone in place."""
        os.rename(self.new_path, self.path)

    def discard(self) -> None:
        """Deletes the mirror. Unavailable while others read from it."""
        with self.try_exclusive() as is_exclusive:
            if not is_exclusive:
                raise Unavailable("mirror damaged, and still in use by other readers; retrying later")
            shutil.rmtree(self.path, ignore_errors=True)

    @contextmanager
    def try_exclusive(self) -> Iterator[bool]:
        """Yields whether there are no other readers; if so, there are none until the context ends."""
        try:
            yield self._using.try_lock(fcntl.LOCK_EX)
        finally:
            # Only the holder of `writing` locks exclusively, so the shared lock is available at once.
            # Back to shared, because the caller goes on reading.
            is_shared = self._using.try_lock(fcntl.LOCK_SH)
            assert is_shared

    def release_write_lock(self) -> None:
        fcntl.flock(self._writing.descriptor, fcntl.LOCK_UN)

    def mark_damaged(self) -> None:
        """The next fetch clones it again."""
        with open(join(self.path, _DAMAGED), "w"):
            pass


class Mirrors:
    """The directory of all mirrors."""

    def __init__(self, folder: str, *, bytes_max: int, clock: Clock) -> None:
        self._dir = os.path.abspath(folder)
        self._bytes_max = bytes_max
        self._clock = clock
        self._sizes: dict[
            str, tuple[int, int]
        ] = {}  # by key: modification time of the packs, and the size at that time

    @asynccontextmanager
    async def open(self, address: Address, *, wait_s: float) -> AsyncIterator[Mirror]:
        """The locked mirror of an address, which need not exist yet; Unavailable if others hold it for `wait_s`."""
        key = mirror_key(address.url)
        base = join(self._dir, key)
        writing, using = self._locks(key)
        try:
            # In this order everywhere, so that two processes cannot wait for each other.
            is_ours = await writing.lock(fcntl.LOCK_EX, self._clock, wait_s)
            if not is_ours or not await using.lock(fcntl.LOCK_SH, self._clock, wait_s):
                raise Unavailable(f"{address.url} is being fetched by another process; retrying later")
            # The time of use is set on the lock file, which outlives the mirror.
            os.utime(using.descriptor)
            yield Mirror(base + _MIRROR, base + _NEW, writing, using)
        finally:
            using.close()
            writing.close()

    @asynccontextmanager
    async def temporary_clone(self) -> AsyncIterator[tuple[str, int]]:
        """An empty folder, deleted when the context ends, and the descriptor whose lock marks it as in use."""
        self._ensure_dir()
        # Not among the mirrors: `trim` must not see unfinished clones.
        parent = join(self._dir, _TEMPORARY)
        os.makedirs(parent, exist_ok=True)
        await asyncio.to_thread(self._delete_abandoned, parent)
        path = tempfile.mkdtemp(dir=parent)
        descriptor = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield path, descriptor
        finally:
            os.close(descriptor)
            await run_to_end(asyncio.to_thread(shutil.rmtree, path, ignore_errors=True))

    def trim(self) -> list[str]:
        """Deletes the least recently used mirrors until the rest fits; returns the deleted paths."""
        deleted = []
        # Measured again, because other processes add and delete mirrors in the same directory.
        keys = [name.removesuffix(_MIRROR) for name in os.listdir(self._dir) if name.endswith(_MIRROR)]
        self._sizes = {key: self._size(key) for key in keys}
        sizes = {key: bytes_ for key, (_, bytes_) in self._sizes.items()}
        total = sum(sizes.values())
        for key in sorted(keys, key=self._last_used):
            if total <= self._bytes_max:
                break
            if self._delete_unused(key):
                total -= sizes[key]
                deleted.append(join(self._dir, key + _MIRROR))
        return deleted

    def _ensure_dir(self) -> None:
        try:
            os.makedirs(self._dir, exist_ok=True)
        except OSError as error:
            raise Unavailable(
                f"cannot create {self._dir!r}: {error.strerror}; set fetch.dir to a writable directory"
            ) from error

    def _locks(self, key: str) -> tuple[FileLock, FileLock]:
        self._ensure_dir()
        try:
            writing = FileLock(join(self._dir, key + _WRITING))
            try:
                return writing, FileLock(join(self._dir, key + _USING))
            except OSError:
                writing.close()
                raise
        except OSError as error:
            raise Unavailable(
                f"cannot write to fetch.dir {self._dir!r}: {error.strerror}; check its permissions"
            ) from error

    def _size(self, key: str) -> tuple[int, int]:
        """What a mirror takes. Hundreds are looked at after every fetch, so one that has not changed is not walked."""
        path = join(self._dir, key + _MIRROR)
        try:
            changed = os.stat(join(path, "objects", "pack")).st_mtime_ns
        except OSError:
            changed = 0
        known = self._sizes.get(key)
        return known if known and known[0] == changed else (changed, folder_bytes(path))

    def _last_used(self, key: str) -> float:
        try:
            return os.stat(join(self._dir, key + _USING)).st_mtime
        except FileNotFoundError:
            return 0.0

    def _delete_unused(self, key: str) -> bool:
        writing, using = self._locks(key)
        try:
            # Not the lock of the writer alone: a reader may be using a mirror that no one fetches into.
            is_free = writing.try_lock(fcntl.LOCK_EX) and using.try_lock(fcntl.LOCK_EX)
            if is_free:
                shutil.rmtree(join(self._dir, key + _MIRROR), ignore_errors=True)
            return is_free
        finally:
            using.close()
            writing.close()

    def _delete_abandoned(self, parent: str) -> None:
        """Deletes the temporary clones of processes that died."""
        for entry in list(os.scandir(parent)):
            try:
                # A clone that was created this instant is not locked yet.
                if self._clock.wall() - entry.stat(follow_symlinks=False).st_mtime < ABANDONED_S:
                    continue
                descriptor = os.open(entry.path, os.O_RDONLY)
            except FileNotFoundError:
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(entry.path, ignore_errors=True)
            except BlockingIOError:
                continue
            finally:
                os.close(descriptor)


def mirror_key(url: str) -> str:
    """The name of a mirror: a readable part for operators, and a hash that no two addresses share."""
    plain = url.partition("://")[2] or url
    readable = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in plain)
    return f"{readable.strip('-')[:80]}-{sha256(url.encode(errors='surrogateescape')).hexdigest()[:24]}"
