"""Ports of the keyspace: query nodes, and the source of the layout."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from argosy.ipni.keyspace.layout import KeyspaceLayout
from argosy.ipni.model import IndexValue, StoreStats


class SlotExport(NamedTuple):
    """A page of some slots: values, entries with the index of their value, the number of finished slots, and the cursor
    in the next one."""

    values: list[IndexValue]
    entries: list[tuple[bytes, int]]
    finished: int
    cursor: bytes


@dataclass(frozen=True)
class QueryNodeStatus:
    """Status of a node; `left` is the number of slots that it still has to fetch."""

    name: str
    version: int
    held: int
    left: int
    is_cleared: bool
    stats: StoreStats


class QueryNode(Protocol):
    """A query node as its callers see it. `version` is that of the caller's layout.

    Conflict: the caller's layout is older; reload it. NotOwner: the node does not have all of the requested slots.
    Unavailable: the node is unreachable, or cannot follow the layout yet.
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
    """The source of the layout."""

    @property
    def layout(self) -> KeyspaceLayout: ...

    async def reload(self) -> KeyspaceLayout:
        """Reads the layout again; a version older than the known one is ignored."""
        ...
