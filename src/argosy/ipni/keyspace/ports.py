"""What the query layer stands on: stores that know ranges, nodes that can be asked, and the layout."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from argosy.ipni.keyspace.layout import KeyspaceLayout
from argosy.ipni.model import IndexValue, StoreStats
from argosy.ipni.ports import IndexStore


class EntryPage(NamedTuple):
    """Some entries of a range, and where to go on; empty when there are no more."""

    entries: list[tuple[bytes, IndexValue]]
    rest: bytes


class RangedStore(IndexStore, Protocol):
    """An IndexStore that can tell and forget what lies between two beginnings of digests; an empty end is the last."""

    async def entries(self, start: bytes, end: bytes, *, limit: int) -> EntryPage:
        """Looks at up to `limit` entries from `start` on, a beginning of a digest or the rest of another page."""
        ...

    async def drop(self, start: bytes, end: bytes, *, limit: int) -> int:
        """Forgets up to so many entries; how many there were. Their contexts stay."""
        ...


class SlotExport(NamedTuple):
    """Part of some slots: each entry with the place of its value, how many of the slots are at their end, and where to
    go on in the next."""

    values: list[IndexValue]
    entries: list[tuple[bytes, int]]
    finished: int
    cursor: bytes


@dataclass(frozen=True)
class QueryNodeStatus:
    """What a node says of itself; `left` are the slots it still has to gather."""

    name: str
    version: int
    held: int
    left: int
    is_cleared: bool
    stats: StoreStats


class QueryNode(Protocol):
    """One node as others see it. `version` is that of the caller's layout.

    Conflict: the caller's is older, read it again. NotOwner: the node has not got all of what is asked for.
    Unavailable: it cannot be reached, or cannot follow the layout yet.
    """

    async def put(self, version: int, value: IndexValue, multihashes: Sequence[bytes], *, is_durable: bool) -> None: ...

    async def remove(self, version: int, provider: str, context: bytes | None, *, is_durable: bool) -> None:
        """Without a context, all of the provider's."""
        ...

    async def find(self, version: int, multihashes: Sequence[bytes]) -> list[tuple[IndexValue, ...]]: ...

    async def find_second(self, version: int, digests: Sequence[bytes]) -> list[bytes | None]: ...

    async def find_value(self, version: int, value_key_hash: bytes) -> IndexValue | None: ...

    async def multihashes(
        self, version: int, provider: str, context: bytes, *, start: bytes, limit: int
    ) -> list[bytes]: ...

    async def context_size(self, version: int, provider: str, context: bytes) -> int: ...

    async def export(self, version: int, slots: Sequence[int], cursor: bytes, *, limit: int) -> SlotExport: ...

    async def status(self, version: int) -> QueryNodeStatus: ...


class Membership(Protocol):
    """Where the layout comes from."""

    @property
    def layout(self) -> KeyspaceLayout: ...

    async def reload(self) -> KeyspaceLayout:
        """Reads it again; an older version than is known is not taken."""
        ...
