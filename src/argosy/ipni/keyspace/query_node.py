"""A query node: an index of some slots, under one layout.

KEY-1: it serves a slot only if it has every live entry of it. Requests share a lock at the node's own version; a new
layout takes the lock exclusively, so once a node reports a version, no request of an older one is running.

While slots move, writes go to their new owner too. So a page from another node is older: it never restores what was
removed since the move began (removals are recorded), nor overwrites newer metadata.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from argosy.base.errors import Conflict, Invalid, NotOwner, Unavailable
from argosy.ipni.backends.layout import value_key_hash
from argosy.ipni.keyspace import state as states
from argosy.ipni.keyspace.layout import SLOTS, KeyspaceLayout, SlotMove, bounds, gains, slot_of
from argosy.ipni.keyspace.ports import Membership, QueryNodeStatus, SlotExport
from argosy.ipni.model import IndexValue
from argosy.ipni.ports import RangedStore

ROWS_PER_BATCH = 1000
SLOTS_PER_TURN = 64  # looked at before other tasks run


class ReadWriteLock:
    """A lock that many requests share and a layout change takes alone.

    A waiting change precedes new requests; otherwise a steady load would keep the node from ever changing.
    """

    def __init__(self) -> None:
        self._inside = 0
        self._turn = asyncio.Lock()
        self._is_empty = asyncio.Event()
        self._is_open = asyncio.Event()
        self._is_open.set()

    @asynccontextmanager
    async def read(self) -> AsyncIterator[None]:
        # In a loop, because another change may close the lock again before this request runs.
        while not self._is_open.is_set():
            await self._is_open.wait()
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            if not self._inside:
                self._is_empty.set()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[None]:
        async with self._turn:
            self._is_open.clear()
            try:
                while self._inside:
                    self._is_empty.clear()
                    await self._is_empty.wait()
                yield
            finally:
                self._is_open.set()


class QueryNodeService:
    """One node; `open` it first. `close` closes its store too."""

    def __init__(self, name: str, store: RangedStore, membership: Membership) -> None:
        self.name = name
        self._store = store
        self._membership = membership
        self._lock = ReadWriteLock()
        self._changing = asyncio.Lock()  # storing a page reads what is there before it writes
        self._state: states.NodeState | None = None
        self._layout: KeyspaceLayout | None = None
        self._readable: frozenset[int] = frozenset()
        self._incoming: list[SlotMove] = []

    async def open(self) -> None:
        """Raises Invalid if the node must not follow the layout."""
        row = await self._store.read(states.STATE)
        self._state = states.unpack(row) if row else None
        await self._adopt(self._membership.layout)

    async def close(self) -> None:
        async with self._lock.write():
            await self._store.close()

    # -- layout -------------------------------------------------------------------------------------------------------

    @property
    def layout(self) -> KeyspaceLayout:
        assert self._layout is not None, "open the node first"
        return self._layout

    @property
    def state(self) -> states.NodeState:
        assert self._state is not None, "open the node first"
        return self._state

    async def reload(self) -> None:
        """Follows the newest layout. Raises Invalid if it must not follow it, and keeps its present one."""
        newest = await self._membership.reload()
        if newest.version > self.layout.version:
            await self._adopt(newest)

    async def _adopt(self, layout: KeyspaceLayout) -> None:
        async with self._lock.write():
            if self._layout is not None and layout.version <= self._layout.version:
                return
            try:
                following = states.adopt(self._state, layout, self.name)
            except Invalid as why:
                raise Invalid(f"node {self.name} cannot follow layout {layout.version}: {why}") from None
            await self._store.write({states.STATE: states.pack(following)}, is_durable=True)
            self._layout = layout
            self._incoming = gains(layout, self.name)
            self._set_state(following)

    def _set_state(self, following: states.NodeState) -> None:
        self._state = following
        self._readable = states.readable_slots(following, self.layout, self.name)

    @asynccontextmanager
    async def _at(self, version: int) -> AsyncIterator[KeyspaceLayout]:
        """Holds the layout at this version, which is the caller's."""
        # The caller has read the file later than this node: reload at once instead of at the next interval.
        if version > self.layout.version:
            try:
                await self.reload()
            except Invalid as why:  # for the operator to fix; the caller's request is correct
                raise Unavailable(str(why)) from None
        async with self._lock.read():
            own = self.layout
            if version < own.version:
                raise Conflict(
                    f"layout {version} is out of date, node {self.name} has {own.version}; reload the layout"
                )
            if version > own.version:
                raise Unavailable(f"node {self.name} has layout {own.version} and not yet {version}; give it that file")
            yield own

    def _check_readable(self, slots: Sequence[int]) -> None:
        for slot in slots:
            if slot not in self._readable:
                raise NotOwner(f"node {self.name} does not have slot {slot}; ask another owner")

    # -- writes -------------------------------------------------------------------------------------------------------

    async def put(self, version: int, value: IndexValue, multihashes: Sequence[bytes], *, is_durable: bool) -> None:
        async with self._at(version), self._changing:
            await self._store.put(value, multihashes, is_durable=is_durable)

    async def remove(self, version: int, provider: str, context: bytes | None, *, is_durable: bool) -> None:
        async with self._at(version) as layout, self._changing:
            # Recorded only while slots move: only then can a page with the removed entries still arrive.
            rows = {states.removal_key(version, provider, context): b""} if layout.previous else {}
            if context is None:
                await self._store.remove_provider(provider, rows)
            else:
                await self._store.remove_context(provider, context, rows)
            if is_durable:
                # Syncs the log, and with it the removal: removals themselves take no such option.
                await self._store.write({}, is_durable=True)

    # -- reads --------------------------------------------------------------------------------------------------------

    async def find(self, version: int, multihashes: Sequence[bytes]) -> list[tuple[IndexValue, ...]]:
        async with self._at(version):
            self._check_readable([slot_of(each) for each in multihashes])
            return await self._store.find(multihashes)

    async def find_second(self, version: int, digests: Sequence[bytes]) -> list[bytes | None]:
        async with self._at(version):
            return await self._store.find_second(digests)

    async def find_value(self, version: int, value_key_hash: bytes) -> IndexValue | None:
        async with self._at(version):
            return await self._store.find_value(value_key_hash)

    async def multihashes(
        self, version: int, provider: str, context: bytes, *, start: bytes, limit: int
    ) -> list[bytes]:
        async with self._at(version):
            return await self._store.multihashes(provider, context, start=start, limit=limit)

    async def context_size(self, version: int, provider: str, context: bytes) -> int:
        async with self._at(version):
            return await self._store.context_size(provider, context)

    async def status(self, version: int) -> QueryNodeStatus:
        async with self._at(version):
            left = len(states.missing_slots(self.state, self.layout, self.name))
            stats = await self._store.stats()
            return QueryNodeStatus(
                self.name, self.state.version, len(self._readable), left, self.state.is_cleared, stats
            )

    # -- moves --------------------------------------------------------------------------------------------------------

    async def export(self, version: int, slots: Sequence[int], cursor: bytes, *, limit: int) -> SlotExport:
        """A page of these slots, from `cursor` in the first one on."""
        async with self._at(version):
            self._check_readable(slots)
            # Each value once per page: the entries of a slot belong to few contexts.
            places: dict[IndexValue, int] = {}
            entries: list[tuple[bytes, int]] = []
            for finished, slot in enumerate(slots):
                start, end = bounds(slot)
                page = await self._store.entries(cursor or start, end, limit=limit - len(entries))
                entries += [(each, places.setdefault(value, len(places))) for each, value in page.entries]
                if page.rest or (len(entries) >= limit and finished + 1 < len(slots)):
                    return SlotExport(list(places), entries, finished + (not page.rest), page.rest)
                cursor = b""
            return SlotExport(list(places), entries, len(slots), b"")

    def pending_moves(self) -> list[SlotMove]:
        """The slots that it still has to fetch."""
        return [each for each in self._incoming if each.slot not in self.state.held]

    async def store_page(self, version: int, slots: Sequence[int], page: SlotExport) -> None:
        """Stores a page of another node. The slots that it finishes are served here from now on."""
        by_value: dict[int, list[bytes]] = {}
        for multihash, at in page.entries:
            by_value.setdefault(at, []).append(multihash)
        async with self._at(version), self._changing:
            for at, multihashes in by_value.items():
                value = page.values[at]
                if await self._is_removed(version, value):
                    continue
                # A value known here is at least as new: it came with a later write, or with another page.
                known = await self._store.find_value(value_key_hash(value.provider, value.context))
                await self._store.put(known or value, multihashes)
            if page.finished:
                held = self.state.held | set(slots[: page.finished])
                following = replace(self.state, held=held)
                # On disk before it is reported, because then the previous owners delete theirs.
                await self._store.write({states.STATE: states.pack(following)}, is_durable=True)
                self._set_state(following)

    async def _is_removed(self, version: int, value: IndexValue) -> bool:
        marks = [states.removal_key(version, value.provider, context) for context in (None, value.context)]
        return any([await self._store.read(mark) is not None for mark in marks])

    # -- clearing -----------------------------------------------------------------------------------------------------

    async def clear(self, version: int, *, entries_max: int) -> int:
        """Deletes entries of slots that the node lost, once all members follow this settled layout; returns how
        many."""
        async with self._at(version) as layout:
            if layout.previous is not None or self.state.is_cleared:
                return 0
            # Stored before the first deletion: after a crash the node must not serve a slot that is partly deleted
            # (KEY-1).
            own = layout.now.slots_of(self.name)
            if self.state.held != own:
                await self._write_state(replace(self.state, held=own))
            dropped = 0
            for slot in range(SLOTS):
                if slot % SLOTS_PER_TURN == 0:
                    await asyncio.sleep(0)  # empty slots take time too
                if slot not in own:
                    dropped += await self._store.drop(*bounds(slot), limit=entries_max - dropped)
                if dropped >= entries_max:
                    return dropped
            # Their move is over, so no page with the removed entries can arrive.
            await self._delete_removals()
            await self._write_state(replace(self.state, is_cleared=True))
            return dropped

    async def sweep(self, entries_max: int) -> int:
        return await self._store.sweep(entries_max)

    async def _write_state(self, following: states.NodeState) -> None:
        await self._store.write({states.STATE: states.pack(following)}, is_durable=True)
        self._set_state(following)

    async def _delete_removals(self) -> None:
        expired = [key async for key, _ in self._store.scan(states.REMOVED)]
        for at in range(0, len(expired), ROWS_PER_BATCH):
            await self._store.write(dict.fromkeys(expired[at : at + ROWS_PER_BATCH]))
