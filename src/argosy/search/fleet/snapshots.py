"""Copies of very large indexes on this machine's disk, so that they are back quickly after a restart.

Outside the normal way of things and off by default: an index lives in memory, and what is here is only believed if it
is of exactly the commits that the origin has now, made as this node would make it, and sound in every section.

    label length 4 · label (msgpack) · the index as `wire` spells it

A file is written beside its place and moved there when it is whole.
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
    """The copies in one folder; every call blocks, so it belongs in a thread."""

    def __init__(self, folder: str, *, bytes_max: int) -> None:
        self._folder = Path(folder)
        self._bytes_max = bytes_max

    def save(self, index: Index, recipe: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        repository = index.repository
        place = self._place(repository.name)
        unfinished = place.with_suffix(_UNFINISHED)
        try:
            with unfinished.open("wb") as file:
                _write(file, _Label(repository.name, recipe, repository.branches), index)
            unfinished.replace(place)
        finally:
            unfinished.unlink(missing_ok=True)
        self._make_room()

    def restore(self, name: str, branches: tuple[Branch, ...], recipe: str) -> Index | None:
        """The copy, if there is one of these commits; any other is deleted."""
        place = self._place(name)
        try:
            with place.open("rb") as file:
                if _label(file) == _Label(name, recipe, branches):
                    return load(iter(lambda: file.read(CHUNK_BYTES), b""))
                why = "it is of another time"
        except FileNotFoundError:
            return None
        except (Invalid, OSError) as error:
            why = str(error)
        log.info("snapshot deleted", repository=name, why=why)
        place.unlink(missing_ok=True)
        return None

    def delete(self, name: str) -> None:
        self._place(name).unlink(missing_ok=True)

    def _place(self, name: str) -> Path:
        return self._folder / f"{hash64(name):016x}{_SUFFIX}"

    def _make_room(self) -> None:
        """The oldest go first; one that is larger than all that is allowed does not stay either."""
        copies = sorted(self._copies(), key=lambda copy: copy[1].st_mtime_ns)
        total_bytes = sum(found.st_size for _, found in copies)
        for place, found in copies:
            if total_bytes <= self._bytes_max:
                return
            place.unlink(missing_ok=True)
            total_bytes -= found.st_size

    def _copies(self) -> Iterator[tuple[Path, os.stat_result]]:
        for place in self._folder.glob(f"*{_SUFFIX}"):
            yield place, place.stat()


def _write(file: BinaryIO, label: _Label, index: Index) -> None:
    encoded = msgspec.msgpack.encode(label)
    file.write(_LENGTH.pack(len(encoded)) + encoded)
    for chunk in dump(index):
        file.write(chunk)
    file.flush()
    os.fsync(file.fileno())


def _label(file: BinaryIO) -> _Label:
    prefix = file.read(_LENGTH.size)
    length = _LENGTH.unpack(prefix)[0] if len(prefix) == _LENGTH.size else 0
    if not 0 < length <= LABEL_BYTES_MAX:
        raise Invalid("the snapshot has no label")
    try:
        return msgspec.msgpack.decode(file.read(length), type=_Label)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Invalid(f"the snapshot's label is not understood ({error})") from None
