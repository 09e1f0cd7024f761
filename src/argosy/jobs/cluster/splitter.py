"""Splits of the shards that this node serves.

    request  stored in the shard map, where the next holder of the shard finds it
    pause    calls get Unavailable; acknowledged changes are durable
    seal     the shard's last row; see `seal`
    clone    each child gets all rows, without copying the tables
    commit   the next version of the map: before it the shard exists, after it the children
    open     by the nodes that the ring chooses; each child deletes its sibling's rows

A split that fails before the commit leaves the shard as it was: it is released and reopened, and the node that opens
it aborts the split. A node that crashes leaves at most two unreferenced copies. In both cases the request stays in the
map, and the holder of the shard starts again with other ids for the children, because a late splitter may still delete
its own copies. Each attempt is counted in the map first; after `SPLIT_TRIES_MAX` the request is dropped.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec

from argosy.base.clock import Clock
from argosy.base.errors import ArgosyError, Conflict, NotFound, NotOwner, Unavailable
from argosy.jobs.cluster.ports import ShardStore, Split, SplitPhase
from argosy.jobs.cluster.seal import TRIES_MAX, Seal, commit_split, seal
from argosy.jobs.cluster.shard_host import OpenShard, ShardHost
from argosy.jobs.cluster.shard_map import ShardMap, ShardMapCache, ShardMapStore, SplitRequest, newest, try_add
from argosy.jobs.telemetry import JobsTelemetry
from argosy.ownership.model import Unit

# A split takes moments. If ten attempts in a row fail, the reason is a fault and not a ring that moves.
SPLIT_TRIES_MAX = 10


async def set_split_request(
    shards: ShardMap,
    maps: ShardMapStore,
    shard_id: str,
    split_request: SplitRequest | None,
    *,
    instead_of: SplitRequest | None,
) -> ShardMap:
    """Stores a split request and returns the map that contains it; Conflict if there is another request."""
    for _ in range(TRIES_MAX):
        now = shards.by_id(shard_id).split_request
        if now == split_request:
            return shards
        if now != instead_of:
            raise Conflict(f"shard {shard_id} is being split already; query its status")
        changed = shards.with_split_request(shard_id, split_request)
        if await try_add(changed, maps):
            return changed
        shards = await newest(maps, shards)
    raise Unavailable(f"the shard map changed {TRIES_MAX} times while a split was requested; retry")


SPLITS_KEPT_MAX = 1000  # finished splits whose status can be queried
SETTLE_S = 1.0  # a shard serves for so long before the next attempt: repeated failures must not keep it closed
PAUSED = "shard is temporarily unavailable: split in progress"


class Splitter:
    """The splits of one node."""

    def __init__(
        self,
        host: ShardHost,
        store: ShardStore,
        maps: ShardMapCache,
        telemetry: JobsTelemetry,
        *,
        node: str,
        clock: Clock,
        new_id: Callable[[], str],
        check: Callable[[Unit], None],
        release: Callable[[Unit], None],
    ) -> None:
        self._host = host
        self._store = store
        self._maps = maps
        self._telemetry = telemetry
        self._node = node
        self._clock = clock
        self._new_id = new_id
        self._check = check  # raises unless this node holds the shard
        self._release = release
        self._splits: dict[str, Split] = {}
        self._in_progress: dict[str, asyncio.Task[None]] = {}
        self._requested: set[str] = set()  # shards whose split request is being stored

    def status(self, shard_id: str) -> Split | None:
        """The split in progress or done on this node, else the requested one."""
        if (split := self._splits.get(shard_id)) is not None:
            return split
        split_request = self._find_request(shard_id)
        return None if split_request is None else _pending_split(shard_id, split_request)

    async def begin(self, shard_id: str, point: str) -> Split:
        """Starts a split and returns when its request is durable: this node carries it out, or the next holder.

        Conflict if the shard is not served here or is being split.
        """
        if shard_id in self._in_progress or shard_id in self._requested:
            raise Conflict(f"shard {shard_id} is being split already; query its status")
        shards = self._maps.current
        spec = shards.by_id(shard_id)
        if shard_id not in self._host.open:
            raise Conflict(f"shard {shard_id} is not served here; send the request to its owner")
        self._check(Unit(shard_id))
        shards.check_capacity()
        split_request = SplitRequest(point or spec.range.middle(), self._host.now_ms(), self._node)
        # Raises for a point outside of the range, before the request is stored.
        spec.range.split(split_request.point)
        # From here until the request is stored, a second request must not pass the check above.
        self._requested.add(shard_id)
        try:
            self._maps.adopt(
                await set_split_request(shards, self._maps.store, shard_id, split_request, instead_of=None)
            )
        finally:
            self._requested.discard(shard_id)
        opened = self._open_shard(shard_id)
        if opened is None:  # the shard has moved meanwhile: its new holder finds the request in the map
            return _pending_split(shard_id, split_request)
        split = self._track(shard_id, split_request)
        self._start(shard_id, self._run(split, opened))
        return split

    def resume(self) -> None:
        """Starts requested splits that were interrupted, here or elsewhere; called periodically."""
        for shard_id in list(self._host.open):
            opened = self._open_shard(shard_id)
            is_settled = opened is not None and self._clock.now() - opened.opened_at >= SETTLE_S
            is_at_work = shard_id in self._in_progress or shard_id in self._requested
            if is_settled and not is_at_work and self._find_request(shard_id) is not None:
                self._start(shard_id, self._resume(shard_id))

    async def close(self) -> None:
        """Cancels splits in progress; the next holder of the shard aborts them and starts again."""
        tasks = list(self._in_progress.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, shard_id: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._in_progress[shard_id] = task
        task.add_done_callback(lambda _: self._in_progress.pop(shard_id, None))

    async def _resume(self, shard_id: str) -> None:
        try:
            await self._maps.refresh()
            split_request = await self._next_attempt(shard_id)
        except ArgosyError as why:
            if not isinstance(why, Conflict | NotFound):  # with those, another node has decided meanwhile
                self._telemetry.record_map_failure(why)
            # Inside the task, so that `resume` does not start the next attempt at once.
            await self._clock.sleep(SETTLE_S)
            return
        opened = self._open_shard(shard_id)
        if split_request is not None and opened is not None:
            await self._run(self._track(shard_id, split_request), opened)

    async def _next_attempt(self, shard_id: str) -> SplitRequest | None:
        """The request with one more attempt counted; None if there is none or it was attempted too often."""
        shards = self._maps.current
        split_request = shards.by_id(shard_id).split_request
        if split_request is None:
            return None
        is_over = split_request.tries >= SPLIT_TRIES_MAX
        counted = None if is_over else msgspec.structs.replace(split_request, tries=split_request.tries + 1)
        self._maps.adopt(await set_split_request(shards, self._maps.store, shard_id, counted, instead_of=split_request))
        if is_over:
            self._telemetry.log.warning(
                "split abandoned", shard=shard_id, point=split_request.point, tries=split_request.tries
            )
        return counted

    async def _run(self, split: Split, opened: OpenShard) -> None:
        began, is_committing = self._clock.now(), False
        try:
            sealed = await self._copy(split, opened)
            is_committing = True
            await self._commit(split, sealed)
            self._telemetry.record_split(split, self._clock.now() - began)
        except Exception as why:
            self._telemetry.record_split_failure(self._splits.pop(split.shard_id, split), why)
            # The shard is closed and sealed here: only opening it again, which aborts the split, makes it serve.
            self._release(Unit(split.shard_id))
            # A commit that failed otherwise may be stored nevertheless, with its response lost: then the children are
            # shards by now, and must not be deleted.
            if not is_committing or isinstance(why, Conflict):
                await self._remove(split)
            if not isinstance(why, ArgosyError):
                raise

    async def _copy(self, split: Split, opened: OpenShard) -> Seal:
        sealed = Seal(split.shard_id, self._maps.current.by_id(split.shard_id).aborted_splits)
        self._update(replace(split, phase=SplitPhase.PAUSING))
        # Before the shard closes: calls get this text, by which clients wait instead of looking for another owner.
        opened.guard.close(Unavailable(PAUSED))
        await opened.shard.close()
        # The last row: everything that was acknowledged is before it, and nothing is acknowledged after it (JOB-1).
        await seal(opened.store, sealed)
        await opened.close()
        self._update(replace(split, phase=SplitPhase.CLONING))
        for child in (split.left, split.right):
            # Cloning opens the parent once more and fences its current writer. If the lease has been lost, that would
            # be the node that serves the shard now.
            self._check(Unit(split.shard_id))
            await self._store.clone(split.shard_id, child)
        return sealed

    async def _commit(self, split: Split, sealed: Seal) -> None:
        ids = (split.left, split.right)
        shards = await commit_split(self._maps.current, self._maps.store, sealed, split.point, ids, self._host.now_ms())
        self._update(replace(split, phase=SplitPhase.DONE))
        self._maps.adopt(shards)

    async def _remove(self, split: Split) -> None:
        for child in (split.left, split.right):
            # A copy that remains is unreferenced and costs space only.
            with suppress(NotFound, Conflict, Unavailable):
                await self._store.delete(child)

    def _open_shard(self, shard_id: str) -> OpenShard | None:
        """The shard, if it is open here under a valid lease."""
        opened = self._host.open.get(shard_id)
        if opened is not None and not opened.guard.is_closed:
            with suppress(NotOwner, Unavailable):
                self._check(Unit(shard_id))
                return opened
        return None

    def _find_request(self, shard_id: str) -> SplitRequest | None:
        with suppress(NotFound):
            return self._maps.current.by_id(shard_id).split_request
        return None

    def _track(self, shard_id: str, split_request: SplitRequest) -> Split:
        split = replace(_pending_split(shard_id, split_request), left=self._new_id(), right=self._new_id())
        self._update(split)
        return split

    def _update(self, split: Split) -> None:
        # Removed first, so that the newest is at the end and the oldest is dropped.
        self._splits.pop(split.shard_id, None)
        self._splits[split.shard_id] = split
        if len(self._splits) > SPLITS_KEPT_MAX:
            del self._splits[next(iter(self._splits))]
        self._telemetry.record_split_phase(split)


def _pending_split(shard_id: str, split_request: SplitRequest) -> Split:
    """A split that no node is carrying out."""
    return Split(
        shard_id, SplitPhase.REQUESTED, "", "", split_request.point, split_request.requested_at, split_request.node
    )
