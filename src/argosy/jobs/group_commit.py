"""Group commit: one committer writes staged changes in groups, in order.

A staged change is visible in this process at once and acknowledged when it is durable (JOB-1), as in PostgreSQL's group
commit. When no flush is in progress, a change is written and flushed immediately, so a lone caller waits for the disk
only. During a flush, changes collect for the next one; a large group is passed to the store meanwhile, so that copying
it does not add to the wait. One flush for many callers is what makes it fast: a durable write of its own for each costs
1 to 10 ms, and a shard with 256 callers in flight makes 10,000 durable operations a second.

Changes take effect in the order of staging. Since later ones may build on earlier ones, after any failure all changes
that are not durable are lost together, and every later call raises the cause: Fenced if another writer has the store,
otherwise Unavailable. The store must then be reopened. Whether the failed write itself reached the disk is unknown, so
no change may follow it.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeVar

from argosy.base import logs
from argosy.base.errors import ArgosyError, Fenced, Unavailable
from argosy.base.kv import Batch, check_key, check_keys, check_limit
from argosy.jobs.overlay import UNTOUCHED, ChangeGroup, Overlay, deletions, merge_changes
from argosy.jobs.ports import PipelinedKV

T = TypeVar("T")

GROUP_KEYS = 512  # an open group of this size is written while a flush still runs: 5 ms of copying, saved from its wait
# A group of this size is closed: copying it to SlateDB takes 40 ms, which other calls wait. A larger batch is one
# group.
GROUP_KEYS_MAX = 4096
GROUP_BYTES_MAX = 8 << 20
STAGED_BYTES_MAX = 32 << 20  # not yet durable; above it `wait_capacity` waits
STAGED_CHANGES_MAX = 50_000
# `stage` itself never waits, since a transaction must not await. Above so many times the bound it rejects: some caller
# stages without waiting for capacity, and the memory would grow without bound.
STAGED_HARD_FACTOR = 4

_log = logs.get("jobs.group_commit")


@dataclass
class _Waiting:
    """The callers of one group and what they have staged."""

    futures: list["asyncio.Future[None]"] = field(default_factory=list)
    size_bytes: int = 0
    changes: int = 0


class GroupCommitStore:
    """A `StagedStore` over a store that can be pipelined."""

    def __init__(self, store: PipelinedKV) -> None:
        self._store = store
        self._overlay = Overlay()
        self._closed_groups: deque[tuple[ChangeGroup, _Waiting]] = deque()  # full, and not yet written
        self._waiting = _Waiting()  # for the open group
        self._flushing: deque[tuple[Awaitable[None], _Waiting]] = deque()
        self._staged_bytes = 0
        self._staged_changes = 0
        self._unsettled = 0  # calls of `stage` that are neither durable nor lost
        self._failure: ArgosyError | None = None
        self._is_closing = False
        self._work = asyncio.Event()  # for the committer: something may be written now
        self._written = asyncio.Event()  # for the settler: something awaits durability
        self._settled = asyncio.Event()  # for callers that wait for capacity or for the end
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def failure(self) -> ArgosyError | None:
        """The reason why this store has stopped, or None."""
        return self._failure

    @property
    def staged_bytes(self) -> int:
        """Staged and not yet durable."""
        return self._staged_bytes

    def stage(self, batch: Batch) -> Awaitable[None]:
        """Stages the changes; the result completes when they are durable, or raises if they are lost.

        Raises without staging anything if the store has stopped, or if far more is staged than `wait_capacity` allows.
        """
        self._check_running()
        if self._is_over(STAGED_HARD_FACTOR):
            raise Unavailable(f"{self._staged_changes} changes are not durable yet; wait before staging more")
        # Started by the first change, because a store may be made outside of a running event loop.
        if not self._tasks:
            self._tasks = [asyncio.ensure_future(self._commit()), asyncio.ensure_future(self._settle())]
        # Before the batch is added: a batch is never spread over two groups, which could be separated by a crash.
        if self._is_full(self._overlay.open_group, batch):
            self._end_group()
        self._overlay.open_group.add(batch)
        future = asyncio.get_running_loop().create_future()
        waiting = self._waiting
        waiting.futures.append(future)
        waiting.size_bytes += batch.size_bytes
        waiting.changes += len(batch)
        self._staged_bytes += batch.size_bytes
        self._staged_changes += len(batch)
        self._unsettled += 1
        self._work.set()
        return future

    async def wait_capacity(self) -> None:
        """Waits until less than the bound is staged: callers that wait before staging cannot outrun the disk."""
        self._check_running()
        while self._is_over(1):
            self._settled.clear()
            await self._settled.wait()
            self._check_running()

    async def get(self, key: bytes) -> bytes | None:
        """The newest value, staged or stored, at the moment of return."""
        self._check_readable()
        check_key(key)
        staged = self._overlay.lookup(key)
        if staged is not UNTOUCHED:
            return staged
        read = self._overlay.begin_read()
        try:
            stored = await self._read(self._store.get(key))
            staged = self._overlay.lookup(key)
        finally:
            self._overlay.end_read(read)
        return stored if staged is UNTOUCHED else staged

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """One value per key, in order, all as of the moment of return."""
        self._check_readable()
        check_keys(keys)
        unstaged = [key for key in keys if self._overlay.lookup(key) is UNTOUCHED]
        read = self._overlay.begin_read()
        try:
            values = await self._read(self._store.get_many(unstaged)) if unstaged else []
            # Looked up once more after the read: a change that was staged meanwhile is newer than the store's value.
            newest = [(key, self._overlay.lookup(key)) for key in keys]
        finally:
            self._overlay.end_read(read)
        stored = dict(zip(unstaged, values, strict=True))
        return [stored[key] if staged is UNTOUCHED else staged for key, staged in newest]

    async def scan(
        self, start: bytes, end: bytes | None, *, limit: int | None = None, reverse: bool = False
    ) -> AsyncIterator[tuple[bytes, bytes]]:
        """Stored and staged pairs as of when the first one is requested; later changes do not appear."""
        self._check_readable()
        check_limit(limit)
        read = self._overlay.begin_read()
        try:
            # Staged deletions hide stored pairs: the store must return so many more.
            spare = deletions(self._overlay.within(start, end, reverse=reverse))
            stored_max = None if limit is None else limit + spare
            first, pairs, changes = await self._begin(start, end, stored_max, reverse)
            if stored_max is not None and deletions(changes) > spare:
                # More was deleted while the store began to scan, so its limit may not suffice: scan without one.
                first, pairs, changes = await self._begin(start, end, None, reverse)
        finally:
            self._overlay.end_read(read)
        found = _chain(first, pairs)
        if changes or spare:
            found = merge_changes(found, changes, limit=limit, reverse=reverse)
        async for pair in found:
            yield pair

    async def close(self) -> None:
        """Waits until all staged changes are durable or lost, and closes the store."""
        # No further changes are accepted, or a busy shard would never close.
        self._is_closing = True
        # After a failure nothing becomes durable any more, and all callers have been answered.
        while self._unsettled and self._failure is None:
            self._settled.clear()
            await self._settled.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _begin(
        self, start: bytes, end: bytes | None, limit: int | None, reverse: bool
    ) -> tuple[tuple[bytes, bytes] | None, AsyncIterator[tuple[bytes, bytes]], list[tuple[bytes, bytes | None]]]:
        """The store's first pair, the rest, and the staged changes at this moment."""
        pairs = self._store.scan(start, end, limit=limit, reverse=reverse)
        first = await self._read(anext(pairs, None))
        return first, pairs, self._overlay.within(start, end, reverse=reverse)

    async def _read(self, call: Awaitable[T]) -> T:
        try:
            value = await call
        except Fenced as failure:
            self._fail(failure)
            raise
        # Once more, because the lease may have ended during the read, and its value then be older than another node's.
        self._check_readable()
        return value

    async def _commit(self) -> None:
        """Writes group after group; the settler wakes it when a flush has ended."""
        while True:
            await self._work.wait()
            if self._failure is not None:
                return
            if not self._may_write():
                self._work.clear()
                continue
            if not self._closed_groups:
                self._end_group()
            # Removed only after the write: `_fail` fails the callers of all groups that are in the queue.
            group, waiting = self._closed_groups[0]
            try:
                durable = await self._store.write_pipelined(group.changes)
            except Exception as error:
                self._fail(error)
                return
            if self._failure is not None:
                return
            self._closed_groups.popleft()
            # The store shows the group now, so reads need it in the overlay no longer.
            self._overlay.on_written(group)
            self._flushing.append((durable, waiting))
            self._written.set()

    def _may_write(self) -> bool:
        """With a flush in progress a small group waits: it shares the next flush with what is staged until then."""
        if self._closed_groups:
            return True
        if not self._waiting.futures:
            return False
        return not self._flushing or len(self._overlay.open_group.changes) >= GROUP_KEYS

    async def _settle(self) -> None:
        """Completes the callers of each group in order, once it is durable."""
        while True:
            while not self._flushing:
                self._written.clear()
                await self._written.wait()
            durable, waiting = self._flushing[0]
            try:
                await durable
            except Exception as error:
                self._fail(error)
                return
            self._flushing.popleft()
            # Before the callers are woken: they may stage again at once.
            self._staged_bytes -= waiting.size_bytes
            self._staged_changes -= waiting.changes
            self._unsettled -= len(waiting.futures)
            for future in waiting.futures:
                if not future.done():
                    future.set_result(None)
            self._settled.set()
            self._work.set()

    def _end_group(self) -> None:
        self._closed_groups.append((self._overlay.close_group(), self._waiting))
        self._waiting = _Waiting()

    def _fail(self, error: Exception) -> None:
        """Fails everything that is not durable."""
        if self._failure is not None:
            return
        if not isinstance(error, ArgosyError):
            _log.error("group commit stopped", error=repr(error), exc_info=True)
            error = Unavailable(f"the store failed; reopen it: {error!r}")
        self._failure = error
        lost = [waiting for _, waiting in (*self._flushing, *self._closed_groups)]
        for waiting in (*lost, self._waiting):
            for future in waiting.futures:
                if not future.done():
                    future.set_exception(_copy(error))
                    future.exception()  # retrieved: asyncio logs nothing for a caller that was cancelled
        self._settled.set()

    def _is_over(self, factor: int) -> bool:
        return self._staged_bytes > factor * STAGED_BYTES_MAX or self._staged_changes > factor * STAGED_CHANGES_MAX

    def _is_full(self, group: ChangeGroup, batch: Batch) -> bool:
        if not group.changes:
            return False
        is_many = len(group.changes) + len(batch) > GROUP_KEYS_MAX
        return is_many or group.size_bytes + batch.size_bytes > GROUP_BYTES_MAX

    def _check_running(self) -> None:
        if self._failure is not None:
            raise _copy(self._failure)
        if self._is_closing:
            raise Unavailable("the store is closed; reopen it")

    def _check_readable(self) -> None:
        self._check_running()
        self._store.check_readable()


async def _chain(
    first: tuple[bytes, bytes] | None, rest: AsyncIterator[tuple[bytes, bytes]]
) -> AsyncIterator[tuple[bytes, bytes]]:
    if first is not None:
        yield first
        async for pair in rest:
            yield pair


def _copy(failure: ArgosyError) -> ArgosyError:
    """One exception per caller: a shared one would collect the tracebacks of all."""
    return type(failure)(str(failure))
