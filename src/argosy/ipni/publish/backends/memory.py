"""A chain store in memory, for tests and for programs whose chain may end with the process."""

from collections.abc import Sequence

from argosy.base.errors import Conflict
from argosy.ipni.formats.cid import Cid
from argosy.ipni.publish.ports import ChainLink, PublishedContext


class MemoryChain:
    """A ChainStore in dictionaries."""

    def __init__(self) -> None:
        self._publisher: str | None = None
        self._head: Cid | None = None
        self._adverts: dict[Cid, bytes] = {}
        self._entries: dict[Cid, bytes] = {}
        self._offers: dict[tuple[str, bytes], PublishedContext] = {}
        self._needed: dict[tuple[str, bytes], set[Cid]] = {}

    async def claim(self, publisher: str) -> None:
        if self._publisher not in (None, publisher):
            raise Conflict(
                f"this chain belongs to {self._publisher}, not to {publisher}; use its key, or another chain"
            )
        self._publisher = publisher

    async def head(self) -> Cid | None:
        return self._head

    async def block(self, cid: Cid) -> bytes | None:
        return self._adverts.get(cid) or self._entries.get(cid)

    async def stage(self, cid: Cid, data: bytes) -> None:
        self._entries[cid] = data

    async def append(self, links: Sequence[ChainLink]) -> None:
        for link in links:
            self._adverts[link.cid] = link.data
            self._head = link.cid
            if link.published is None:
                continue
            key = (link.published.provider, link.published.context)
            if link.is_removed:
                self._offers.pop(key, None)
                self._needed.pop(key, None)
            else:
                self._offers[key] = link.published
                self._needed.setdefault(key, set()).update(link.entries)

    async def find_context(self, provider: str, context: bytes) -> PublishedContext | None:
        return self._offers.get((provider, context))

    async def list_contexts(self, provider: str, beginning: bytes = b"") -> list[PublishedContext]:
        found = [published for (who, context), published in self._offers.items() if who == provider]
        return sorted((o for o in found if o.context.startswith(beginning)), key=lambda published: published.context)

    async def sweep(self, blocks_max: int) -> int:
        needed = set().union(*self._needed.values())
        swept = [cid for cid in self._entries if cid not in needed][:blocks_max]
        for cid in swept:
            del self._entries[cid]
        return len(swept)

    async def close(self) -> None:
        pass
