"""Files to publish, found below a path and hashed with sha2-256.

A symbolic link is followed only to a file below the same path, so that nothing else on the machine is published;
links to directories are never followed, so there are no loops. Unreadable files are reported and skipped.
"""

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias

from argosy.base.errors import NotFound
from argosy.ipni.formats.multihash import SHA2_256, wrap

MULTIHASH_BYTES = 34  # of sha2-256
SPOOL_BYTES_MAX = 8 << 20  # of multihashes in memory; more go to a temporary file
READ_BYTES = 64 << 10


@dataclass(frozen=True)
class FileHashed:
    """A file that will be published."""

    path: Path
    size_bytes: int


@dataclass(frozen=True)
class FileSkipped:
    """Something that is not published, and why."""

    path: Path
    reason: str


Note: TypeAlias = FileHashed | FileSkipped


class Hashes:
    """The multihashes of one directory or file in a stable order, and a digest over all of them."""

    def __init__(self, spool: BinaryIO, digest: str, count: int, size_bytes: int) -> None:
        self.digest = digest
        self.count = count
        self.size_bytes = size_bytes
        self._spool = spool

    def __iter__(self) -> Iterator[bytes]:
        self._spool.seek(0)
        while piece := self._spool.read(MULTIHASH_BYTES):
            yield piece


@contextmanager
def hash_files(path: Path, note: Callable[[Note], None]) -> Iterator[Hashes]:
    """Hashes all files below the path; raises NotFound if it does not exist."""
    if not path.exists():
        raise NotFound(f"{path} not found")
    digest = hashlib.sha256()
    count = size_bytes = 0
    with tempfile.SpooledTemporaryFile(SPOOL_BYTES_MAX) as spool:
        for file in _files(path, note):
            try:
                content, size = _hash(file)
            except OSError as error:
                note(FileSkipped(file, f"unreadable: {error.strerror}"))
                continue
            multihash = wrap(SHA2_256, content)
            digest.update(multihash)
            spool.write(multihash)
            count += 1
            size_bytes += size
            note(FileHashed(file, size))
        yield Hashes(spool, digest.hexdigest(), count, size_bytes)  # type: ignore[arg-type]


def _files(path: Path, note: Callable[[Note], None]) -> Iterator[Path]:
    """The files below the path in the order of their names. The path itself may be a link, because the user named
    it."""
    if not path.is_dir():
        if path.is_file():
            yield path
        else:
            note(FileSkipped(path, "not a regular file"))
        return
    root = path.resolve()
    waiting = [path]
    while waiting:
        directory = waiting.pop()
        try:
            with os.scandir(directory) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            note(FileSkipped(directory, f"unreadable: {error.strerror}"))
            continue
        for entry in entries:
            path_of_entry = directory / entry.name
            if entry.is_symlink():
                if reason := _refusal(path_of_entry, root):
                    note(FileSkipped(path_of_entry, reason))
                else:
                    yield path_of_entry
            elif entry.is_file():
                yield path_of_entry
            elif not entry.is_dir():
                note(FileSkipped(path_of_entry, "not a regular file"))
        # Reversed, because the last one is visited next: the order must be the same at every run, or the digest would
        # change.
        waiting.extend(directory / entry.name for entry in reversed(entries) if entry.is_dir(follow_symlinks=False))


def _refusal(link: Path, root: Path) -> str:
    """Why a link is not followed; empty if it is followed."""
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError):
        return "broken link"
    if not target.is_relative_to(root):
        return "link to a file outside of the published path"
    return "" if target.is_file() else "link to a directory"


def _hash(path: Path) -> tuple[bytes, int]:
    """The sha2-256 and the size of the file's content."""
    # O_NONBLOCK: the file may have become a pipe without a writer since it was found, and opening that would block.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb", buffering=0) as file:
        # Checked on the open file: the path may lead to something else by now.
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(0, "not a regular file")
        digest = hashlib.sha256()
        size = 0
        while piece := file.read(READ_BYTES):
            digest.update(piece)
            size += len(piece)
        return digest.digest(), size
