"""One transaction of a shard: queue state and one batch of rows change together, without an await in between.

A shard has one writer and its transactions run on one event loop, so they need no locks and never conflict in the
store. What remains is the gap between reading rows, which awaits, and acting on them: all rows of a job are written
here, and `ChangeTracker` records which jobs changed, so that a call whose jobs changed in the gap reads again.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from argosy.base.kv import Batch
from argosy.jobs import keys
from argosy.jobs.model import (
    Attempt,
    FloatingState,
    Job,
    JobState,
    JobStatus,
    QueuedTask,
    RefreshLimit,
    RunAttempt,
    ShardOptions,
    SlotRequest,
    TaskLease,
)
from argosy.jobs.shard.queue import entry_of
from argosy.jobs.shard.queue_state import QueueState, Slot
from argosy.jobs.shard.rows import encode, request_key, status_at, status_key, task_key

JobKey = tuple[str, str]  # tenant and job


class ChangeTracker:
    def __init__(self) -> None:
        self._readers: dict[JobKey, list[set[JobKey]]] = {}

    @contextmanager
    def track(self, jobs: Iterable[JobKey]) -> Iterator[set[JobKey]]:
        """Yields a set that collects those of the jobs that change while the block runs."""
        changed: set[JobKey] = set()
        watched = list(dict.fromkeys(jobs))
        for job in watched:
            self._readers.setdefault(job, []).append(changed)
        try:
            yield changed
        finally:
            for job in watched:
                self._leave(job, changed)

    def touch(self, tenant: str, job: str) -> None:
        if self._readers:  # mostly there is no reader, and then a write costs one test
            for changed in self._readers.get((tenant, job), ()):
                changed.add((tenant, job))

    def _leave(self, job: JobKey, changed: set[JobKey]) -> None:
        readers = self._readers[job]
        # By identity: the sets of two readers may be equal.
        del readers[next(at for at, each in enumerate(readers) if each is changed)]
        if not readers:
            del self._readers[job]


StatusIndexKey = tuple[JobStatus, int]  # key of a job in the status index


class ShardTxn:
    def __init__(
        self, queues: QueueState, watches: ChangeTracker, options: ShardOptions, new_id: Callable[[], str], now: int
    ) -> None:
        self.queues = queues
        self.options = options
        self.new_id = new_id
        self.now = now
        self.batch = Batch()
        self._watches = watches

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def put_job(self, job: Job) -> None:
        self.batch.put(keys.key(keys.JOB, job.tenant, job.id), encode(job))
        self._watches.touch(job.tenant, job.id)

    def put_state(self, tenant: str, job: str, was: StatusIndexKey | None, state: JobState) -> None:
        """Writes the state row and its index entry; `was` is the previous index key."""
        is_final = state.status.is_final
        # Two kinds of row, so that recovery scans unfinished jobs only; a job that ends or restarts changes its kind.
        self.batch.put(keys.key(keys.DONE if is_final else keys.LIVE, tenant, job), encode(state))
        # The index is ordered by the latest change, so its entry moves with nearly every state.
        index_key = (state.status, status_at(state))
        if was is not None and was != index_key:
            self.batch.delete(status_key(tenant, was[0], was[1], job))
        if was is not None and was[0].is_final != is_final:
            self.batch.delete(keys.key(keys.LIVE if is_final else keys.DONE, tenant, job))
        if was != index_key:
            self.batch.put(status_key(tenant, *index_key, job), b"")
        self._watches.touch(tenant, job)

    def touch(self, tenant: str, job: str) -> None:
        """Records a change to rows of the job that are not written here."""
        self._watches.touch(tenant, job)

    def put_attempt(self, tenant: str, job: str, attempt: Attempt) -> None:
        self.batch.put(keys.key(keys.ATTEMPT, tenant, job, attempt.number), encode(attempt))

    # -- tasks --------------------------------------------------------------------------------------------------------

    def queue(self, queued: QueuedTask) -> None:
        task = queued.task
        self.batch.put(_row_key(queued), encode(queued))
        if isinstance(task, RunAttempt):
            self.queues.tasks.push(queued.task_group, task.tenant, entry_of(queued, task))
        else:
            self.queues.delay_queue_of(queued).push(queued.start_at, task.id, queued)
            if isinstance(task, RefreshLimit):
                self.queues.tasks.fresh.setdefault(queued.task_group, 0)
        if not isinstance(task, RefreshLimit):
            self._watches.touch(task.tenant, task.job)

    def unqueue(self, queued: QueuedTask) -> None:
        task = queued.task
        self.batch.delete(_row_key(queued))
        if isinstance(task, RunAttempt):
            self.queues.tasks.remove(task.id, queued.start_at)
        else:
            self.queues.delay_queue_of(queued).remove(task.id)
        if not isinstance(task, RefreshLimit):
            self._watches.touch(task.tenant, task.job)

    def put_lease(self, lease: TaskLease) -> None:
        self.batch.put(keys.key(keys.LEASE, lease.task.id), encode(lease))

    def delete_lease(self, task_id: str) -> None:
        self.batch.delete(keys.key(keys.LEASE, task_id))

    # -- slots --------------------------------------------------------------------------------------------------------

    def hold(self, slot: Slot, task_id: str) -> None:
        self.queues.slots.hold(slot, task_id, self.now)
        self.batch.put(keys.key(keys.HOLDER, *slot, task_id), encode(self.now))

    def release(self, tenant: str, held: tuple[str, ...], task_id: str) -> None:
        for key in held:
            if self.queues.slots.release((tenant, key), task_id):
                self.batch.delete(keys.key(keys.HOLDER, tenant, key, task_id))

    def park(self, request: SlotRequest) -> None:
        self.queues.slots.park(request)
        self.batch.put(request_key(request), encode(request))
        self._watches.touch(request.tenant, request.job)

    def unpark(self, slot: Slot, job: str, attempt: int) -> SlotRequest | None:
        request = self.queues.slots.unpark(slot, job, attempt)
        if request is not None:
            self.batch.delete(request_key(request))
            self._watches.touch(slot[0], job)
        return request

    def put_floating(self, slot: Slot, state: FloatingState) -> None:
        self.queues.floating[slot] = state
        self.batch.put(keys.key(keys.FLOATING, *slot), encode(state))


def _row_key(queued: QueuedTask) -> bytes:
    task = queued.task
    if isinstance(task, RefreshLimit):
        return task_key(queued, job=task.key, attempt=0)  # attempts of jobs start at 1, so the keys never collide
    return task_key(queued, job=task.job, attempt=task.attempt)
