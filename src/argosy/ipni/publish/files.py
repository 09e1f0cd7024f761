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

MARK_CHARS = 8  # of the hash of the whole path: folders of the same name are kept apart


@dataclass(frozen=True)
class WithdrawnPath:
    """A path and what was taken back of it; without an advertisement nothing of it was published."""

    path: Path
    context: bytes = b""
    ad: Cid | None = None
    files: int = 0


@dataclass(frozen=True)
class PublishedPath:
    """A path and what it is published as; without an advertisement it had not changed, or holds no file."""

    path: Path
    context: bytes
    ad: Cid | None
    files: int
    size_bytes: int


Event: TypeAlias = Note | PublishedPath


class _Stopped(Exception):
    """Nobody waits for the hashes any more: the thread ends with the file it is at."""


def http_metadata(_: Path) -> bytes:
    """Metadata of files that the publisher's addresses give by their CIDs, as an HTTP gateway does."""
    return metadatas.http()


def label_metadata(path: Path) -> bytes:
    """Metadata of files of which is only said who has them: no protocol, and the name of what they are part of."""
    return encode_label(Label(name_of(path)))


async def publish_paths(
    paths: Sequence[Path],
    publisher: Publisher,
    *,
    metadata: Callable[[Path], bytes] = http_metadata,
    progress: Callable[[Event], None] = lambda _: None,
) -> list[PublishedPath]:
    """Hashes and publishes each path in turn; `progress` is told of every file."""
    done = []
    for path in paths:
        published = await _publish(path, publisher, metadata(path), progress)
        progress(published)
        done.append(published)
    return done


async def withdraw_paths(paths: Sequence[Path], publisher: Publisher) -> list[WithdrawnPath]:
    """Takes back what is published of the paths, whatever is there now."""
    done = []
    for path in paths:
        published = await publisher.list_contexts(context_prefix(name_of(path)))
        done += [
            WithdrawnPath(path, published.context, await publisher.remove(published.context), published.multihashes)
            for published in published
        ] or [WithdrawnPath(path)]
    return done


def name_of(path: Path) -> str:
    """The same for one place whenever it is named; it tells nobody where on this machine that is."""
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

    holder = hash_files(path, note)
    try:
        hashes = await asyncio.to_thread(holder.__enter__)
    except asyncio.CancelledError:
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
    if hashes.count == 0:
        for old in before:
            ad = await publisher.remove(old)
    elif before.keys() != {context}:
        superseded = [old for old in before if old != context]
        ad = await publisher.publish(context, metadata, hashes, supersedes=superseded)
    elif before[context] != metadata:
        ad = await publisher.update_metadata(context, metadata)
    return PublishedPath(path, context, ad, hashes.count, hashes.size_bytes)
