"""Mirrors on the disk, shared by all nodes of a machine: one bare repository for each address.

Two locks guard each. `writing` has one holder, who may fetch into it; `using` is shared by those who read from it,
whom a fetch does not disturb, and is taken alone to delete or repack. A lock file outlives its mirror, because a file
that one process deletes while another waits for it is two locks. Its time tells when the mirror was last used.
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
from argosy.search.backends.remote_git import folder_bytes, to_the_end
from argosy.search.catalog.addresses import Address

WAIT_FIRST_S = 0.02  # between two tries for a lock; doubles
WAIT_CEILING_S = 0.5
LEFT_OVER_S = 60.0  # a passing clone that nobody holds for so long has been left behind
PACKS_MAX = 50  # git's own number: more make reading slow
_MIRROR, _NEW, _WRITING, _USING = ".git", ".new", ".writing", ".using"
_DAMAGED = "argosy-damaged"
_PASSING = "passing"


class Lock:
    """A lock between processes, and between the tasks of one. Waiting holds nothing up."""

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def take_now(self, mode: int) -> bool:
        try:
            fcntl.flock(self.descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    async def take(self, mode: int, clock: Clock, wait_s: float) -> bool:
        deadline, delay_s = clock.now() + wait_s, WAIT_FIRST_S
        while not self.take_now(mode):
            if clock.now() >= deadline:
                return False
            await clock.sleep(delay_s)
            delay_s = min(delay_s * 2, WAIT_CEILING_S)
        return True

    def close(self) -> None:
        os.close(self.descriptor)


@dataclass
class Mirror:
    """A mirror that is ours to write to until `done_writing`, and to read from until the context ends."""

    path: str
    new_path: str  # where one is made before it takes the other's place
    _writing: Lock
    _using: Lock

    @property
    def is_there(self) -> bool:
        return exists(join(self.path, "HEAD")) and not exists(join(self.path, _DAMAGED))

    @property
    def held(self) -> tuple[int, ...]:
        return self._writing.descriptor, self._using.descriptor

    @property
    def is_scattered(self) -> bool:
        """Whether it should be repacked."""
        folder = join(self.path, "objects", "pack")
        return exists(folder) and sum(name.endswith(".pack") for name in os.listdir(folder)) > PACKS_MAX

    def tidy(self) -> None:
        """Removes what a git that was killed has left. Nobody else writes here, so every lock of git's is stale."""
        shutil.rmtree(self.new_path, ignore_errors=True)
        for folder, _, names in os.walk(self.path):
            for name in names:
                if name.endswith(".lock") or name.startswith("tmp_"):
                    os.unlink(join(folder, name))

    def publish(self) -> None:
        """Puts the finished one in its place."""
        os.rename(self.new_path, self.path)

    def discard(self) -> None:
        """Deletes it, unless others read from it."""
        with self.alone() as is_alone:
            if not is_alone:
                raise Unavailable("its mirror is damaged and others still read from it: it will be tried again")
            shutil.rmtree(self.path, ignore_errors=True)

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Whether nobody else reads from it, and nobody begins to while this lasts."""
        try:
            yield self._using.take_now(fcntl.LOCK_EX)
        finally:
            # Nobody but the holder of `writing` takes it alone, so it is shared again at once.
            is_shared = self._using.take_now(fcntl.LOCK_SH)
            assert is_shared

    def done_writing(self) -> None:
        fcntl.flock(self._writing.descriptor, fcntl.LOCK_UN)

    def mark_damaged(self) -> None:
        """The next to fetch makes it anew."""
        with open(join(self.path, _DAMAGED), "w"):
            pass


class Mirrors:
    """The folder of all mirrors."""

    def __init__(self, folder: str, *, bytes_max: int, clock: Clock) -> None:
        self._folder = os.path.abspath(folder)
        self._bytes_max = bytes_max
        self._clock = clock
        self._sizes: dict[str, tuple[int, int]] = {}  # by key: when packs last came or went, and the bytes then

    @asynccontextmanager
    async def open(self, address: Address, *, wait_s: float) -> AsyncIterator[Mirror]:
        """The mirror of an address, there or not; Unavailable if another fetches into it for longer than `wait_s`."""
        key = mirror_key(address.url)
        base = join(self._folder, key)
        writing, using = self._locks(key)
        try:
            is_ours = await writing.take(fcntl.LOCK_EX, self._clock, wait_s)
            if not is_ours or not await using.take(fcntl.LOCK_SH, self._clock, wait_s):
                raise Unavailable(f"{address.url} is being fetched by another process: it will be tried again")
            os.utime(using.descriptor)
            yield Mirror(base + _MIRROR, base + _NEW, writing, using)
        finally:
            using.close()
            writing.close()

    @asynccontextmanager
    async def passing(self) -> AsyncIterator[tuple[str, int]]:
        """An empty folder that goes when the context ends, and the descriptor that holds it."""
        self._made()
        parent = join(self._folder, _PASSING)
        os.makedirs(parent, exist_ok=True)
        await asyncio.to_thread(self._sweep, parent)
        path = tempfile.mkdtemp(dir=parent)
        descriptor = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield path, descriptor
        finally:
            os.close(descriptor)
            await to_the_end(asyncio.to_thread(shutil.rmtree, path, ignore_errors=True))

    def trim(self) -> list[str]:
        """Deletes the mirrors longest unused until the rest is small enough; the paths of those that went."""
        gone = []
        keys = [name.removesuffix(_MIRROR) for name in os.listdir(self._folder) if name.endswith(_MIRROR)]
        self._sizes = {key: self._size(key) for key in keys}
        sizes = {key: bytes_ for key, (_, bytes_) in self._sizes.items()}
        total = sum(sizes.values())
        for key in sorted(keys, key=self._last_used):
            if total <= self._bytes_max:
                break
            if self._delete(key):
                total -= sizes[key]
                gone.append(join(self._folder, key + _MIRROR))
        return gone

    def _made(self) -> None:
        try:
            os.makedirs(self._folder, exist_ok=True)
        except OSError as error:
            raise Unavailable(
                f"the folder {self._folder!r} cannot be made ({error.strerror}): set fetch.dir to one that can"
            ) from error

    def _locks(self, key: str) -> tuple[Lock, Lock]:
        self._made()
        try:
            writing = Lock(join(self._folder, key + _WRITING))
            try:
                return writing, Lock(join(self._folder, key + _USING))
            except OSError:
                writing.close()
                raise
        except OSError as error:
            raise Unavailable(f"fetch.dir cannot be written to ({error.strerror}): check it") from error

    def _size(self, key: str) -> tuple[int, int]:
        """What a mirror takes. Hundreds are looked at after every fetch, so one that has not changed is not walked."""
        path = join(self._folder, key + _MIRROR)
        try:
            changed = os.stat(join(path, "objects", "pack")).st_mtime_ns
        except OSError:
            changed = 0
        known = self._sizes.get(key)
        return known if known and known[0] == changed else (changed, folder_bytes(path))

    def _last_used(self, key: str) -> float:
        try:
            return os.stat(join(self._folder, key + _USING)).st_mtime
        except FileNotFoundError:
            return 0.0

    def _delete(self, key: str) -> bool:
        writing, using = self._locks(key)
        try:
            is_free = writing.take_now(fcntl.LOCK_EX) and using.take_now(fcntl.LOCK_EX)
            if is_free:
                shutil.rmtree(join(self._folder, key + _MIRROR), ignore_errors=True)
            return is_free
        finally:
            using.close()
            writing.close()

    def _sweep(self, parent: str) -> None:
        """Removes the passing clones of processes that did not last."""
        for entry in list(os.scandir(parent)):
            try:
                # One that was made this instant is not locked yet.
                if self._clock.wall() - entry.stat(follow_symlinks=False).st_mtime < LEFT_OVER_S:
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
    """A name for a mirror that people can read and nobody can make two addresses share."""
    plain = url.partition("://")[2] or url
    readable = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in plain)
    return f"{readable.strip('-')[:80]}-{sha256(url.encode(errors='surrogateescape')).hexdigest()[:24]}"
