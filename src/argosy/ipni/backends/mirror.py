"""A mirror: a directory with one CAR file per advertisement with entries: the advertisement first, then its blocks.

A file appears whole or not at all: it is written under a temporary name and renamed once everything in it is stored.
Blocks in the file are verified like any other; only what is missing is fetched from the publisher.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

from argosy.base import logs
from argosy.base.errors import Invalid
from argosy.ipni.formats import car
from argosy.ipni.formats.cid import Cid
from argosy.ipni.formats.head import SignedHead
from argosy.ipni.ports import PublisherSource
from argosy.ipni.settings import IndexerSettings

AHEAD_MAX = 16  # blocks buffered on the way to the requested one: the reader of a HAMT asks for several at once
SPREAD_CHARS = 2  # files are spread over directories by the end of their names, a thousand at most

log = logs.get("ipni.mirror")


def mirror_of(settings: IndexerSettings) -> "DirectoryMirror | None":
    if not settings.mirror_read and not settings.mirror_write:
        return None
    return DirectoryMirror(read=settings.mirror_read, write=settings.mirror_write)


class DirectoryMirror:
    """A mirror in local directories: one to read from, one to write to, or both."""

    def __init__(self, *, read: str | Path | None = None, write: str | Path | None = None) -> None:
        self._read = Path(read) if read else None
        self._write = Path(write) if write else None

    @asynccontextmanager
    async def through(
        self, ad: Cid, block: bytes, entries: Cid, source: PublisherSource
    ) -> AsyncIterator["MirroredSource"]:
        path = _place(self._read, ad) if self._read else None
        # Files are opened and read in threads: a mirror may be on a network file system, and finds must not wait for
        # it.
        reading = await asyncio.to_thread(_open_copy, path) if path else None
        written = _place(self._write, ad) if self._write else None
        is_copied = written is not None and await asyncio.to_thread(written.exists)
        writing = _CarWriter(written, ad, block, entries) if written is not None and not is_copied else None
        mirrored = MirroredSource(source, reading, writing)
        try:
            yield mirrored
        finally:
            await asyncio.to_thread(mirrored.close)


def _place(folder: Path, ad: Cid) -> Path:
    name = str(ad)
    return folder / name[-SPREAD_CHARS:] / f"{name}.car"


def _open_copy(path: Path) -> "_CarReader | None":
    try:
        # Opened without a test for existence, because the file may disappear in between.
        return _CarReader(path.open("rb"))
    except FileNotFoundError:
        return None
    except Invalid as error:
        log.warning("mirror file is damaged", path=str(path), error=str(error))
        return None


class MirroredSource:
    """A publisher's chain, read through the mirror's copy of one advertisement."""

    def __init__(self, source: PublisherSource, reading: "_CarReader | None", writing: "_CarWriter | None") -> None:
        self._source = source
        self._reading = reading
        self._writing = writing
        self._turn = asyncio.Lock()  # one thread at a time in the file

    async def head(self) -> SignedHead | None:
        return await self._source.head()

    async def block(self, cid: Cid, *, is_entries: bool) -> bytes:
        data: bytes | None = None
        if self._reading is not None:
            async with self._turn:
                data = await asyncio.to_thread(self._reading.block, cid)
        if data is None:
            data = await self._source.block(cid, is_entries=is_entries)
        if self._writing is not None:
            async with self._turn:
                await asyncio.to_thread(self._writing.add, cid, data)
        return data

    def complete(self) -> None:
        if self._writing is not None:
            self._writing.is_complete = True

    def close(self) -> None:
        if self._reading is not None:
            self._reading.close()
        if self._writing is not None:
            self._writing.close()


class _CarReader:
    """Reads blocks in file order; a few that are requested out of order are buffered."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        try:
            self._blocks: Iterator[tuple[Cid, bytes]] = iter(car.Reader(file.read))
        except Invalid:
            file.close()
            raise
        self._ahead: dict[Cid, bytes] = {}

    def block(self, cid: Cid) -> bytes | None:
        try:
            while cid not in self._ahead and len(self._ahead) < AHEAD_MAX:
                found = next(self._blocks, None)
                if found is None:
                    return None
                self._ahead[found[0]] = found[1]
        except Invalid as error:
            log.warning("mirror file is damaged", error=str(error))
            # Damage ends this copy: positions after it cannot be trusted, so the rest comes from the publisher.
            self._blocks = iter(())
        return self._ahead.pop(cid, None)

    def close(self) -> None:
        self._file.close()


class _CarWriter:
    """Writes a copy. If the entries are resumed in the middle, the copy would be incomplete, so none is written."""

    def __init__(self, path: Path, ad: Cid, block: bytes, entries: Cid) -> None:
        self.is_complete = False
        self._path = path
        # In the same directory, because a rename is atomic only within one file system.
        self._partial = path.with_suffix(".part")
        self._ad = ad
        self._block = block
        self._entries = entries
        self._file: BinaryIO | None = None

    def add(self, cid: Cid, data: bytes) -> None:
        if self._file is None:
            if cid != self._entries:
                return
            self._partial.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._partial.open("wb")
            self._file.write(car.header([self._ad]) + car.section(self._ad, self._block))
        self._file.write(car.section(cid, data))

    def close(self) -> None:
        if self._file is None:
            return
        with self._file as file:
            # Synced before the rename, or a crash of the machine could leave an empty file under the final name.
            file.flush()
            os.fsync(file.fileno())
        if self.is_complete:
            os.replace(self._partial, self._path)
        else:
            with contextlib.suppress(FileNotFoundError):
                self._partial.unlink()
