"""One poll over all shards of a node: it waits at all of them, and leases from those that have tasks.

Waiting and leasing are separate steps: a wait can be cancelled at any moment, but tasks of a cancelled lease call would
be blocked until their leases expire.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from argosy.base.clock import Random
from argosy.base.errors import Invalid, NotOwner, Unavailable
from argosy.jobs.cluster.shard_host import OpenShard
from argosy.jobs.ports import ShardLeases
from argosy.jobs.telemetry import JobsTelemetry


def is_changed(change: "asyncio.Future[None]") -> bool:
    return change.done() and not change.cancelled()


class Poller:
    """`open_shards` returns the shards that can be leased from now."""

    def __init__(
        self, open_shards: Callable[[], Mapping[str, OpenShard]], random: Random, telemetry: JobsTelemetry
    ) -> None:
        self._open_shards = open_shards
        self._random = random
        self._telemetry = telemetry
        self._changes: dict[asyncio.Future[None], None] = {}

    def wake_all(self) -> None:
        """Called when shards are opened or closed: waiting polls use the new set."""
        changes, self._changes = self._changes, {}
        for change in changes:
            if not change.done():
                change.set_result(None)

    async def lease(self, task_group: str, worker: str, tasks_max: int, *, wait_s: float = 0.0) -> list[ShardLeases]:
        if tasks_max < 1:
            raise Invalid(f"tasks_max must be at least 1; got {tasks_max}")
        until = asyncio.get_running_loop().time() + wait_s
        # All shards at first, without a wait: most polls of a busy broker find something.
        shard_ids = list(self._open_shards())
        while True:
            found = await self._lease_from(shard_ids, task_group, worker, tasks_max)
            if found or asyncio.get_running_loop().time() >= until:
                self._telemetry.record_poll(sum(len(each.tasks) for each in found))
                return found
            shard_ids = await self._wait(task_group, until)

    async def _lease_from(
        self, shard_ids: Sequence[str], task_group: str, worker: str, tasks_max: int
    ) -> list[ShardLeases]:
        """Leases in random order, so that no shard is always last."""
        found: list[ShardLeases] = []
        left = tasks_max
        # In turn and not concurrently: what the first shard leases is not requested from the second.
        for shard_id in self._shuffle(shard_ids):
            opened = self._open_shards().get(shard_id)
            # Looked up again for each: shards may have moved while another one was leased from.
            if opened is None or left <= 0:
                continue
            try:
                tasks, refreshes = await opened.calls.lease(task_group, worker, left)
            except (NotOwner, Unavailable):
                continue  # it has just moved; tasks that other shards have leased must still be returned
            if tasks or refreshes:
                found.append(ShardLeases(shard_id, tasks, refreshes))
                left -= len(tasks)
        return found

    async def _wait(self, task_group: str, until: float) -> list[str]:
        """Returns shards where something may be due; all of them after a timeout or a change of shards.

        At all shards at the same time: one after the other, a job would wait while the poll waits elsewhere.
        """
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changes[change] = None
        waits = {
            asyncio.ensure_future(opened.shard.wait_due(task_group, until)): shard_id
            for shard_id, opened in self._open_shards().items()
        }
        pending = [*waits, change]
        try:
            async with asyncio.timeout_at(until):
                await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            pass
        finally:
            self._changes.pop(change, None)
            ended = [wait for wait in waits if wait.done()]
            # A waiter that was woken and is cancelled passes its wake-up on (`wait_due`), so none is lost.
            for each in pending:
                each.cancel()
            if waits:
                await asyncio.gather(*waits, return_exceptions=True)
        for wait in ended:
            wait.result()  # Throttled: too many wait there already
        return [waits[wait] for wait in ended] if ended and not is_changed(change) else list(self._open_shards())

    def _shuffle(self, names: Sequence[str]) -> list[str]:
        order = list(names)
        for last in range(len(order) - 1, 0, -1):
            at = self._random.randrange(0, last + 1)
            order[last], order[at] = order[at], order[last]
        return order
