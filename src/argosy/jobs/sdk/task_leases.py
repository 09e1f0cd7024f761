"""What a worker asks of the cluster: tasks from a node, and heartbeats and outcomes to wherever the tasks are by now.

A task is found by its tenant, so it is found after its shard has moved or was split, too.
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

ITEM_BYTES = 512  # of an item on the wire besides its data, at a guess
ANSWER_S = 10.0  # for the answer to a poll, beyond its wait; and to heartbeats
BEATS_TOGETHER = 32  # heartbeats in one call
SLICE_S = 0.25  # of a wait for tasks, at one node after the other


@dataclass(frozen=True)
class HeldTask:
    """A task in a worker's hands, as far as the cluster needs to know."""

    task_id: str
    tenant: str


class TaskLeases:
    """On behalf of one worker."""

    def __init__(self, router: ShardRouter, worker: str) -> None:
        self._router = router
        self._worker = worker

    async def lease(self, address: str, group: str, tasks_max: int, *, wait_s: float) -> pb.LeaseTasksResponse:
        """From all shards of one node; asked once, because a lease whose answer is lost cannot be asked for again."""
        request = pb.LeaseTasksRequest(
            worker_id=self._worker, task_group=group, max_tasks=tasks_max, wait_ms=int(wait_s * 1000)
        )
        response: pb.LeaseTasksResponse = await self._router.call(address, LEASE, request, timeout_s=wait_s + ANSWER_S)
        return response

    async def lease_anywhere(self, group: str, tasks_max: int, *, wait_s: float) -> pb.LeaseTasksResponse:
        """From the first node that has any, for callers who poll now and then; nodes that are away are passed over."""
        clock = self._router.clock
        ends = clock.now() + wait_s
        while True:
            failure, addresses = Unavailable("no node serves shards just now"), (await self._router.read()).addresses()
            answered = 0
            for address in addresses:
                left_s = max(0.0, ends - clock.now())
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

    async def beat(self, held: Sequence[tuple[HeldTask, bytes | None]]) -> list[int | ArgosyError]:
        """With what progress there is to tell; answers with when each was cancelled, if it was. Tried once."""

        async def send(
            address: str, batch: Sequence[tuple[tuple[HeldTask, bytes | None], ShardInfo]]
        ) -> list[int | ArgosyError]:
            beats = [
                pb.Heartbeat(shard=place.id, task_id=each.task_id, progress=progress)
                for (each, progress), place in batch
            ]
            request = pb.HeartbeatsRequest(worker_id=self._worker, heartbeats=beats)
            response = await self._router.call(address, HEARTBEATS, request, timeout_s=ANSWER_S)
            return [
                error_from_item(each.error) if each.HasField("error") else each.cancelled_at_ms
                for each in response.results
            ]

        return await self._router.spread(
            held, lambda each: each[0].tenant, lambda _: BATCH_BYTES_MAX // BEATS_TOGETHER, send, attempts_max=1
        )

    async def report(self, outcomes: Sequence[tuple[HeldTask, TaskOutcome]]) -> list[ArgosyError | None]:
        async def send(
            address: str, batch: Sequence[tuple[tuple[HeldTask, TaskOutcome], ShardInfo]]
        ) -> list[ArgosyError | None]:
            items = [to_outcome(outcome, held.task_id, place.id) for (held, outcome), place in batch]
            request = pb.ReportOutcomesRequest(worker_id=self._worker, outcomes=items)
            response = await self._router.call(address, REPORT, request)
            return [error_from_item(result.error) if result.HasField("error") else None for result in response.results]

        return await self._router.spread(
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
