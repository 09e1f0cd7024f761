"""Ports of a publisher, its records, and the names of contexts.

A context has 64 bytes and names one version of one thing, such as `repository@commit`. Versions share a prefix, by
which the publisher finds what a new version supersedes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from argosy.base.errors import Invalid
from argosy.ipni.formats.cid import Cid
from argosy.ipni.model import CONTEXT_BYTES_MAX


@dataclass(frozen=True)
class PublishedContext:
    """What is published under one context; `ad` is the newest advertisement of it."""

    provider: str
    context: bytes
    metadata: bytes
    ad: Cid
    multihashes: int = 0


@dataclass(frozen=True)
class ChainLink:
    """An advertisement to append: its block, and the context that it publishes or removes."""

    cid: Cid
    data: bytes
    published: PublishedContext | None = None
    entries: tuple[Cid, ...] = ()  # staged blocks that it links to
    is_removed: bool = False


class PublisherChain(Protocol):
    """A chain as it is served and announced; `head` is the newest one known to this process."""

    @property
    def id(self) -> str: ...

    @property
    def head(self) -> Cid | None: ...

    async def wait_new_head(self, seen: Cid | None) -> Cid:
        """Returns the head when it differs from `seen`."""
        ...

    async def signed_head(self) -> bytes | None: ...

    async def block(self, cid: Cid) -> bytes | None: ...


class ChainStore(Protocol):
    """A publisher's blocks, head and published contexts. It has one writer, which makes one change at a time."""

    async def claim(self, publisher: str) -> None:
        """Binds the chain to the publisher. Raises Conflict if it is another one's: indexers reject heads that
        another key signed."""
        ...

    async def head(self) -> Cid | None: ...

    async def block(self, cid: Cid) -> bytes | None: ...

    async def stage(self, cid: Cid, data: bytes) -> None:
        """Stores a block of entries for an advertisement that follows; without one the next sweep deletes it."""
        ...

    async def append(self, links: Sequence[ChainLink]) -> None:
        """Appends all links or none; the last one is the new head. On disk when it returns."""
        ...

    async def find_context(self, provider: str, context: bytes) -> PublishedContext | None: ...

    async def list_contexts(self, provider: str, beginning: bytes = b"") -> list[PublishedContext]:
        """The contexts with the prefix, in order."""
        ...

    async def sweep(self, blocks_max: int) -> int:
        """Deletes up to `blocks_max` blocks of entries that no published context needs; returns how many."""
        ...

    async def close(self) -> None: ...


VERSION_CHARS_MAX = 20  # of a commit or digest: 80 bits distinguish the versions of one thing
_SIGN = b"@"
_MARK_CHARS = 12  # of the hash of a name that had to be cut


def context_of(name: str, version: str) -> bytes:
    """The context of one version. `context_prefix(name)` is common to its versions and to no other name's."""
    if not version or "@" in version or not version.isascii():
        raise Invalid(f"a version must be ASCII text without @, not {version!r}")
    return context_prefix(name) + version[:VERSION_CHARS_MAX].encode()


def context_prefix(name: str) -> bytes:
    text = name.encode("utf-8", "surrogateescape")
    bytes_max = CONTEXT_BYTES_MAX - VERSION_CHARS_MAX - len(_SIGN)
    if not text:
        raise Invalid("a context needs a name")
    if len(text) <= bytes_max and _SIGN not in text:
        return text + _SIGN
    # A cut name, or one with the separator in it, is no longer unique: a hash of the whole name makes it so.
    mark = sha256(text).hexdigest()[:_MARK_CHARS].encode()
    return text[: bytes_max - _MARK_CHARS - 1].replace(_SIGN, b"_") + b"~" + mark + _SIGN
