"""Carries out splits of shards that this node serves.

    pause    calls get Unavailable; what was acknowledged is durable
    seal     the shard's last row; see `sealing`
    clone    each child gets all rows, without copying them
    commit   the next version of the map: before it the shard stands, after it the children do
    open     by whomever the ring names; each child deletes what is its sibling's

A split that fails before the commit leaves the shard as it was: it is let go, opened anew, and the opener calls the
split off. A node that dies on the way leaves nothing but two copies that nobody refers to.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from argosy.base.clock import Clock
from argosy.base.errors import ArgosyError, Conflict, NotFound, Unavailable
from argosy.jobs.cluster.client import MapClient
from argosy.jobs.cluster.model import Split, SplitPhase
from argosy.jobs.cluster.ports import ShardStore
from argosy.jobs.cluster.sealing import Seal, committed, seal
from argosy.jobs.cluster.worker import OpenShard, ShardWorker
from argosy.jobs.teller import Teller
from argosy.ownership.model import Unit

SPLITS_KEPT_MAX = 1000          # whose status can still be asked for
PAUSED = "shard is temporarily unavailable: split in progress"


class Splitter:
    """The splits of one node."""

    def __init__(
        self,
        worker: ShardWorker,
        store: ShardStore,
        maps: MapClient,
        teller: Teller,
        *,
        clock: Clock,
        new_id: Callable[[], str],
        check: Callable[[Unit], None],
        give_up: Callable[[Unit], None],
    ) -> None:
        self._worker = worker
        self._store = store
        self._maps = maps
        self._teller = teller
        self._clock = clock
        self._new_id = new_id
        self._check = check                     # raises unless this node holds the shard
        self._give_up = give_up
        self._splits: dict[str, Split] = {}
        self._under_way: dict[str, asyncio.Task[None]] = {}

    def status(self, shard_id: str) -> Split | None:
        return self._splits.get(shard_id)

    def begin(self, shard_id: str, point: str) -> Split:
        """Starts a split and returns; Conflict if the shard is not served here or is being split."""
        if shard_id in self._under_way:
            raise Conflict(f"shard {shard_id} is being split already: ask for its status")
        spec = self._maps.current.by_id(shard_id)
        opened = self._worker.open.get(shard_id)
        if opened is None:
            raise Conflict(f"shard {shard_id} is not served here: ask its owner to split it")
        self._check(Unit(shard_id))
        point = point or spec.range.middle()
        spec.range.split(point)
        split = Split(
            shard_id, SplitPhase.REQUESTED, self._new_id(), self._new_id(), point, self._worker.now_ms()
        )
        self._note(split)
        task = asyncio.ensure_future(self._run(split, opened))
        self._under_way[shard_id] = task
        task.add_done_callback(lambda _: self._under_way.pop(shard_id, None))
        return split

    async def close(self) -> None:
        """Ends what is under way; whoever opens the shard next calls it off."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, split: Split, opened: OpenShard) -> None:
        began, is_committing = self._clock.now(), False
        try:
            sealed = await self._copy(split, opened)
            is_committing = True
            await self._commit(split, sealed)
            self._teller.split_done(split, self._clock.now() - began)
        except Exception as why:
            self._teller.split_failed(self._splits.pop(split.shard_id, split), why)
            self._give_up(Unit(split.shard_id))
            if not is_committing or isinstance(why, Conflict):      # else the children may be real by now
                await self._remove(split)
            if not isinstance(why, ArgosyError):
                raise

    async def _copy(self, split: Split, opened: OpenShard) -> Seal:
        sealed = Seal(split.shard_id, self._maps.current.by_id(split.shard_id).undone)
        self._note(replace(split, phase=SplitPhase.PAUSING))
        opened.gate.close(Unavailable(PAUSED))
        await opened.shard.close()
        await seal(opened.ledger, sealed)
        await opened.close()
        self._note(replace(split, phase=SplitPhase.CLONING))
        for child in (split.left, split.right):
            # Cloning makes this node the writer once more, which is its right only as long as it holds the shard.
            self._check(Unit(split.shard_id))
            await self._store.clone(split.shard_id, child)
        return sealed

    async def _commit(self, split: Split, sealed: Seal) -> None:
        ids = (split.left, split.right)
        shards = await committed(self._maps.current, self._maps.store, sealed, split.point, ids, self._worker.now_ms())
        self._note(replace(split, phase=SplitPhase.DONE))
        self._maps.adopt(shards)

    async def _remove(self, split: Split) -> None:
        for child in (split.left, split.right):
            with suppress(NotFound, Conflict, Unavailable):
                await self._store.delete(child)

    def _note(self, split: Split) -> None:
        self._splits.pop(split.shard_id, None)
        self._splits[split.shard_id] = split
        if len(self._splits) > SPLITS_KEPT_MAX:
            del self._splits[next(iter(self._splits))]
        self._teller.split(split)
