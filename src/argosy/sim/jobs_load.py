"""Clients and workers of a simulated job broker. What they see goes to the checker; they know nothing else.

A client asks any node, follows hints and tries again until it has an answer. A worker counts its lease from when it
asked, heartbeats, and stops by itself when the lease is over.
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
CALL_S_MAX = 2.0  # for one answer
POLL_WAIT_S = 1.0
TASKS_MAX = 2  # of one poll
PAUSE_S = (0.05, 0.3)  # between two tries
RETRY = RetryPolicy(retry_count=100, initial_interval_ms=100, max_interval_ms=1000)
RATE = RateLimit("sends", "all", 10, 1_000)
HEIGHTS = {"one": 1, "two": 2}
ONE, TWO = (ConcurrencyLimit(key, height) for key, height in HEIGHTS.items())
CHAINS: list[tuple[Limit, ...]] = [(), (ONE,), (TWO,), (RATE,), (TWO, RATE)]


@dataclass(frozen=True)
class LoadPlan:
    """How much is asked for, and how badly workers behave."""

    jobs: int
    tenants: int
    workers: int
    mean_s: float  # between two jobs of a client
    longest_s: float  # a job runs at most
    failing: float = 0.1  # chances: that an attempt fails,
    crashing: float = 0.03  # that its worker does,
    cancelling: float = 0.05  # and that its client changes its mind


class NoAnswer(Exception):
    """Nobody answered for too long: the world is not as it should be."""


class JobsLoad:
    """The clients and workers of one world."""

    def __init__(self, world: JobsWorld, plan: LoadPlan, random: Random) -> None:
        self._world = world
        self._plan = plan
        self._random = random
        self._lease_s = world.plane.settings.lease_ms / 1000

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
            # A Conflict is our own earlier try, whose answer was lost.
            if isinstance(answer, ArgosyError) and not isinstance(answer, Conflict):
                raise answer

        await self._at_shard_of(job.tenant, put)
        self._world.trace.add(f"{job.id} of {job.tenant} is acknowledged")
        self._world.checker.on_enqueued((job.tenant, job.id))

    async def _cancel(self, job: JobName) -> None:
        try:
            await self._at_shard_of(job[0], lambda shard: shard.cancel(*job))
        except Conflict:
            pass  # it is done, or our earlier try was heard
        except NotFound:
            self._world.checker.not_found(job)

    async def look(self, job: JobName) -> JobView | None:
        try:
            view = await self._at_shard_of(job[0], lambda shard: shard.get(*job))
        except NotFound:
            self._world.checker.not_found(job)
            return None
        if view.state.status.is_final:
            self._world.checker.seen(job, view.state.status)
        return view

    async def all_final(self, within_s: float) -> bool:
        """Whether every acknowledged job comes to its end in time; asks its shard, not a friend."""
        deadline = self._world.now() + within_s
        for job in list(self._world.checker.acknowledged):
            while (view := await self.look(job)) is not None and not view.state.status.is_final:
                if self._world.now() > deadline:
                    state = f"{view.state.status.name} at attempt {view.state.attempt}"
                    self._world.findings.add(
                        "LIVE", f"{'/'.join(job)} is {state} after {within_s:.1f} s without faults"
                    )
                    return False
                await asyncio.sleep(0.5)
        return True

    async def _at_shard_of(self, tenant: str, do: Callable[[ShardCalls], Awaitable[T]], patience_s: float = 90.0) -> T:
        hint: str | None = None
        deadline = self._world.now() + patience_s

        async def ask(node: JobsNode) -> T:
            return await do(node.shard(node.shard_of(tenant)))

        while True:
            machine = self._world.machine(hint) or self._random.choice(self._world.machines())
            hint = None
            try:
                return await machine.call(ask, timeout_s=CALL_S_MAX)
            except NotOwner as elsewhere:
                hint = elsewhere.hint
            except Unavailable:
                pass
            if self._world.now() > deadline:
                raise NoAnswer(f"nobody has answered for tenant {tenant} for {patience_s:g} s")
            await asyncio.sleep(self._random.uniform(*PAUSE_S))

    # -- workers ----------------------------------------------------------------------------------------------------

    async def work(self, worker: str) -> None:
        async def poll(node: JobsNode) -> list[ShardLeases]:
            return await node.lease(GROUP, worker, TASKS_MAX, wait_s=POLL_WAIT_S)

        while True:
            machine, asked_at = self._random.choice(self._world.machines()), self._world.now()
            try:
                given = await machine.call(poll, timeout_s=CALL_S_MAX + POLL_WAIT_S)
            except (Unavailable, NotOwner):
                await asyncio.sleep(self._random.uniform(*PAUSE_S))
                continue
            tasks = [task for each in given for task in each.tasks]
            await asyncio.gather(*(self._run(worker, task, asked_at + self._lease_s) for task in tasks))

    async def _run(self, worker: str, task: LeasedTask, until: float) -> None:
        job = (task.job.tenant, task.job.id)
        limit = next((each.key for each in task.job.limits if isinstance(each, ConcurrencyLimit)), None)
        run = Run(job, task.task.id, worker, until, None if limit is None else (job[0], limit))
        if until <= self._world.now():
            return  # the answer came too late to be of use
        self._world.trace.add(f"{worker} runs {'/'.join(job)} as {run.task}")
        self._world.checker.began(run)
        outcome = await self._outcome(run)
        self._world.checker.on_run_ended(run)
        self._world.trace.add(f"{worker} ends {run.task}: {type(outcome).__name__}")
        if outcome is not None and await self._report(run, outcome) and isinstance(outcome, TaskSuccess):
            self._world.checker.on_reported(job)

    async def _outcome(self, run: Run) -> TaskOutcome | None:
        """Works, and heartbeats meanwhile; None if the worker crashes or its lease is over."""
        done_at = self._world.now() + self._random.uniform(0.05, self._plan.longest_s)
        while (now := self._world.now()) < done_at:
            await asyncio.sleep(min(done_at - now, self._lease_s / 3, run.until - now))
            if self._world.now() >= run.until or self._random.random() < self._plan.crashing:
                return None
            if self._world.now() >= done_at:
                break
            try:
                if await self._heartbeat(run):
                    return TaskCancelled()
            except (Conflict, NotFound):
                return None  # the broker gave it up; it may be another's by now
            if self._world.now() >= run.until:
                return None
        return TaskFailure("X") if self._random.random() < self._plan.failing else TaskSuccess(b"ok")

    async def _heartbeat(self, run: Run) -> bool:
        """Whether the job was cancelled. Without an answer the lease stays as long as it was."""
        sent_at = self._world.now()

        async def beat(node: JobsNode) -> int:
            told = await node.shard(node.shard_of(run.job[0])).heartbeat(run.worker, run.task)
            return told.cancelled_at

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
        run.until = max(run.until, sent_at + self._lease_s)
        return cancelled_at > 0

    async def _report(self, run: Run, outcome: TaskOutcome) -> bool:
        async def tell(shard: ShardCalls) -> ArgosyError | None:
            (answer,) = await shard.report([(run.task, outcome)], worker=run.worker)
            if isinstance(answer, Unavailable | NotOwner):
                raise answer
            return answer

        return await self._at_shard_of(run.job[0], tell) is None
