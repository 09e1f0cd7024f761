"""The publishers an assigner has given to this indexer: its allow-list, and the fact of who indexes what."""

from collections.abc import Iterable, Mapping, Sequence

from argosy.base.errors import Invalid, NotFound
from argosy.ipni import keys
from argosy.ipni.model import Assignment
from argosy.ipni.ports import IndexStore


class Assignments:
    """A publisher counts as assigned once that is on disk, and no sooner."""

    def __init__(self, store: IndexStore) -> None:
        self._store = store
        self._continued: dict[str, str] = {}

    async def load(self) -> None:
        async for key, data in self._store.scan(keys.ASSIGNMENTS):
            self._continued[key[len(keys.ASSIGNMENTS) :].decode()] = data.decode()

    def __contains__(self, publisher: str) -> bool:
        return publisher in self._continued

    def all(self) -> Sequence[Assignment]:
        return tuple(Assignment(publisher, continued) for publisher, continued in sorted(self._continued.items()))

    def refuse_if_assigned(self, publisher: str) -> None:
        if publisher in self._continued:
            raise Invalid(f"publisher {publisher} is already assigned to this indexer")

    async def add(self, publisher: str, continued: str = "", rows: Mapping[bytes, bytes | None] | None = None) -> None:
        """With the rows of what was taken over, in one batch."""
        self.refuse_if_assigned(publisher)
        await self._store.write({**(rows or {}), keys.assignment(publisher): continued.encode()}, is_durable=True)
        self._continued[publisher] = continued

    async def adopt(self, publishers: Iterable[str]) -> None:
        for publisher in publishers:
            if publisher not in self._continued:
                await self.add(publisher)

    async def remove(self, publisher: str) -> None:
        if publisher not in self._continued:
            raise NotFound(f"peer {publisher} was not assigned")
        await self._store.write({keys.assignment(publisher): None}, is_durable=True)
        del self._continued[publisher]
