"""Files as they lie on a disk: what names their content without reading it, and reading it while others write.

A content's id is a hash of the file's device, inode, size and times, as git's own index trusts them. The change time is
among them because it cannot be set back, as the modification time can (and unpackers do). Times tick in milliseconds,
on some file systems in whole seconds, so a file may change twice within one tick: the id of one that changed just
before the listing is good for this listing only, and the next one reads the file again.
"""

import errno
import os
import stat
import struct
from collections.abc import Iterator, Sequence
from os.path import basename

import xxhash

from argosy.base.errors import Unavailable
from argosy.search.backends.openat import Beneath
from argosy.search.documents import DOCUMENT_BYTES_MAX, Content, Entry, EntryKind, SkipReason

SETTLED_S = 2.0  # the coarsest tick there is (FAT)
READ_BYTES = 1 << 20  # at a time, of a file that is not as long as it said
_STATE = struct.Struct("<QQQqqd")


def folder_name(path: str) -> str:
    """What a folder is called as a repository: the last part of its path, in letters that can be written down."""
    return basename(path.rstrip("/")).encode(errors="surrogateescape").decode(errors="replace") or "root"


def content_id(state: os.stat_result, listed_s: float) -> bytes:
    """Names the content of a file that was in this state at that time."""
    changed_s = max(state.st_mtime, state.st_ctime)
    packed = _STATE.pack(
        state.st_dev,
        state.st_ino,
        state.st_size,
        state.st_mtime_ns,
        state.st_ctime_ns,
        0.0 if changed_s < listed_s - SETTLED_S else listed_s,
    )
    return xxhash.xxh3_128_digest(packed)


def entry_of(path: bytes, state: os.stat_result, listed_s: float) -> Entry | None:
    """What is listed of a path: nothing for pipes, sockets and devices, which have no content that lasts."""
    if stat.S_ISREG(state.st_mode):
        return Entry(path, content_id(state, listed_s), state.st_size)
    if stat.S_ISLNK(state.st_mode):
        return Entry(path, content_id(state, listed_s), 0, kind=EntryKind.SYMLINK)
    return None


def foreign(path: bytes, state: os.stat_result, listed_s: float) -> Entry:
    """The place of another repository."""
    return Entry(path, content_id(state, listed_s), 0, kind=EntryKind.SUBMODULE)


def unreadable(path: bytes) -> Entry:
    """What is there cannot be looked at, so reading it will say. Its id is another than it has once it can be."""
    return Entry(path, xxhash.xxh3_128_digest(path), 0)


def unread(entry: Entry) -> SkipReason | None:
    """Why an entry is not even asked for, from any source; None if it is."""
    if entry.kind is not EntryKind.FILE:
        return SkipReason.SYMLINK if entry.kind is EntryKind.SYMLINK else SkipReason.SUBMODULE
    return SkipReason.TOO_LARGE if entry.size_bytes > DOCUMENT_BYTES_MAX else None


def read_files(root: str, entries: Sequence[Entry]) -> Iterator[Content]:
    """The contents as they are now, or why there is none: a file may have gone, or turned into something else."""
    with opened(root) as place:
        for entry in entries:
            yield unread(entry) or _read(place, entry.path)


def opened(root: str) -> Beneath:
    """The folder itself; here it is an error if it cannot be read."""
    try:
        return Beneath(root)
    except OSError as error:
        raise Unavailable(f"the folder {root!r} cannot be read ({error.strerror}): check it, then retry") from error


def is_ours(error: OSError) -> bool:
    """Whether this process has run out of something: not the file's fault, and the next would fare no better."""
    return error.errno in {errno.EMFILE, errno.ENFILE, errno.ENOMEM}


def out_of_room(path: bytes, error: OSError) -> Unavailable:
    return Unavailable(f"{path!r} cannot be read now ({error.strerror}): retry with back-off")


def _read(place: Beneath, path: bytes) -> Content:
    try:
        descriptor = place.open(path)
        try:
            return _content(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if is_ours(error):
            raise out_of_room(path, error) from error
        return SkipReason.UNREADABLE


def _content(descriptor: int) -> Content:
    """All of an open file, if it is one. It may be growing: what counts is what there is to read, up to the limit."""
    state = os.fstat(descriptor)
    if not stat.S_ISREG(state.st_mode):
        return SkipReason.UNREADABLE
    if state.st_size > DOCUMENT_BYTES_MAX:
        return SkipReason.TOO_LARGE
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
