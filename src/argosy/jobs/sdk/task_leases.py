"""The calls of a worker: leases of tasks from a node, heartbeats and outcomes to the shards that have the tasks.

A task is located by its tenant, not by the shard it was leased from, so it is found after the shard has moved or was
split. Ids of task leases survive both.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from argosy.base.errors import ArgosyError, Unavailable
from argosy.jobs.api import argosy_jobs_pb2 as pb
from argosy.jobs.model import TaskFailure, TaskOutcome, TaskReleased, TaskSuccess
from argosy.jobs.ports import ShardInfo
from argosy.jobs.sdk.errors import error_from_item
from argosy.jobs.sdk.links import HEARTBEATS, LEASE, REPORT
from argosy.jobs.sdk.router import BATCH_BYTES_MAX, ShardRouter

ITEM_BYTES = 512  # estimated size of an item on the wire besides its data
ANSWER_S = 10.0  # for the response to a poll, beyond its wait; and to heartbeats
HEARTBEATS_PER_CALL_MAX = 32  # each may carry 64 KiB of progress
SLICE_S = 0.25  # of a wait for tasks, at one node after the other


@dataclass(frozen=True)
class HeldTask:
    """A task that a worker has leased: what is needed to find it again."""

    task_id: str
    tenant: str


class TaskLeases:
    """The calls of one worker."""

    def __init__(self, router: ShardRouter, worker: str) -> None:
        self._router = router
        self._worker = worker

    async def lease(self, address: str, group: str, tasks_max: int, *, wait_s: float) -> pb.LeaseTasksResponse:
        """Leases from all shards of one node. Not retried: tasks of a lost response stay leased until they expire."""
        request = pb.LeaseTasksRequest(
            worker_id=self._worker, task_group=group, max_tasks=tasks_max, wait_ms=int(wait_s * 1000)
        )
        response: pb.LeaseTasksResponse = await self._router.call(address, LEASE, request, timeout_s=wait_s + ANSWER_S)
        return response

    async def lease_anywhere(self, group: str, tasks_max: int, *, wait_s: float) -> pb.LeaseTasksResponse:
        """Leases from the first node that has tasks, for callers that poll now and then; skips unreachable nodes."""
        clock = self._router.clock
        ends = clock.now() + wait_s
        while True:
            # The map is read in every round: nodes come and go while a caller waits.
            failure, addresses = Unavailable("no node serves shards; retry"), (await self._router.read()).addresses()
            answered = 0
            for address in addresses:
                left_s = max(0.0, ends - clock.now())
                # One node after the other, not all at the same time: a poll that is cancelled may have leased tasks.
                slice_s = left_s if len(addresses) == 1 else min(SLICE_S, left_s)
                try:
                    response = await self.lease(address, group, tasks_max, wait_s=slice_s)
                except Unavailable as error:
                    failure = error
                    continue
                answered += 1
                if response.tasks or response.refresh_tasks:
                    return response
            if not answered:
                raise failure
            if clock.now() >= ends:
                return pb.LeaseTasksResponse()

    async def heartbeat(self, held: Sequence[tuple[HeldTask, bytes | None]]) -> list[int | ArgosyError]:
        """Extends the leases and sends progress; for each the time at which its job was cancelled, 0 if it was not.

        Sent once: the next heartbeat comes before the lease expires, and a late retry would only delay it.
        """

        async def send(
            address: str, batch: Sequence[tuple[tuple[HeldTask, bytes | None], ShardInfo]]
        ) -> list[int | ArgosyError]:
            heartbeats = [
                pb.Heartbeat(shard=shard.id, task_id=each.task_id, progress=progress)
                for (each, progress), shard in batch
            ]
            request = pb.HeartbeatsRequest(worker_id=self._worker, heartbeats=heartbeats)
            response = await self._router.call(address, HEARTBEATS, request, timeout_s=ANSWER_S)
            return [
                error_from_item(each.error) if each.HasField("error") else each.cancelled_at_ms
                for each in response.results
            ]

        return await self._router.send_by_node(
            held,
            lambda each: each[0].tenant,
            # A constant size makes the bound on bytes a bound on their number.
            lambda _: BATCH_BYTES_MAX // HEARTBEATS_PER_CALL_MAX,
            send,
            attempts_max=1,
        )

    async def report(self, outcomes: Sequence[tuple[HeldTask, TaskOutcome]]) -> list[ArgosyError | None]:
        """Ends the leases; retried, because the work is done and would be repeated otherwise."""

        async def send(
            address: str, batch: Sequence[tuple[tuple[HeldTask, TaskOutcome], ShardInfo]]
        ) -> list[ArgosyError | None]:
            items = [to_outcome(outcome, held.task_id, shard.id) for (held, outcome), shard in batch]
            request = pb.ReportOutcomesRequest(worker_id=self._worker, outcomes=items)
            response = await self._router.call(address, REPORT, request)
            return [error_from_item(result.error) if result.HasField("error") else None for result in response.results]

        return await self._router.send_by_node(
            outcomes, lambda each: each[0].tenant, lambda each: len(getattr(each[1], "data", b"")) + ITEM_BYTES, send
        )


def to_outcome(outcome: TaskOutcome, task_id: str, shard_id: str) -> pb.TaskOutcome:
    match outcome:
        case TaskSuccess(data):
            return pb.TaskOutcome(shard=shard_id, task_id=task_id, success=data)
        case TaskFailure(code, data):
            return pb.TaskOutcome(shard=shard_id, task_id=task_id, failure=pb.Failure(code=code, data=data))
        case TaskReleased():
            return pb.TaskOutcome(shard=shard_id, task_id=task_id, released=pb.Released())
    return pb.TaskOutcome(shard=shard_id, task_id=task_id, cancelled=pb.Cancelled())
