"""Clients and workers of a simulated job broker. They report what they see to the checker, and know nothing else.

A client calls any node, follows hints and retries until it has a response. A worker counts its task lease from when it
sent the request, heartbeats, and stops by itself when the lease is over: only then can JOB-2 hold at all.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from argosy.base.clock import Random
from argosy.base.errors import ArgosyError, Conflict, NotFound, NotOwner, Unavailable
from argosy.jobs.cluster.node import JobsNode
from argosy.jobs.model import (
    ConcurrencyLimit,
    JobView,
    LeasedTask,
    Limit,
    NewJob,
    RateLimit,
    RetryPolicy,
    TaskCancelled,
    TaskFailure,
    TaskOutcome,
    TaskSuccess,
)
from argosy.jobs.ports import ShardCalls, ShardLeases
from argosy.sim.checkers.jobs import JobName, Run
from argosy.sim.jobs_world import JobsWorld

T = TypeVar("T")

GROUP = "g"
CALL_S_MAX = 2.0  # for one response
POLL_WAIT_S = 1.0
TASKS_MAX = 2  # of one poll
PAUSE_S = (0.05, 0.3)  # between two attempts
RETRY = RetryPolicy(retry_count=100, initial_interval_ms=100, max_interval_ms=1000)
RATE = RateLimit("sends", "all", 10, 1_000)
# Low, so that jobs wait for each other.
HEIGHTS = {"one": 1, "two": 2}
ONE, TWO = (ConcurrencyLimit(key, height) for key, height in HEIGHTS.items())
CHAINS: list[tuple[Limit, ...]] = [(), (ONE,), (TWO,), (RATE,), (TWO, RATE)]


@dataclass(frozen=True)
class LoadPlan:
    """How many jobs there are, and how often workers fail."""

    jobs: int
    tenants: int
    workers: int
    mean_s: float  # between two jobs of a client
    longest_s: float  # that a job runs
    failing: float = 0.1  # chance that an attempt fails
    crashing: float = 0.03  # chance that a worker crashes at a heartbeat
    cancelling: float = 0.05  # chance that the client cancels the job


class NoResponse(Exception):
    """No node responded for too long, which is a liveness violation."""


class JobsLoad:
    """The clients and workers of one world."""

    def __init__(self, world: JobsWorld, plan: LoadPlan, random: Random) -> None:
        self._world = world
        self._plan = plan
        self._random = random
        self._lease_s = world.shared_state.settings.lease_ms / 1000

    # -- clients ----------------------------------------------------------------------------------------------------

    async def enqueue_all(self) -> None:
        for number in range(self._plan.jobs):
            job = self._draw_job(number)
            await self._enqueue(job)
            if self._random.random() < self._plan.cancelling:
                await self._cancel((job.tenant, job.id))
            await asyncio.sleep(self._random.uniform(0.0, 2.0 * self._plan.mean_s))

    def _draw_job(self, number: int) -> NewJob:
        tenant = f"t{self._random.randrange(0, self._plan.tenants)}"
        return NewJob(GROUP, tenant=tenant, id=f"j{number}", retry=RETRY, limits=self._random.choice(CHAINS))

    async def _enqueue(self, job: NewJob) -> None:
        async def put(shard: ShardCalls) -> None:
            (answer,) = await shard.enqueue([job])
            # A Conflict is an earlier attempt of this client, whose response was lost.
            if isinstance(answer, ArgosyError) and not isinstance(answer, Conflict):
                raise answer

        await self._call_shard_of(job.tenant, put)
        self._world.trace.add(f"{job.id} of {job.tenant} is acknowledged")
        self._world.checker.on_enqueued((job.tenant, job.id))

    async def _cancel(self, job: JobName) -> None:
        try:
            await self._call_shard_of(job[0], lambda shard: shard.cancel(*job))
        except Conflict:
            pass  # it is final, or an earlier attempt arrived
        except NotFound:
            self._world.checker.on_not_found(job)

    async def read_job(self, job: JobName) -> JobView | None:
        try:
            view = await self._call_shard_of(job[0], lambda shard: shard.get(*job))
        except NotFound:
            self._world.checker.on_not_found(job)
            return None
        if view.state.status.is_final:
            self._world.checker.on_status(job, view.state.status)
        return view

    async def wait_all_final(self, within_s: float) -> bool:
        """Whether every acknowledged job becomes final in time, as its shard reports it."""
        deadline = self._world.now() + within_s
        for job in list(self._world.checker.acknowledged):
            while (view := await self.read_job(job)) is not None and not view.state.status.is_final:
                if self._world.now() > deadline:
                    state = f"{view.state.status.name} at attempt {view.state.attempt}"
                    self._world.violations.add(
                        "LIVE", f"{'/'.join(job)} is {state} after {within_s:.1f} s without faults"
                    )
                    return False
                await asyncio.sleep(0.5)
        return True

    async def _call_shard_of(self, tenant: str, do: Callable[[ShardCalls], Awaitable[T]], timeout_s: float = 90.0) -> T:
        # Any node first and then its hint, as a client whose shard map is old.
        hint: str | None = None
        deadline = self._world.now() + timeout_s

        async def call_shard(node: JobsNode) -> T:
            return await do(node.shard(node.shard_of(tenant)))

        while True:
            machine = self._world.machine(hint) or self._random.choice(self._world.machines())
            hint = None
            try:
                return await machine.call(call_shard, timeout_s=CALL_S_MAX)
            except NotOwner as elsewhere:
                hint = elsewhere.hint
            # Another node may respond; the deadline below bounds the attempts.
            except Unavailable:
                pass
            if self._world.now() > deadline:
                raise NoResponse(f"no node has responded for tenant {tenant} for {timeout_s:g} s")
            await asyncio.sleep(self._random.uniform(*PAUSE_S))

    # -- workers ----------------------------------------------------------------------------------------------------

    async def work(self, worker: str) -> None:
        async def poll(node: JobsNode) -> list[ShardLeases]:
            return await node.lease(GROUP, worker, TASKS_MAX, wait_s=POLL_WAIT_S)

        while True:
            machine, sent_at = self._random.choice(self._world.machines()), self._world.now()
            try:
                leases = await machine.call(poll, timeout_s=CALL_S_MAX + POLL_WAIT_S)
            except (Unavailable, NotOwner):
                await asyncio.sleep(self._random.uniform(*PAUSE_S))
                continue
            tasks = [task for each in leases for task in each.tasks]
            await asyncio.gather(*(self._run(worker, task, sent_at + self._lease_s) for task in tasks))

    async def _run(self, worker: str, task: LeasedTask, until: float) -> None:
        job = (task.job.tenant, task.job.id)
        limit = next((each.key for each in task.job.limits if isinstance(each, ConcurrencyLimit)), None)
        run = Run(job, task.task.id, worker, until, None if limit is None else (job[0], limit))
        if until <= self._world.now():
            return  # the response came too late: the lease may be over
        self._world.trace.add(f"{worker} runs {'/'.join(job)} as {run.task}")
        self._world.checker.on_run_started(run)
        outcome = await self._outcome(run)
        self._world.checker.on_run_ended(run)
        self._world.trace.add(f"{worker} ends {run.task}: {type(outcome).__name__}")
        if outcome is not None and await self._report(run, outcome) and isinstance(outcome, TaskSuccess):
            self._world.checker.on_reported(job)

    async def _outcome(self, run: Run) -> TaskOutcome | None:
        """Work and heartbeat; None if the worker crashes or its lease is over."""
        done_at = self._world.now() + self._random.uniform(0.05, self._plan.longest_s)
        while (now := self._world.now()) < done_at:
            # Never beyond the lease: a worker stops by itself when it is over (JOB-2).
            await asyncio.sleep(min(done_at - now, self._lease_s / 3, run.until - now))
            if self._world.now() >= run.until or self._random.random() < self._plan.crashing:
                return None
            if self._world.now() >= done_at:
                break
            try:
                if await self._heartbeat(run):
                    return TaskCancelled()
            except (Conflict, NotFound):
                return None  # the broker has ended the lease; another worker may have the task by now
            if self._world.now() >= run.until:
                return None
        return TaskFailure("X") if self._random.random() < self._plan.failing else TaskSuccess(b"ok")

    async def _heartbeat(self, run: Run) -> bool:
        """Whether the job was cancelled. Without a response the lease is not extended."""
        sent_at = self._world.now()

        async def beat(node: JobsNode) -> int:
            status = await node.shard(node.shard_of(run.job[0])).heartbeat(run.worker, run.task)
            return status.cancelled_at

        machine = self._random.choice(self._world.machines())
        try:
            cancelled_at = await machine.call(beat, timeout_s=min(CALL_S_MAX, max(0.01, run.until - sent_at)))
        except NotOwner as elsewhere:
            owner = self._world.machine(elsewhere.hint)
            if owner is None:
                return False
            sent_at = self._world.now()
            try:
                cancelled_at = await owner.call(beat, timeout_s=min(CALL_S_MAX, max(0.01, run.until - sent_at)))
            except (NotOwner, Unavailable):
                return False
        except Unavailable:
            return False
        # From when the heartbeat was sent: the broker counts from its arrival, which is later.
        run.until = max(run.until, sent_at + self._lease_s)
        return cancelled_at > 0

    async def _report(self, run: Run, outcome: TaskOutcome) -> bool:
        async def report(shard: ShardCalls) -> ArgosyError | None:
            (answer,) = await shard.report([(run.task, outcome)], worker=run.worker)
            if isinstance(answer, Unavailable | NotOwner):
                raise answer
            return answer

        return await self._call_shard_of(run.job[0], report) is None
