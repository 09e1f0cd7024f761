"""What a publisher stands on: a chain that grows in whole steps and is still there after a restart."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from argosy.ipni.formats.cid import Cid


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
