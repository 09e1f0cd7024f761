"""What a publisher stands on: a chain that grows in whole steps and is still there after a restart."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from argosy.base.errors import Invalid
from argosy.ipni.formats.cid import Cid
from argosy.ipni.model import CONTEXT_BYTES_MAX


@dataclass(frozen=True)
class PublishedContext:
    """What is published under one context now; `advert` is the newest advertisement about it."""

    provider: str
    context: bytes
    metadata: bytes
    ad: Cid
    multihashes: int = 0


@dataclass(frozen=True)
class ChainLink:
    """An advertisement with its block, and what it changes: an offer that holds from now on, or one that is over."""

    cid: Cid
    data: bytes
    published: PublishedContext | None = None
    entries: tuple[Cid, ...] = ()  # staged blocks that it leads to
    is_removed: bool = False


class PublisherChain(Protocol):
    """A chain as it is served and announced; `head` is the newest that was seen here."""

    @property
    def id(self) -> str: ...

    @property
    def head(self) -> Cid | None: ...

    async def wait_new_head(self, seen: Cid | None) -> Cid:
        """The head, as soon as it is another one than was seen."""
        ...

    async def signed_head(self) -> bytes | None: ...

    async def block(self, cid: Cid) -> bytes | None: ...


class ChainStore(Protocol):
    """A publisher's blocks, head and offers. One publisher at a time uses it, and makes one change at a time."""

    async def claim(self, publisher: str) -> None:
        """Conflict if the chain is another publisher's: heads that it did not sign would lead nowhere."""
        ...

    async def head(self) -> Cid | None: ...

    async def block(self, cid: Cid) -> bytes | None: ...

    async def stage(self, cid: Cid, data: bytes) -> None:
        """Keeps a block of entries that an advertisement will lead to; without one it goes at the next sweep."""
        ...

    async def append(self, links: Sequence[ChainLink]) -> None:
        """All of it, the last one being the new head, or none; on disk before it returns."""
        ...

    async def find_context(self, provider: str, context: bytes) -> PublishedContext | None: ...

    async def list_contexts(self, provider: str, beginning: bytes = b"") -> list[PublishedContext]:
        """Those whose context begins so, in order of their contexts."""
        ...

    async def sweep(self, blocks_max: int) -> int:
        """Frees up to so many blocks of entries that no offer needs; how many there were."""
        ...

    async def close(self) -> None: ...


VERSION_CHARS_MAX = 20  # of a commit or digest: 80 bits, enough to tell versions of one thing apart
_SIGN = b"@"
_MARK_CHARS = 12


def context_of(name: str, version: str) -> bytes:
    """The context of one version; `beginning_of(name)` is common to all versions, and to no other name's."""
    if not version or "@" in version or not version.isascii():
        raise Invalid(f"a version is an ASCII text without @, not {version!r}")
    return context_prefix(name) + version[:VERSION_CHARS_MAX].encode()


def context_prefix(name: str) -> bytes:
    text = name.encode("utf-8", "surrogateescape")
    room = CONTEXT_BYTES_MAX - VERSION_CHARS_MAX - len(_SIGN)
    if not text:
        raise Invalid("a context needs a name")
    if len(text) <= room and _SIGN not in text:
        return text + _SIGN
    mark = sha256(text).hexdigest()[:_MARK_CHARS].encode()
    return text[: room - _MARK_CHARS - 1].replace(_SIGN, b"_") + b"~" + mark + _SIGN
