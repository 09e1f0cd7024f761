"""Control tasks: one public number for the tasks that a fan-out has started on many nodes.

The number is allocated first and never twice; it orders the list, newest first, without a clock. A task that has ended
never changes again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from argosy.base.errors import Conflict, Invalid
from argosy.registry.crud import BATCH_MAX, check_key, check_limit, put_row, require
from argosy.registry.rows import ControlTask, TaskStatus
from argosy.registry.tables import TASK_SEQUENCE, TASKS
from argosy.registry.transaction import (
    CountRows,
    CountUp,
    Delete,
    Find,
    Get,
    Now,
    TransactionBody,
    commit,
    get,
    now,
    read_many,
    transaction,
)

LIMIT_MAX = 1000  # tasks of one page
UIDS_MAX = 100  # numbers one filter may name
INDEXES_MAX = 16  # indexes one filter may name
# A filter that matches nothing must not read the whole table in one transaction.
SCAN_MAX = 5000  # tasks that one page reads; a page that ends early says where the next one starts
_SCAN = 500
_ENDED = tuple(status for status in TaskStatus if status.is_terminal)


@dataclass(frozen=True)
class TaskFilter:
    """Values within a filter are alternatives, and all filters must match. None matches everything."""

    statuses: Collection[TaskStatus] | None = None
    index_uids: Collection[str] | None = None
    types: Collection[str] | None = None
    uids: Collection[int] | None = None
    created_after: int | None = None
    created_before: int | None = None

    def __post_init__(self) -> None:
        if self.uids is not None and len(self.uids) > UIDS_MAX:
            raise Invalid(f"a filter names at most {UIDS_MAX} tasks, not {len(self.uids)}")
        if self.index_uids is not None and len(self.index_uids) > INDEXES_MAX:
            raise Invalid(f"a filter names at most {INDEXES_MAX} indexes, not {len(self.index_uids)}")

    def passes(self, task: ControlTask) -> bool:
        return (
            (self.statuses is None or task.status in self.statuses)
            and (self.index_uids is None or task.index_uid in self.index_uids)
            and (self.types is None or task.task_type in self.types)
            and (self.uids is None or task.task_uid in self.uids)
            and (self.created_after is None or task.created_at > self.created_after)
            and (self.created_before is None or task.created_at < self.created_before)
        )


@dataclass(frozen=True)
class TaskPage:
    tasks: tuple[ControlTask, ...]
    next_uid: int | None  # where the next page starts; None at the end


def aggregate(statuses: Collection[TaskStatus]) -> TaskStatus:
    """The status of a task from those of its nodes.

    One failure is enough. A task that some nodes finished and others cancelled has failed, too: the nodes now differ.
    """
    for status in (TaskStatus.FAILED, TaskStatus.PROCESSING, TaskStatus.ENQUEUED):
        if status in statuses:
            return status
    if not statuses:
        return TaskStatus.ENQUEUED
    # Only ended statuses are left here: succeeded or cancelled.
    one = set(statuses)
    return one.pop() if len(one) == 1 else TaskStatus.FAILED


@transaction
def next_uid() -> TransactionBody[int]:
    """A number for a new task. It is allocated in a commit of its own, because the row must contain it. The number of a
    task that is never stored is skipped."""
    done = yield from commit(CountUp(TASK_SEQUENCE))
    return done.counts[0][0]


@transaction
def insert(
    task_id: str,
    task_uid: int,
    *,
    status: TaskStatus = TaskStatus.ENQUEUED,
    node_tasks: Mapping[str, str] | None = None,
    index_uid: str | None = None,
    task_type: str | None = None,
) -> TransactionBody[ControlTask]:
    """Stores a new task under a number from `next_uid`. Raises `Conflict` if the id exists."""
    check_key(TASKS, (task_id,))
    if task_uid < 1:
        raise Invalid(f"a task's number comes from next_uid and is at least 1, not {task_uid}")
    clock, existing = yield from read_many(Now(), Get(TASKS, (task_id,)))
    if existing is not None:
        raise Conflict(f"task {task_id!r} already exists, as number {existing.task_uid}")
    task = ControlTask(task_id, task_uid, clock, status, node_tasks or {}, index_uid=index_uid, task_type=task_type)
    return (yield from put_row(TASKS, _with_status(task, clock)))


@transaction
def set_status(task_id: str, status: TaskStatus, error: str | None = None) -> TransactionBody[ControlTask]:
    """Changes a task's status and returns the task. A task that has ended is returned unchanged."""
    clock = yield from now()
    task = yield from require(TASKS, task_id)
    if task.status.is_terminal:
        return task
    # An error stays when the next status has none: it explains the outcome.
    moved = replace(task, status=TaskStatus(status), error=error if error is not None else task.error)
    return (yield from put_row(TASKS, _with_status(moved, clock)))


@transaction
def set_node_task(task_id: str, node: str, node_task: str, error: str | None = None) -> TransactionBody[ControlTask]:
    """Records a node's own task and its error. Nodes that answer at the same time do not overwrite each other: one of
    the transactions loses the race and runs again."""
    if not node or not node_task:
        raise Invalid(f"a node and its task need names, not {node!r} and {node_task!r}")
    task = yield from require(TASKS, task_id)
    # The row is read and written in one transaction, so two nodes that report at once do not overwrite each other.
    errors = task.node_errors if error is None else {**task.node_errors, node: error}
    updated = replace(task, node_tasks={**task.node_tasks, node: node_task}, node_errors=errors)
    return (yield from put_row(TASKS, updated))


@transaction
def page(where: TaskFilter | None = None, *, from_uid: int | None = None, limit: int = 20) -> TransactionBody[TaskPage]:
    """The tasks that pass a filter, newest first, from a number on."""
    check_limit(limit, LIMIT_MAX)
    where = where or TaskFilter()
    if where.uids is not None:
        return (yield from _lookup(where, where.uids, from_uid, limit))
    # A filter with an empty list matches nothing; without it, `read_many` would have nothing to read.
    if (sources := _sources(where)) == []:
        return TaskPage((), None)
    passed: list[ControlTask] = []
    after = None if from_uid is None else from_uid + 1
    for _ in range(SCAN_MAX // _SCAN):
        answers = yield from read_many(*(replace(source, after=after) for source in sources))
        # Each source is in order, so the first _SCAN of their union are complete up to its last one; the rest is read
        # again.
        scanned = sorted({task.task_id: task for rows in answers for task in rows}.values(), key=_newest)[:_SCAN]
        passed += filter(where.passes, scanned)
        # One more than the page, because its number is where the next page starts.
        if len(passed) > limit:
            return TaskPage(tuple(passed[:limit]), passed[limit].task_uid)
        if len(scanned) < _SCAN:
            return TaskPage(tuple(passed), None)
        after = scanned[-1].task_uid
    return TaskPage(tuple(passed), None if after is None else after - 1)


@transaction
def count(status: TaskStatus | None = None) -> TransactionBody[int]:
    """Number of tasks, in a status or in all."""
    read = CountRows(TASKS, "all") if status is None else CountRows(TASKS, "status", (status,))
    (number,) = yield from read_many(read)
    counted: int = number
    return counted


@transaction
def list_ended(before: int, *, after_uid: int = 0, limit: int = BATCH_MAX) -> TransactionBody[list[ControlTask]]:
    """Tasks that have ended and were created before a time, oldest first; for pruners that divide the work."""
    check_limit(limit)
    answers = yield from read_many(
        *(Find(TASKS, "status", (status,), after=after_uid, limit=limit) for status in _ENDED)
    )
    oldest = sorted((task for rows in answers for task in rows), key=lambda task: task.task_uid)
    return [task for task in oldest[:limit] if task.created_at < before]


@transaction
def prune(before: int, *, limit: int = BATCH_MAX) -> TransactionBody[int]:
    """Deletes a batch of tasks that have ended and were created before a time; call it until it returns 0."""
    ended = yield from list_ended(before, limit=check_limit(limit, BATCH_MAX))
    if ended:
        yield from commit(*(Delete(TASKS, task) for task in ended))
    return len(ended)


@transaction
def delete_many(task_ids: Sequence[str]) -> TransactionBody[int]:
    """Deletes those of the tasks that exist and have ended, and returns their number."""
    if len(task_ids) > BATCH_MAX:
        raise Invalid(f"at most {BATCH_MAX} tasks are deleted at once, not {len(task_ids)}")
    check_key(TASKS, tuple(task_ids))
    if not task_ids:
        return 0
    tasks = yield from read_many(*(Get(TASKS, (task_id,)) for task_id in dict.fromkeys(task_ids)))
    ended = [task for task in tasks if task is not None and task.status.is_terminal]
    if ended:
        yield from commit(*(Delete(TASKS, task) for task in ended))
    return len(ended)


@transaction
def read(task_id: str) -> TransactionBody[ControlTask | None]:
    check_key(TASKS, (task_id,))
    return (yield from get(TASKS, task_id))


def _newest(task: ControlTask) -> int:
    return -task.task_uid


def _sources(where: TaskFilter) -> list[Find]:
    """The finds that together return every task that can pass, each newest first."""
    # By index first: usually it is the narrowest, and other filters are applied to the rows that were read.
    chosen: list[tuple[str, tuple[str, ...]]] = [("all", ())]
    if where.index_uids is not None:
        chosen = [("index", (uid,)) for uid in where.index_uids]
    elif where.statuses is not None:
        chosen = [("status", (status,)) for status in where.statuses]
    return [Find(TASKS, name, equals, limit=_SCAN, is_newest_first=True) for name, equals in chosen]


def _lookup(where: TaskFilter, uids: Collection[int], from_uid: int | None, limit: int) -> TransactionBody[TaskPage]:
    wanted = sorted({uid for uid in uids if from_uid is None or uid <= from_uid}, reverse=True)
    if not wanted:
        return TaskPage((), None)
    answers = yield from read_many(*(Find(TASKS, "all", after=uid - 1, until=uid, limit=1) for uid in wanted))
    passed = [task for rows in answers for task in rows if where.passes(task)]
    return TaskPage(tuple(passed[:limit]), passed[limit].task_uid if len(passed) > limit else None)


def _with_status(task: ControlTask, clock: int) -> ControlTask:
    """The task with the times of its start and its end, as its status requires."""
    if task.status is not TaskStatus.ENQUEUED and task.started_at is None:
        task = replace(task, started_at=clock)
    return replace(task, finished_at=clock) if task.status.is_terminal else task
