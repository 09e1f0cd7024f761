"""Assigned publishers: the indexer's allow list, and the handoff of a publisher from a frozen indexer.

The allow lists are the only record of which indexer has which publisher; the assigner stores none and reads them.
In a handoff all providers of the publisher are copied with their extended providers, and the chain is read from
where the frozen indexer stopped.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from argosy.base.errors import Invalid, NotFound
from argosy.ipni import keys
from argosy.ipni.formats.cid import Cid
from argosy.ipni.indexer.ingest_state import APPLIED, AdState, ChainCursor, cursor_row, pack, provider_row
from argosy.ipni.model import Assignment, Peer, Provider
from argosy.ipni.ports import IndexStore


class Assignments:
    """The allow list. A publisher is added in memory only after its row is on disk: an accepted assignment survives a
    crash, because the assigner does not repeat it."""

    def __init__(self, store: IndexStore) -> None:
        self._store = store
        self._by_publisher: dict[str, str] = {}

    async def load(self) -> None:
        async for key, data in self._store.scan(keys.ASSIGNMENTS):
            self._by_publisher[key[len(keys.ASSIGNMENTS) :].decode()] = data.decode()

    def __contains__(self, publisher: str) -> bool:
        return publisher in self._by_publisher

    def all(self) -> Sequence[Assignment]:
        return tuple(Assignment(publisher, continued) for publisher, continued in sorted(self._by_publisher.items()))

    def check_unassigned(self, publisher: str) -> None:
        if publisher in self._by_publisher:
            raise Invalid(f"publisher {publisher} is already assigned to this indexer")

    async def add(self, publisher: str, continued: str = "", rows: Mapping[bytes, bytes | None] | None = None) -> None:
        """Stores the assignment and the rows of a handoff in one batch."""
        self.check_unassigned(publisher)
        await self._store.write({**(rows or {}), keys.assignment(publisher): continued.encode()}, is_durable=True)
        self._by_publisher[publisher] = continued

    async def adopt(self, publishers: Iterable[str]) -> None:
        for publisher in publishers:
            if publisher not in self._by_publisher:
                await self.add(publisher)

    async def remove(self, publisher: str) -> None:
        if publisher not in self._by_publisher:
            raise NotFound(f"peer {publisher} was not assigned")
        await self._store.write({keys.assignment(publisher): None}, is_durable=True)
        del self._by_publisher[publisher]


@dataclass(frozen=True)
class HandoffPlan:
    """What a handoff changes: stored in one batch with the assignment."""

    providers: tuple[Provider, ...]
    cursor: ChainCursor
    rows: dict[bytes, bytes | None]


def plan_handoff(
    publisher: str,
    frozen: Sequence[Provider],
    *,
    known: Callable[[str], Provider | None],
    cursor: ChainCursor,
) -> HandoffPlan | None:
    """Returns None if the frozen indexer has no provider of the publisher: there is nothing to hand off."""
    # All providers of the publisher move; storetheindex transfers the first one and loses the others.
    theirs = [each for each in frozen if each.publisher is not None and each.publisher.id == publisher]
    if not theirs:
        return None
    # They name the same publisher, so the first known addresses serve for all.
    addresses = next((each.publisher.addresses for each in theirs if each.publisher and each.publisher.addresses), ())
    stops = _stops(theirs)
    providers = tuple(_adopt(each, known(each.id), Peer(publisher, addresses)) for each in theirs)
    # There is one floor per chain. If providers stopped at different advertisements, none is the floor, and the stored
    # states below end the scan at the newest of them.
    moved = replace(
        cursor,
        publisher=Peer(publisher, addresses or cursor.publisher.addresses),
        floor=stops[0] if len(stops) == 1 else cursor.floor,
        last=cursor.last or (stops[0] if len(stops) == 1 else None),
    )
    rows: dict[bytes, bytes | None] = {**cursor_row(moved)}
    for provider in providers:
        rows.update(provider_row(provider))
    for each in theirs:
        if each.frozen_at is not None:
            rows[keys.mark(each.frozen_at)] = pack(AdState(APPLIED, each.id, publisher))
    return HandoffPlan(providers, moved, rows)


def _stops(providers: Iterable[Provider]) -> list[Cid]:
    return list(dict.fromkeys(each.frozen_at for each in providers if each.frozen_at is not None))


def _adopt(theirs: Provider, known: Provider | None, publisher: Peer) -> Provider:
    """The provider as the frozen indexer knows it, without its progress; one that is known here stays unchanged."""
    # Its record here may be newer than that of an indexer that stopped storing.
    if known is not None:
        return known
    return Provider(theirs.id, theirs.addresses, publisher, extended=theirs.extended)
