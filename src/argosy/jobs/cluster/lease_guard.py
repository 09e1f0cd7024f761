"""Admits calls to a shard only while this node holds the shard's lease.

The check compares the lease's expiry with the local clock: no call waits for the coordination store, and a node that
cannot renew stops serving before another one can hold the lease (OWN-4). The guard also rejects tenants whose hash lies
outside the shard's range: a client with an old shard map must not enqueue into the wrong shard after a split.

Writes need no second check, because the store fences an old writer: what it stages never becomes durable. A read has
nothing that fences it, and SlateDB notices an old writer only up to a second later; so a read counts only if this node
still holds the lease when it ends.
"""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from argosy.base.errors import ArgosyError, Conflict, Fenced, NotOwner
from argosy.jobs.cluster.shard_map import HashRange, check_tenant_name
from argosy.jobs.model import ImportedJob, NewJob, Schedule
from argosy.jobs.ports import ShardCalls

P = ParamSpec("P")
R = TypeVar("R")

Call = Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]


class LeaseGuard:
    """Decides whether a call may enter the shard."""

    def __init__(self, shard_id: str, range_: HashRange, check: Callable[[], None]) -> None:
        self._shard_id = shard_id
        self._range = range_
        self._closed: ArgosyError | None = None
        self.check_lease = check  # raises unless this node holds the shard now
        self.on_fenced: Callable[[], None] = lambda: None  # another node has opened the shard

    def close(self, why: ArgosyError) -> None:
        """Rejects new calls from now on; calls in progress may finish."""
        self._closed = why

    @property
    def is_closed(self) -> bool:
        return self._closed is not None

    def check(self) -> None:
        if self._closed is not None:
            raise type(self._closed)(str(self._closed))  # one per caller: a shared one would collect tracebacks
        self.check_lease()

    def admit(self, tenants: Iterable[str]) -> None:
        """Raises unless the lease is held and all tenants belong to the shard."""
        self.check()
        for tenant in tenants:
            check_tenant_name(tenant)
            if not self._range.has(tenant):
                # The end of the text is what clients of silo.v1 recognize as an old map (`STALE_MAP` in the SDK).
                raise Conflict(
                    f"tenant '{tenant}' is not within shard {self._shard_id} range {self._range}; "
                    "refresh topology and retry"
                )

    def report_fenced(self) -> NotOwner:
        """Reports that another writer has the shard; returns the error for the caller."""
        self.on_fenced()
        return NotOwner(f"shard {self._shard_id} has been taken over by another node: refresh and retry")


def _no_tenant(*_: object, **__: object) -> Iterable[str]:
    """For calls of workers: a task id or a group names no tenant."""
    return ()


def _one_tenant(tenant: str, *_: object, **__: object) -> Iterable[str]:
    return (tenant,)


def _tenants_of_jobs(jobs: Sequence[NewJob]) -> Iterable[str]:
    # Each tenant once: a batch is mostly of one, and a hash costs more than a dict.
    return dict.fromkeys([job.tenant for job in jobs])


def _tenants_of_imports(jobs: Sequence[ImportedJob]) -> Iterable[str]:
    return dict.fromkeys([each.job.tenant for each in jobs])


def _tenant_of_schedule(schedule: Schedule) -> Iterable[str]:
    return (schedule.tenant,)


def _guard(call: Call[P, R], tenants: Callable[..., Iterable[str]], *, is_read: bool = False) -> Call[P, R]:
    """The call behind the guard; `tenants` returns the tenants of its arguments."""
    name = call.__name__

    @wraps(call)
    async def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        guard = self.guard
        # Before the call only: a write that is admitted and then loses the lease is stopped by the store's fencing.
        guard.admit(tenants(*args, **kwargs))
        try:
            # By name, so that a subclass's method is called (`ShardService` coalesces and waits).
            result: R = await getattr(self.shard, name)(*args, **kwargs)
        except Fenced as why:
            # The caller gets NotOwner instead of Fenced, because that is what it should act on: find the new owner.
            raise guard.report_fenced() from why
        # Once more after the read: another node may have taken over and changed the rows meanwhile.
        if is_read:
            guard.check_lease()
        return result

    return run


class GuardedShard:
    """Implements `ShardCalls`: the shard's own calls behind its guard."""

    def __init__(self, guard: LeaseGuard, shard: ShardCalls) -> None:
        self.guard = guard
        self.shard = shard

    enqueue = _guard(ShardCalls.enqueue, _tenants_of_jobs)
    lease = _guard(ShardCalls.lease, _no_tenant)
    lease_job = _guard(ShardCalls.lease_job, _one_tenant)
    heartbeat = _guard(ShardCalls.heartbeat, _no_tenant)
    report = _guard(ShardCalls.report, _no_tenant)
    report_refresh = _guard(ShardCalls.report_refresh, _no_tenant)
    get = _guard(ShardCalls.get, _one_tenant, is_read=True)
    find = _guard(ShardCalls.find, _one_tenant, is_read=True)
    cancel = _guard(ShardCalls.cancel, _one_tenant)
    restart = _guard(ShardCalls.restart, _one_tenant)
    expedite = _guard(ShardCalls.expedite, _one_tenant)
    delete = _guard(ShardCalls.delete, _one_tenant)
    import_jobs = _guard(ShardCalls.import_jobs, _tenants_of_imports)
    drop_holders = _guard(ShardCalls.drop_holders, _one_tenant)
    put_schedule = _guard(ShardCalls.put_schedule, _tenant_of_schedule)
    schedules = _guard(ShardCalls.schedules, _one_tenant, is_read=True)
    delete_schedule = _guard(ShardCalls.delete_schedule, _one_tenant)
