"""The shard: a range of tenants with their jobs, served by one writer.

`Shard` is the state (`core`) with the calls of `ports.ShardCalls` as its methods; each call lives in the module of its
subject and takes the shard as its first argument. A call checks its input, changes queue state and rows in one
transaction, and returns when that is durable. `ShardService` adds time: it runs what becomes due and lets workers wait
for tasks.

The clock of the rows (`now_ms`) may be set by tests and by operators, so no sleep is longer than `SLEEP_S_MAX`. The
service stops as soon as the shard has failed, and wakes everyone who waits.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from argosy.base.clock import Random
from argosy.base.errors import ArgosyError, Invalid, Throttled, Unavailable
from argosy.base.shared_calls import Coalescer
from argosy.jobs.model import NewJob, ShardOptions
from argosy.jobs.ports import StagedStore
from argosy.jobs.shard import cron_schedules, job_control, job_reader, lease_tasks, limit_checks
from argosy.jobs.shard.completion import settle_dependents
from argosy.jobs.shard.core import Core
from argosy.jobs.shard.enqueue import enqueue as enqueue_jobs
from argosy.jobs.shard.import_jobs import import_jobs as import_all
from argosy.jobs.shard.job_control import delete_expired, drop_claims
from argosy.jobs.shard.lease_tasks import Leased
from argosy.jobs.shard.recovery import load
from argosy.throttle.limits.ports import RateLimiter

WAITERS_MAX = 10_000  # workers that wait at a time; each is a future and an entry in a queue
WAIT_S_MAX = 300.0  # of one call
# The clock of the rows may be set forwards, by a test or an operator, without waking a sleeper.
SLEEP_S_MAX = 1.0
SLEEP_S_MIN = 0.001  # work that is due but cannot be done yet must not spin
RETRY_S = 0.25  # after an error of the store or the limiter


class Shard(Core):
    """Implements `ports.ShardCalls`. It serves once `open` has read the state from the rows."""

    open = load
    enqueue = enqueue_jobs
    lease = lease_tasks.lease
    lease_job = lease_tasks.lease_job
    heartbeat = lease_tasks.heartbeat
    report = lease_tasks.report
    report_refresh = limit_checks.report_refresh
    get = job_reader.get
    find = job_reader.find
    cancel = job_control.cancel
    restart = job_control.restart
    expedite = job_control.expedite
    delete = job_control.delete
    import_jobs = import_all
    drop_holders = job_control.drop_holders
    put_schedule = cron_schedules.put_schedule
    schedules = cron_schedules.schedules
    delete_schedule = cron_schedules.delete_schedule
    check_rates = limit_checks.check_rates

    def stop(self) -> None:
        """Rejects every call from now on; what was staged may still become durable."""
        self.fail(Unavailable("shard closed on this node; retry, it may have moved"))

    async def tick(self) -> None:
        """Runs a bounded part of all that is due.

        Rate checks are not part of it: they wait for a limiter that may be another process, and an unreachable
        limiter must not delay the expiry of task leases.
        """
        with self.begin_txn() as txn:  # also grants slots that an earlier transaction left over
            lease_tasks.expire(txn, self.random)
            limit_checks.queue_due(txn)
        await self.commit(txn)
        # After the leases: the jobs that end by expiry are handled in the same tick.
        await settle_dependents(self)
        await cron_schedules.run_due_schedules(self)
        # Spares an empty transaction in most ticks.
        if self.queues.stale_claims.next_at() is not None:
            await drop_claims(self)
        await delete_expired(self)

    def deadline(self) -> int | None:
        """When `tick` is next needed; 0 means now."""
        queues = self.queues
        if queues.ended or queues.slots.to_grant:
            return 0
        times = (
            queues.tickets.next_at(),
            queues.leases.next_at(),
            queues.stale_claims.next_at(),
            queues.cron_queue.next_at(),
            queues.expiry_at,
        )
        return min((at for at in times if at is not None), default=None)


class ShardService(Shard):
    """Serves from `start` to `close`."""

    def __init__(
        self,
        store: StagedStore,
        *,
        now_ms: Callable[[], int],
        new_id: Callable[[], str],
        random: Random,
        limiter: RateLimiter,
        options: ShardOptions | None = None,
    ) -> None:
        super().__init__(store, now_ms=now_ms, new_id=new_id, random=random, limiter=limiter, options=options)
        self._waiters: dict[str, deque[asyncio.Future[None]]] = {}
        self._waiting = 0
        self._ticks = WakeTimer()
        self._checks = WakeTimer()
        self._tasks: list[asyncio.Task[None]] = []
        # Single jobs of concurrent callers share a transaction: a call costs more than its rows.
        self._enqueue_one = Coalescer(super().enqueue)
        self.on_change = self._reschedule

    @property
    def waiting(self) -> int:
        """Workers that wait for a task."""
        return self._waiting

    async def start(self) -> None:
        """Opens the shard and starts its tasks."""
        await self.open()
        # Two tasks: a rate check that waits for its limiter must not delay the ticks.
        self._tasks = [asyncio.create_task(self._run_until_failed(step)) for step in (self._tick, self._check)]

    async def close(self) -> None:
        """Stops at once; a second call does nothing."""
        self.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def wait_stopped(self) -> None:
        """Returns when the shard has stopped; `failure` is the reason."""
        if self._tasks:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[str | ArgosyError]:
        # A batch has its own transaction already.
        if len(jobs) == 1:
            return [await self._enqueue_one(jobs[0])]
        return await super().enqueue(jobs)

    async def lease(self, task_group: str, worker: str, tasks_max: int, *, wait_s: float = 0.0) -> Leased:
        """Leases due tasks; if there are none, waits up to `wait_s` for the first."""
        if not 0 <= wait_s <= WAIT_S_MAX:
            raise Invalid(f"wait_s must lie between 0 and {WAIT_S_MAX}; got {wait_s}")
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        while True:
            # A wake-up is a hint only: another worker may have been faster, and then this one waits on.
            leased = await super().lease(task_group, worker, tasks_max)
            if any(leased) or loop.time() >= until:
                return leased
            await self.wait_due(task_group, until)

    # -- waiting for tasks --------------------------------------------------------------------------------------------

    async def wait_due(self, task_group: str, until: float) -> None:
        """Returns when a task of the group may be due, or at `until` on the event loop's clock."""
        if self._waiting >= WAITERS_MAX:
            raise Throttled(f"too many waiting workers: {WAITERS_MAX} at this shard", retry_after_s=SLEEP_S_MAX)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters = self._waiters.setdefault(task_group, deque())
        waiters.append(waiter)
        self._waiting += 1
        self._ticks.not_after(self._next_at(task_group))
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                # A wake-up is used once. This waiter was woken and cancelled in the same turn of the event loop, so
                # it passes the wake-up on; otherwise a task would wait although workers wait for it.
                self._wake(task_group)
            raise
        finally:
            self._waiting -= 1
            if waiter.cancelled() or not waiter.done():  # else `_wake` has removed it
                with suppress(ValueError):
                    waiters.remove(waiter)
            if not waiters and self._waiters.get(task_group) is waiters:
                del self._waiters[task_group]

    def _wake(self, task_group: str, tasks: int = 1) -> None:
        """Wakes as many waiters as there are tasks, in the order of arrival; waking all would be a thundering herd."""
        waiters = self._waiters.get(task_group)
        while waiters and tasks > 0:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                tasks -= 1

    def _wake_due(self, group: str, tasks: int = 1) -> None:
        """Wakes waiters of a group that has something due; otherwise sets the alarm."""
        at = self._next_at(group)
        if at is not None and at <= self.now_ms():
            self._wake(group, tasks)
        self._ticks.not_after(at)

    def _next_at(self, group: str) -> int | None:
        queues = self.queues
        refreshes = queues.refreshes.get(group)
        times = (queues.tasks.next_at(group), refreshes.next_at() if refreshes is not None else None)
        return min((at for at in times if at is not None), default=None)

    # -- time ---------------------------------------------------------------------------------------------------------

    def _reschedule(self) -> None:
        """After a transaction: work may have become due earlier than scheduled."""
        if self.failure is not None:
            for group, waiters in list(self._waiters.items()):
                self._wake(group, len(waiters))  # each finds the shard stopped, and its worker asks the next owner
            self._ticks.wake()
            self._checks.wake()
            return
        # Only groups that changed and have waiters: a shard may have thousands of groups.
        fresh = self.queues.tasks.fresh
        for group in fresh.keys() & self._waiters.keys():
            self._wake_due(group, max(1, fresh[group]))
        fresh.clear()
        self._ticks.not_after(self.deadline())
        self._checks.not_after(self.queues.checks.next_at())

    def _next_tick(self) -> int | None:
        times = [self.deadline(), *(self._next_at(group) for group in self._waiters)]
        return min((at for at in times if at is not None), default=None)

    async def _tick(self) -> None:
        await self.tick()
        # After the tick: what became due while it ran is handled by the next one at once.
        await self._ticks.wait(self._next_tick(), self.now_ms)
        for group in list(self._waiters):
            self._wake_due(group)

    async def _check(self) -> None:
        await self._checks.wait(self.queues.checks.next_at(), self.now_ms)
        await self.check_rates()

    async def _run_until_failed(self, step: Callable[[], Awaitable[None]]) -> None:
        while self.failure is None:
            try:
                await step()
            except ArgosyError:
                if self.failure is None:
                    await asyncio.sleep(RETRY_S)  # a read failed; what is due stays due
            except Exception as bug:
                # A bug in periodic work may have left half of a change in memory. Reopening rebuilds it from the rows.
                self.fail(Unavailable(f"periodic work of the shard failed: {bug!r}; the shard is reopened"))
                raise


class WakeTimer:
    """Sleeps until a time of the rows' clock, which may be moved earlier meanwhile."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self._at: int | None = None

    def wake(self) -> None:
        self._woken.set()

    def not_after(self, at: int | None) -> None:
        if at is not None and (self._at is None or at < self._at):
            self._woken.set()

    async def wait(self, at: int | None, now_ms: Callable[[], int]) -> None:
        self._woken.clear()
        self._at = at
        wait_s = SLEEP_S_MAX if at is None else min(SLEEP_S_MAX, max(SLEEP_S_MIN, (at - now_ms()) / 1000))
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._woken.wait()
        self._at = 0  # awake: no time is earlier
