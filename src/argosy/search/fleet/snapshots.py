"""Snapshots of very large indexes on local disk, for a quick restart.

Off by default: indexes live in memory. A snapshot is used only if it is of exactly the commits that the origin has now,
was built with this node's options, and is sound in every section.

    label length 4 · label (msgpack) · the index in the wire format

A file is written under another name and renamed when it is complete, so an interrupted write leaves no broken snapshot.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from argosy.base import logs
from argosy.base.errors import Invalid
from argosy.base.hashing import hash64
from argosy.search.index.index import Index
from argosy.search.index.wire import CHUNK_BYTES, dump, load
from argosy.search.model import Branch

LABEL_BYTES_MAX = 1 << 20

_LENGTH = struct.Struct("<I")
_SUFFIX, _UNFINISHED = ".index", ".unfinished"

log = logs.get("search.snapshots")


class _Label(msgspec.Struct, frozen=True, array_like=True):
    name: str
    recipe: str
    branches: tuple[Branch, ...]


class Snapshots:
    """The snapshots in one directory; every call blocks, so it belongs in a thread."""

    def __init__(self, folder: str, *, bytes_max: int) -> None:
        self._folder = Path(folder)
        self._bytes_max = bytes_max

    def save(self, index: Index, recipe: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        repository = index.repository
        path = self._path(repository.name)
        unfinished = path.with_suffix(_UNFINISHED)
        try:
            with unfinished.open("wb") as file:
                _write(file, _Label(repository.name, recipe, repository.branches), index)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
        self._trim()

    def restore(self, name: str, branches: tuple[Branch, ...], recipe: str) -> Index | None:
        """The snapshot, if it is of these commits; any other is deleted."""
        path = self._path(name)
        try:
            with path.open("rb") as file:
                # All three: other build options give another index of the same commits.
                if _label(file) == _Label(name, recipe, branches):
                    return load(iter(lambda: file.read(CHUNK_BYTES), b""))
                why = "outdated"
        except FileNotFoundError:
            return None
        except (Invalid, OSError) as error:
            why = str(error)
        log.info("snapshot deleted", repository=name, why=why)
        path.unlink(missing_ok=True)
        return None

    def delete(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        # A hash, because names contain slashes and can be longer than a file name may be.
        return self._folder / f"{hash64(name):016x}{_SUFFIX}"

    def _trim(self) -> None:
        """Deletes the oldest until the rest fits, also the newest if it alone is larger than the limit."""
        files = sorted(self._files(), key=lambda file: file[1].st_mtime_ns)
        total_bytes = sum(found.st_size for _, found in files)
        for path, found in files:
            if total_bytes <= self._bytes_max:
                return
            path.unlink(missing_ok=True)
            total_bytes -= found.st_size

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        for path in self._folder.glob(f"*{_SUFFIX}"):
            yield path, path.stat()


def _write(file: BinaryIO, label: _Label, index: Index) -> None:
    encoded = msgspec.msgpack.encode(label)
    file.write(_LENGTH.pack(len(encoded)) + encoded)
    for chunk in dump(index):
        file.write(chunk)
    file.flush()
    # Before the rename: after a power failure the final name must not lead to incomplete contents.
    os.fsync(file.fileno())


def _label(file: BinaryIO) -> _Label:
    prefix = file.read(_LENGTH.size)
    length = _LENGTH.unpack(prefix)[0] if len(prefix) == _LENGTH.size else 0
    if not 0 < length <= LABEL_BYTES_MAX:
        raise Invalid("snapshot without label")
    try:
        return msgspec.msgpack.decode(file.read(length), type=_Label)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Invalid(f"invalid snapshot label: {error}") from None
