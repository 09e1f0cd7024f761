"""Whom the assigner talks to: the indexers of its pool, and others to whom announcements are forwarded.

Errors by remedy: what an indexer refuses is Invalid, Forbidden, Conflict…; Unavailable never reached it or was turned
away; `admin.client.NoAnswer` may have taken effect.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from argosy.ipni.assigner.configuration import PoolEntry
from argosy.ipni.formats.announce import Announcement
from argosy.ipni.model import Assignment, IndexerStatus


class Destination(Protocol):
    """Somebody who takes announcements."""

    async def announce(self, announce: Announcement) -> None: ...

    async def close(self) -> None: ...


class PoolIndexer(Destination, Protocol):
    """One indexer of the pool."""

    async def status(self) -> IndexerStatus: ...

    async def assigned(self) -> Sequence[Assignment]: ...

    async def preferred(self) -> Sequence[str]: ...

    async def assign(self, publisher: str) -> None: ...

    async def handoff(self, publisher: str, *, frozen_id: str, frozen_url: str) -> None:
        """Returns without error also when the frozen indexer no longer has the publisher; then nothing is assigned."""
        ...


OpenIndexer = Callable[[PoolEntry], PoolIndexer]
OpenDestination = Callable[[str], Destination]
