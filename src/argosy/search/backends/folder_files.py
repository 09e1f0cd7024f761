"""Files on a local disk: identifying their content without reading it, and reading them safely while others write.

A content id is a hash of the file's device, inode, size and times, as git's own index trusts them ("racy git"). The
change time is included because it cannot be set back, as the modification time can (and unpackers do). Times have a
resolution of milliseconds, on some file systems of seconds, so a file may change twice within one tick: the id of a
file that changed just before the listing is valid for that listing only, and the next one reads the file again.

Files are opened relative to open directories and never through a link, so nothing outside the root is read: a link that
replaced a folder since the listing ends the path (as with `openat2` and `RESOLVE_BENEATH`, which not every kernel has).
"""

import errno
import os
import stat
import struct
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from os.path import basename
from typing import Self

import xxhash

from argosy.base.errors import Unavailable
from argosy.search.documents import DOCUMENT_BYTES_MAX, Content, Entry, EntryKind, SkipReason

SETTLED_S = 2.0  # the coarsest resolution of file times (FAT)
READ_BYTES = 1 << 20  # at a time, of a file that is longer than its size said
# Descriptors are scarce (often 1,024 a process), and a walk reads neighbouring files one after the other.
FOLDERS_OPEN_MAX = 64

_STATE = struct.Struct("<QQQqqd")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a pipe that replaced the file would otherwise wait for a writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class RootDir:
    """Opens files below `root`. Paths are bytes relative to it, separated by slashes; the root itself is the empty
    path.

    The most recently used folders stay open: that spares the kernel the lookup of the whole path for every file, and
    allows paths longer than it accepts in one piece.
    """

    def __init__(self, root: str) -> None:
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # the root itself may be a link
        self._folders: OrderedDict[bytes, int] = OrderedDict()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (self._root, *self._folders.values()):
            os.close(descriptor)
        self._folders.clear()

    def folder(self, path: bytes) -> int:
        """The descriptor of a folder; valid until FOLDERS_OPEN_MAX others have been requested."""
        missing = []
        while path and path not in self._folders:
            path, _, name = path.rpartition(b"/")
            missing.append(name)
        if path:
            self._folders.move_to_end(path)
        descriptor = self._folders[path] if path else self._root
        while missing:
            name = missing.pop()
            descriptor = os.open(name, _FOLDER, dir_fd=descriptor)
            path = path + b"/" + name if path else name
            self._folders[path] = descriptor
            if len(self._folders) > FOLDERS_OPEN_MAX:
                os.close(self._folders.popitem(last=False)[1])
        return descriptor

    def open(self, path: bytes) -> int:
        """Opens whatever is at the path now; the caller checks its type, and closes it."""
        folder, _, name = path.rpartition(b"/")
        return os.open(name, _FILE, dir_fd=self.folder(folder))

    def stat(self, path: bytes) -> os.stat_result:
        """The state of what is at the path; of a link, the link itself."""
        folder, _, name = path.rpartition(b"/")
        return os.stat(name, dir_fd=self.folder(folder), follow_symlinks=False)


def open_root(root: str) -> RootDir:
    """Unavailable if the folder cannot be read."""
    try:
        return RootDir(root)
    except OSError as error:
        raise Unavailable(f"cannot read folder {root!r}: {error.strerror}; check its permissions") from error


def folder_name(path: str) -> str:
    """The name of a folder as a repository: the last component of its path, as valid Unicode."""
    return basename(path.rstrip("/")).encode(errors="surrogateescape").decode(errors="replace") or "root"


# -- entries -----------------------------------------------------------------------------------------------------------


def content_id(state: os.stat_result, listed_s: float) -> bytes:
    """The id of the content of a file that was in this state at that time."""
    changed_s = max(state.st_mtime, state.st_ctime)
    packed = _STATE.pack(
        state.st_dev,
        state.st_ino,
        state.st_size,
        state.st_mtime_ns,
        state.st_ctime_ns,
        # The time of the listing instead of a constant, so that the next listing reads such a file again.
        0.0 if changed_s < listed_s - SETTLED_S else listed_s,
    )
    return xxhash.xxh3_128_digest(packed)


def entry_of(path: bytes, state: os.stat_result, listed_s: float) -> Entry | None:
    """The entry of a path; None for pipes, sockets and devices, which have no lasting content."""
    if stat.S_ISREG(state.st_mode):
        return Entry(path, content_id(state, listed_s), state.st_size)
    if stat.S_ISLNK(state.st_mode):
        return Entry(path, content_id(state, listed_s), 0, kind=EntryKind.SYMLINK)
    return None


def submodule_entry(path: bytes, state: os.stat_result, listed_s: float) -> Entry:
    """The location of another repository."""
    return Entry(path, content_id(state, listed_s), 0, kind=EntryKind.SUBMODULE)


def unreadable_entry(path: bytes) -> Entry:
    """The entry of a path whose state is unknown; reading it returns the reason. The id changes once it is readable."""
    return Entry(path, xxhash.xxh3_128_digest(path), 0)


# -- reading -----------------------------------------------------------------------------------------------------------


def skip_reason(entry: Entry) -> SkipReason | None:
    """Why the content of an entry is not read, whatever the source; None if it is read."""
    if entry.kind is not EntryKind.FILE:
        return SkipReason.SYMLINK if entry.kind is EntryKind.SYMLINK else SkipReason.SUBMODULE
    return SkipReason.TOO_LARGE if entry.size_bytes > DOCUMENT_BYTES_MAX else None


def read_files(root: str, entries: Sequence[Entry]) -> Iterator[Content]:
    """The current contents, or the reason why there is none: a file may have been deleted or replaced since."""
    with open_root(root) as files:
        for entry in entries:
            yield skip_reason(entry) or _read_file(files, entry.path)


def is_resource_exhaustion(error: OSError) -> bool:
    """Whether this process lacks descriptors or memory: the file is not at fault, and the next one would fail, too."""
    return error.errno in {errno.EMFILE, errno.ENFILE, errno.ENOMEM}


def resource_error(path: bytes, error: OSError) -> Unavailable:
    return Unavailable(f"cannot read {path!r} now: {error.strerror}; retry with back-off")


def _read_file(files: RootDir, path: bytes) -> Content:
    try:
        descriptor = files.open(path)
        try:
            return _read_descriptor(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if is_resource_exhaustion(error):
            raise resource_error(path, error) from error
        return SkipReason.UNREADABLE


def _read_descriptor(descriptor: int) -> Content:
    """All of an open file. It may be growing: it is read to its present end, up to the limit."""
    state = os.fstat(descriptor)
    if not stat.S_ISREG(state.st_mode):
        return SkipReason.UNREADABLE
    if state.st_size > DOCUMENT_BYTES_MAX:
        return SkipReason.TOO_LARGE
    # One byte more than the size, so that a file that has grown is noticed without another call.
    content = os.read(descriptor, state.st_size + 1)
    if len(content) == state.st_size:
        return content
    chunks = [content]
    length = len(content)
    while chunk := os.read(descriptor, READ_BYTES):
        chunks.append(chunk)
        length += len(chunk)
        if length > DOCUMENT_BYTES_MAX:
            return SkipReason.TOO_LARGE
    return b"".join(chunks)
