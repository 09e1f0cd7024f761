"""Publishes files and directories: each path becomes one context, versioned by the digest of its files.

An unchanged path causes no advertisement; a changed one supersedes what was published before. So the same command
may run repeatedly over the same paths.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

from argosy.ipni.formats import metadata as metadatas
from argosy.ipni.formats.cid import Cid
from argosy.ipni.formats.metadata import Label, encode_label
from argosy.ipni.publish.backends.file_hashes import Hashes, Note, hash_files
from argosy.ipni.publish.ports import context_of, context_prefix
from argosy.ipni.publish.publisher import Publisher

MARK_CHARS = 8  # of the hash of the whole path, which distinguishes directories of the same name


@dataclass(frozen=True)
class WithdrawnPath:
    """A path and the context that was removed; without an advertisement nothing of it was published."""

    path: Path
    context: bytes = b""
    ad: Cid | None = None
    files: int = 0


@dataclass(frozen=True)
class PublishedPath:
    """A path and its context; without an advertisement it had not changed, or contains no file."""

    path: Path
    context: bytes
    ad: Cid | None
    files: int
    size_bytes: int


Event: TypeAlias = Note | PublishedPath


class _Stopped(Exception):
    """The caller was cancelled: stops the hashing thread after its current file."""


def http_metadata(_: Path) -> bytes:
    """Metadata of files that the publisher's addresses serve by CID, as an HTTP gateway does."""
    return metadatas.http()


def label_metadata(path: Path) -> bytes:
    """Metadata of files that are not served: no protocol, only the name of the path."""
    return encode_label(Label(name_of(path)))


async def publish_paths(
    paths: Sequence[Path],
    publisher: Publisher,
    *,
    metadata: Callable[[Path], bytes] = http_metadata,
    progress: Callable[[Event], None] = lambda _: None,
) -> list[PublishedPath]:
    """Hashes and publishes each path in turn; `progress` is called for every file and path."""
    done = []
    for path in paths:
        published = await _publish(path, publisher, metadata(path), progress)
        progress(published)
        done.append(published)
    return done


async def withdraw_paths(paths: Sequence[Path], publisher: Publisher) -> list[WithdrawnPath]:
    """Removes what is published of the paths, whether they still exist or not."""
    done = []
    for path in paths:
        published = await publisher.list_contexts(context_prefix(name_of(path)))
        done += [
            WithdrawnPath(path, published.context, await publisher.remove(published.context), published.multihashes)
            for published in published
        ] or [WithdrawnPath(path)]
    return done


def name_of(path: Path) -> str:
    """A stable name of the path. It is published, so it contains the last component only, and a hash of the whole
    path."""
    whole = path.absolute()
    mark = sha256(bytes(whole)).hexdigest()[:MARK_CHARS]
    return f"{whole.name or 'root'}-{mark}"


async def _publish(
    path: Path, publisher: Publisher, metadata: bytes, progress: Callable[[Event], None]
) -> PublishedPath:
    loop = asyncio.get_running_loop()
    is_stopped = False

    def note(event: Note) -> None:
        if is_stopped:
            raise _Stopped
        loop.call_soon_threadsafe(progress, event)

    # Entered in a thread, because hashing reads all files; left here, because only the temporary file is closed.
    holder = hash_files(path, note)
    try:
        hashes = await asyncio.to_thread(holder.__enter__)
    except asyncio.CancelledError:
        # A thread cannot be cancelled: `note` raises at the next file.
        is_stopped = True
        raise
    try:
        return await _publish_hashes(path, hashes, publisher, metadata)
    finally:
        holder.__exit__(None, None, None)


async def _publish_hashes(path: Path, hashes: Hashes, publisher: Publisher, metadata: bytes) -> PublishedPath:
    name = name_of(path)
    context = context_of(name, hashes.digest)
    before = {
        published.context: published.metadata for published in await publisher.list_contexts(context_prefix(name))
    }
    ad: Cid | None = None
    # A path that has become empty: what was published of it must not stay findable.
    if hashes.count == 0:
        for old in before:
            ad = await publisher.remove(old)
    elif before.keys() != {context}:
        superseded = [old for old in before if old != context]
        ad = await publisher.publish(context, metadata, hashes, supersedes=superseded)
    elif before[context] != metadata:
        ad = await publisher.update_metadata(context, metadata)
    return PublishedPath(path, context, ad, hashes.count, hashes.size_bytes)
