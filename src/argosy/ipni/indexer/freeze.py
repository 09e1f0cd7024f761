"""Freezing: the policy that decides when, the gate that makes the freeze exact, and the rows written by it.

The fuller the disk, the sooner the next reading. As the design document asks, readings within 10 points of the
limit are warnings, and within 2 points critical, so that an operator can add space before the indexer freezes.

At a freeze each provider's `frozen_at` is set to the last advertisement of its publisher's chain that was applied in
full. A successor resumes there, and so does this indexer when it unfreezes: nothing is lost. storetheindex records the
advertisement before its entries are stored, so a freeze in the middle of one loses the rest.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias

from argosy.base.errors import Conflict
from argosy.ipni import keys
from argosy.ipni.formats.cid import Cid
from argosy.ipni.indexer.ingest_state import ChainCursor, Change, ProviderTable, SyncState, cursor_row, provider_row
from argosy.ipni.model import Provider
from argosy.ipni.ports import IndexStore

# As storetheindex reports it in its status, so that clients show the same.
UNREADABLE = -1.0
ALERT_POINTS = 10.0
CRITICAL_POINTS = 2.0
CHECK_S_MAX = 3600.0  # pause at 100 free points; proportionally less when fewer are left
# The minimum is storetheindex's. It only spaces out the reports: the gate checks the usage before every write.
CHECK_S_MIN = 30.0

Level: TypeAlias = Literal["ok", "alert", "critical", "unreadable"]


class Usage(Protocol):
    """Reads the usage of the indexer's fullest disk."""

    def percent(self) -> float: ...


@dataclass(frozen=True)
class UsageRead:
    """Usage of the fullest disk in percent, or UNREADABLE."""

    percent: float


@dataclass(frozen=True)
class Freeze:
    """Effect: close the gate and write the freeze."""

    percent: float


@dataclass(frozen=True)
class ReportUsage:
    """Effect: log the reading."""

    level: Level
    percent: float


class Freezer:
    """State machine that decides when to freeze. A negative limit disables freezing; readings are still reported. The
    caller that performs the freeze sets `is_frozen`."""

    def __init__(self, limit_percent: float, *, is_frozen: bool = False) -> None:
        self.limit_percent = limit_percent
        self.is_frozen = is_frozen
        self._next_at = 0.0

    @property
    def is_on(self) -> bool:
        return self.limit_percent >= 0

    def is_over(self, percent: float) -> bool:
        # An unreadable disk does not freeze the indexer: freezing cannot be undone while it runs.
        return self.is_on and percent != UNREADABLE and percent >= self.limit_percent

    def handle(self, event: UsageRead | None, now: float) -> list[Freeze | ReportUsage]:
        # Only a reading changes anything; the caller asks for one when the deadline has passed.
        if event is None:
            return []
        percent = event.percent
        self._next_at = now + self.pause_s(percent)
        effects: list[Freeze | ReportUsage] = [ReportUsage(self.level(percent), percent)]
        if self.is_over(percent) and not self.is_frozen:
            effects.append(Freeze(percent))
        return effects

    def deadline(self) -> float | None:
        return self._next_at

    def level(self, percent: float) -> Level:
        if percent == UNREADABLE:
            return "unreadable"
        if not self.is_on or percent < self.limit_percent - ALERT_POINTS:
            return "ok"
        return "alert" if percent < self.limit_percent - CRITICAL_POINTS else "critical"

    def pause_s(self, percent: float) -> float:
        """Pause until the next reading."""
        left = (self.limit_percent if self.is_on else 100.0) - max(percent, 0.0)
        # Proportional, as in the reference: the fuller the disk, the less time an operator has.
        return max(CHECK_S_MIN, CHECK_S_MAX * left / 100.0)


class FreezeGate:
    """Admits every write; freezing closes the gate and waits until no write is inside.

    So the state that a freeze writes is exact: no advertisement is between stored and recorded. The usage is
    checked before each write, because any batch may fill the disk.
    """

    def __init__(self, is_full: Callable[[], bool], on_freeze: Callable[[], Awaitable[None]]) -> None:
        self.is_frozen = False
        self._is_full = is_full
        self._on_freeze = on_freeze
        self._inside = 0
        self._is_closing = False
        self._empty = asyncio.Event()
        self._empty.set()
        # Held during the whole freeze, so that a caller who arrives meanwhile waits for its outcome.
        self._closing = asyncio.Lock()

    async def is_open(self) -> bool:
        if not self.is_frozen and not self._is_closing and self._is_full():
            await self.freeze()
        if self._is_closing:
            async with self._closing:  # until the freeze is on disk
                pass
        return not self.is_frozen

    @asynccontextmanager
    async def admit(self) -> AsyncIterator[bool]:
        if not await self.is_open():
            yield False
            return
        self._inside += 1
        self._empty.clear()
        try:
            yield True
        finally:
            self._inside -= 1
            if not self._inside:
                self._empty.set()

    async def freeze(self) -> None:
        """Freezes once; if the state cannot be written, the gate opens again."""
        async with self._closing:
            # A second caller waited for the first one's freeze: there is nothing left to do.
            if self.is_frozen:
                return
            # New writers wait from here on; without this a steady stream of them could keep the gate from ever becoming
            # empty.
            self._is_closing = True
            try:
                await self._empty.wait()  # writes inside finish; new ones wait at `is_open`
                await self._on_freeze()
                # Only after the rows are on disk: if writing them fails, the indexer keeps running and tries again at
                # the next write.
                self.is_frozen = True
            finally:
                self._is_closing = False


async def write_freeze(store: IndexStore, sync_state: SyncState, provider_table: ProviderTable, at: float) -> None:
    """Writes the freeze in one batch, so that a crash leaves the indexer frozen or not, nothing between."""
    cursors = [replace(cursor, frozen_at=_stop(cursor)) for cursor in sync_state.cursors()]
    providers = [_with_stop(provider, sync_state, at) for provider in provider_table.all()]
    rows: Change = {keys.FROZEN: repr(at).encode()}
    for cursor in cursors:
        rows.update(cursor_row(cursor))
    for provider in providers:
        rows.update(provider_row(provider))
    await store.write(rows, is_durable=True)
    for cursor in cursors:
        sync_state.apply(cursor)
    for provider in providers:
        provider_table.apply(provider)


def _with_stop(provider: Provider, sync_state: SyncState, at: float) -> Provider:
    publisher = provider.publisher
    stop = provider.last_ad if publisher is None else _stop(sync_state.cursor(publisher.id))
    # A provider without a publisher has no chain; its own last advertisement is all that is known.
    return replace(provider, frozen_at=stop, frozen_at_time=provider.last_ad_at or at)


def _stop(cursor: ChainCursor) -> Cid | None:
    """Where a successor resumes. With gaps it must read from the start, because they may be anywhere before `last`."""
    return cursor.floor if cursor.has_gaps else cursor.last


async def write_unfreeze(store: IndexStore, sync_state: SyncState, provider_table: ProviderTable) -> None:
    """Deletes the states of ads applied while frozen, then writes the rest in one batch; a crash repeats it."""
    # The order matters: if the cursors moved back first, a crash would leave states that end the scan too early.
    await sync_state.drop_frozen_states()
    cursors = [
        # What was read while frozen becomes wanted again, so that the syncs start without waiting for an announcement.
        replace(cursor, last=cursor.frozen_at, frozen_at=None, wanted=cursor.wanted or cursor.last)
        for cursor in sync_state.cursors()
    ]
    providers = [
        replace(provider, last_ad=provider.frozen_at, frozen_at=None, frozen_at_time=0.0)
        for provider in provider_table.all()
    ]
    rows: Change = {keys.FROZEN: None}
    for cursor in cursors:
        rows.update(cursor_row(cursor))
    for provider in providers:
        rows.update(provider_row(provider))
    await store.write(rows, is_durable=True)
    for cursor in cursors:
        sync_state.apply(cursor)
    for provider in providers:
        provider_table.apply(provider)


def check_not_full(freezer: Freezer, percent: float) -> None:
    if freezer.is_over(percent):
        raise Conflict(
            f"cannot unfreeze: {percent:.1f} % of the disk is in use and the indexer freezes at "
            f"{freezer.limit_percent:g} %; free some space or raise ipni.freeze_at_percent"
        )
