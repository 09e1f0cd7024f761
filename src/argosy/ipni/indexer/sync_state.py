"""The indexer's book: how far each publisher's chain has come, and which advertisements are done.

What is in memory is what is on disk: rows are made here, stored by whoever stores the data they belong to, and only
then taken over.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from argosy.ipni import keys
from argosy.ipni.formats.cid import Cid
from argosy.ipni.indexer.rows import APPLIED, APPLIED_FROZEN, AdState, ChainCursor, EntriesProgress, pack, unpack
from argosy.ipni.model import Peer
from argosy.ipni.ports import IndexStore

BATCH_ROWS = 2000  # rows changed at a time where many are

Change = dict[bytes, bytes | None]


class SyncState:
    def __init__(self, store: IndexStore) -> None:
        self._store = store
        self._courses: dict[str, ChainCursor] = {}

    async def load(self) -> None:
        async for key, data in self._store.scan(keys.PUBLISHERS):
            self._courses[key[len(keys.PUBLISHERS) :].decode()] = unpack(data, ChainCursor)

    # -- courses ------------------------------------------------------------------------------------------------------

    def courses(self) -> Sequence[ChainCursor]:
        return tuple(self._courses.values())

    def course(self, publisher: str) -> ChainCursor:
        return self._courses.get(publisher) or ChainCursor(Peer(publisher))

    def knows(self, publisher: str) -> bool:
        return publisher in self._courses

    def take(self, course: ChainCursor) -> None:
        self._courses[course.publisher.id] = course

    async def note(self, course: ChainCursor, *, is_durable: bool = False) -> None:
        await self._store.write(row(course), is_durable=is_durable)
        self.take(course)

    async def want(self, publisher: Peer, head: Cid | None) -> ChainCursor:
        """Writes down where to read, and up to where, before anything is read."""
        was = self.course(publisher.id)
        course = replace(
            was,
            publisher=publisher if publisher.addresses else was.publisher,
            wanted=head or was.wanted,
        )
        if course != was or not self.knows(publisher.id):
            await self.note(course)
        return course

    # -- advertisements -----------------------------------------------------------------------------------------------

    async def mark(self, ad: Cid) -> AdState | None:
        data = await self._store.read(keys.mark(ad))
        return None if data is None else unpack(data, AdState)

    async def pending(self, publisher: str, ad: Cid) -> bytes | None:
        return await self._store.read(keys.pending(publisher, ad))

    async def keep(self, publisher: str, blocks: Iterable[tuple[Cid, bytes]]) -> None:
        await self._store.write({keys.pending(publisher, cid): block for cid, block in blocks})

    async def progress(self, publisher: str, ad: Cid) -> EntriesProgress | None:
        data = await self._store.read(keys.progress(publisher))
        found = None if data is None else unpack(data, EntriesProgress)
        return found if found is not None and found.ad == ad else None

    def done(
        self, publisher: str, ad: Cid, provider: str, *, is_frozen: bool, is_refill: bool = False
    ) -> tuple[ChainCursor, Change]:
        """The course and the rows once the advertisement is applied; store the rows, then `take` the course.

        Progress within the advertisement outlives a freeze, so that unfreezing goes on at that very block. A refill is
        older than the last that was applied, which it leaves as it is.
        """
        was = self.course(publisher)
        course = was if is_refill else replace(was, last=ad)
        state = APPLIED_FROZEN if is_frozen else APPLIED
        rows: Change = {
            **row(course),
            keys.mark(ad): pack(AdState(state, provider, publisher)),
            keys.pending(publisher, ad): None,
        }
        if not is_frozen:
            rows[keys.progress(publisher)] = None
        return course, rows

    async def forget(self, publisher: str, ads: Sequence[bytes], *, then: ChainCursor) -> None:
        """Lets advertisements be applied again; newest first, so that a crash leaves the older ones done."""
        for start in range(0, len(ads), BATCH_ROWS):
            await self._store.write({keys.MARKS + ad: None for ad in ads[start : start + BATCH_ROWS]})
        await self._store.write({**row(then), keys.progress(publisher): None})
        self.take(then)

    async def clear_pending(self, publisher: str) -> None:
        """Drops blocks of an earlier reading that the chain no longer leads to."""
        stale = [key async for key, _ in self._store.scan(keys.pending_of(publisher))]
        for start in range(0, len(stale), BATCH_ROWS):
            await self._store.write(dict.fromkeys(stale[start : start + BATCH_ROWS]))

    async def forget_provider(self, provider: str, publisher: str) -> tuple[list[ChainCursor], Change]:
        """What lets a removed provider's advertisements be applied again: its publishers' courses get gaps."""
        publishers = {publisher} if self.knows(publisher) else set()
        rows: Change = {}
        async for key, data in self._store.scan(keys.MARKS):
            mark = unpack(data, AdState)
            if mark.provider == provider:
                rows[key] = None
                publishers.add(mark.publisher)
        courses = [replace(self.course(publisher), has_gaps=True) for publisher in sorted(publishers)]
        for course in courses:
            rows.update(row(course))
            rows[keys.progress(course.publisher.id)] = None
        return courses, rows

    async def drop_frozen_marks(self) -> None:
        gone: list[bytes] = []
        async for key, data in self._store.scan(keys.MARKS):
            if unpack(data, AdState).state == APPLIED_FROZEN:
                gone.append(key)
        for start in range(0, len(gone), BATCH_ROWS):
            await self._store.write(dict.fromkeys(gone[start : start + BATCH_ROWS]))


def row(course: ChainCursor) -> Mapping[bytes, bytes | None]:
    return {keys.publisher(course.publisher.id): pack(course)}
