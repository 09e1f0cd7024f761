"""Opens and closes the shards that this node holds: ownership's workload.

Opening makes this node the writer, fences the previous one, rebuilds the queue state and starts serving. A shard whose
storage failed or was fenced is released at once; the ring then decides which node reopens it.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from argosy.base.clock import Clock, MonotonicWallClock, Random
from argosy.base.errors import ArgosyError, Fenced, NotFound, Unavailable
from argosy.jobs.cluster.lease_guard import GuardedShard, LeaseGuard
from argosy.jobs.cluster.ports import ShardStore
from argosy.jobs.cluster.seal import unseal
from argosy.jobs.cluster.shard_map import ShardMapCache, ShardSpec
from argosy.jobs.cluster.split_rows import CleanupProgress, OwnedRowsView, RowOwnership, clean_chunk, read_progress
from argosy.jobs.group_commit import GroupCommitStore
from argosy.jobs.model import ShardOptions
from argosy.jobs.ports import PipelinedKV
from argosy.jobs.shard.shard import ShardService
from argosy.jobs.telemetry import JobsTelemetry
from argosy.ownership.model import Lease, Unit
from argosy.throttle.limits.ports import RateLimiter


@dataclass
class OpenShard:
    """A shard that this node serves."""

    spec: ShardSpec
    epoch: int
    store: GroupCommitStore
    rows: OwnedRowsView
    shard: ShardService
    guard: LeaseGuard
    calls: GuardedShard
    progress: CleanupProgress  # of the cleaning after a split
    opened_at: float
    tasks: list["asyncio.Task[None]"] = field(default_factory=list)

    async def close(self) -> None:
        """Rejects further calls; staged changes become durable or fail, and their callers get the result."""
        this = asyncio.current_task()
        others = [task for task in self.tasks if task is not this]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        # Shard before store: no call may stage anything once the store waits for its last flush.
        await self.shard.close()
        await self.store.close()


class ShardHost:
    """Implements ownership's `Workload`. `bind_leases` connects it to the leases under which it serves."""

    def __init__(
        self,
        store: ShardStore,
        maps: ShardMapCache,
        limiter: RateLimiter,
        telemetry: JobsTelemetry,
        *,
        options: ShardOptions,
        clock: Clock,
        random: Random,
        new_id: Callable[[], str],
    ) -> None:
        self.open: dict[str, OpenShard] = {}
        self.observers: list[Callable[[], None]] = []  # called when a shard was opened or closed
        self._store = store
        self._maps = maps
        self._limiter = limiter
        self._telemetry = telemetry
        self._options = options
        self._clock = clock
        self._wall = MonotonicWallClock(clock)
        self._random = random
        self._new_id = new_id
        self._closing: dict[asyncio.Task[None], None] = {}
        self._discards: dict[str, asyncio.Task[None]] = {}  # openings whose caller was cancelled
        self._holds: Callable[[Unit], bool] = lambda _: False
        self._check: Callable[[Unit], None] = lambda _: None
        self._release: Callable[[Unit], None] = lambda _: None

    def bind_leases(
        self, *, holds: Callable[[Unit], bool], check: Callable[[Unit], None], release: Callable[[Unit], None]
    ) -> None:
        self._holds, self._check, self._release = holds, check, release

    def now_ms(self) -> int:
        """The clock of task leases and starts: wall time that never steps, so no step expires leases (JOB-2)."""
        return int(self._wall.wall() * 1000)

    async def warm(self, lease: Lease) -> int:
        shard_id, began = lease.unit.name, self._clock.now()
        if (left := self.open.pop(shard_id, None)) is not None:
            await left.close()  # of an earlier epoch: its writer would be fenced by the opening below
        spec = await self._spec(shard_id)
        opened = await self._open_shard(spec, lease)
        self.open[shard_id] = opened
        # Two ways to learn that the store is lost: a call gets Fenced, or the shard's own work fails.
        opened.guard.on_fenced = lambda: self._on_lost(opened, Fenced(f"another node has opened shard {shard_id}"))
        opened.tasks = [asyncio.ensure_future(self._watch(opened)), asyncio.ensure_future(self._clean(opened))]
        self._telemetry.record_open(shard_id, lease.epoch, self._clock.now() - began, count=len(self.open))
        self._notify()
        return 0

    async def drop(self, unit: Unit) -> None:
        opened = self.open.pop(unit.name, None)
        if opened is not None:
            opened.guard.close(Unavailable("shard not ready: it is being closed on this node"))
            self._notify()
            # The caller may be cancelled when the node leaves; closing continues, since staged changes have callers
            # that wait for them.
            await asyncio.shield(self._run_to_end(self._close(opened)))

    async def close(self) -> None:
        """Closes all shards concurrently."""
        await asyncio.gather(*(self.drop(Unit(name)) for name in list(self.open)))
        # Also closings whose caller was cancelled: staged changes have callers that wait for them.
        await asyncio.gather(*self._closing)

    async def _close(self, opened: OpenShard) -> None:
        await opened.close()
        self._telemetry.record_closed(opened.spec.id, count=len(self.open))

    async def _spec(self, shard_id: str) -> ShardSpec:
        """The cached map may be older than the lease."""
        with suppress(NotFound):
            return self._maps.current.by_id(shard_id)
        return (await self._maps.refresh()).by_id(shard_id)

    async def _open_shard(self, spec: ShardSpec, lease: Lease) -> OpenShard:
        unit = lease.unit
        store = GroupCommitStore(await self._rows(unit))
        shard: ShardService | None = None
        try:
            # First of all: a split that another node has sealed is aborted, or has happened and the shard is gone.
            self._maps.adopt(await unseal(store, spec.id, self._maps.current, self._maps.store))
            # From the store below the view: the view's own filter depends on it.
            progress = await read_progress(store, spec.id, has_parent=bool(spec.parent))
            rows = OwnedRowsView(store, RowOwnership(spec.range), is_clean=progress.is_done)
            shard = ShardService(
                rows,
                now_ms=self.now_ms,
                new_id=self._new_id,
                random=self._random,
                limiter=self._limiter,
                options=self._options,
            )
            await shard.start()
        except BaseException:
            if shard is not None:
                await shard.close()
            # Otherwise the database would stay open, with its background work, until the process ends.
            await store.close()
            raise
        guard = LeaseGuard(spec.id, spec.range, lambda: self._check(unit))
        return OpenShard(
            spec, lease.epoch, store, rows, shard, guard, GuardedShard(guard, shard), progress, self._clock.now()
        )

    async def _rows(self, unit: Unit) -> PipelinedKV:
        """Opens the store. The caller may be cancelled, the opening may not: a late result is closed before the next
        opening starts, which it would otherwise fence.
        """
        if (discard := self._discards.get(unit.name)) is not None:
            await asyncio.wait([discard])
        # `may_serve` asks ownership at every read: is this node's lease valid by the local clock?
        opening = asyncio.ensure_future(self._store.shard(unit.name, may_serve=lambda: self._holds(unit)))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            self._discards[unit.name] = self._run_to_end(self._discard(unit.name, opening))
            raise

    async def _discard(self, shard_id: str, opening: "asyncio.Future[PipelinedKV]") -> None:
        with suppress(ArgosyError):
            await (await opening).close()
        self._discards.pop(shard_id, None)

    def _run_to_end(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Runs work that its caller may not wait for; `close` does."""
        task = asyncio.ensure_future(work)
        self._closing[task] = None
        task.add_done_callback(lambda done: self._closing.pop(done, None))
        return task

    async def _watch(self, opened: OpenShard) -> None:
        await opened.shard.wait_stopped()
        self._on_lost(opened, opened.shard.failure)

    async def _clean(self, opened: OpenShard) -> None:
        """Runs until done or until the shard closes; the next node that opens the shard resumes it."""
        if opened.progress.is_done:
            return
        owned, before = RowOwnership(opened.spec.range), opened.progress.deleted
        try:
            while not opened.progress.is_done:
                opened.progress = await clean_chunk(opened.store, owned, opened.progress, self.now_ms)
        except ArgosyError as why:
            # Not retried here: the store has failed, so the shard is reopened and the cleanup resumed from its
            # progress.
            self._telemetry.record_cleanup_failure(opened.spec.id, why)
            return
        opened.rows.is_clean = True
        self._telemetry.record_cleaned(opened.spec.id, opened.progress.deleted - before)

    def _on_lost(self, opened: OpenShard, why: ArgosyError | None) -> None:
        if self.open.get(opened.spec.id) is opened and not opened.guard.is_closed:
            # At once, before the release reaches the store: no call may enter a shard that has lost its writer.
            opened.guard.close(Unavailable("shard not ready: it is being reopened"))
            self._telemetry.record_lost(opened.spec.id, why)
            self._release(Unit(opened.spec.id))

    def _notify(self) -> None:
        for observer in self.observers:
            observer()
