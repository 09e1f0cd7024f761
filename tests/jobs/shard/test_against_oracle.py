"""The whole shard against a naive oracle: any sequence of calls, with the shard closed and reopened in between."""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from argosy.base.errors import Conflict
from argosy.jobs.backends.shard_store import SlateShardStore
from argosy.jobs.model import (
    LEASE_MS,
    ConcurrencyLimit,
    JobStatus,
    LeasedTask,
    Limit,
    RateLimit,
    RateLimitRetry,
    RetryPolicy,
    TaskCancelled,
    TaskFailure,
    TaskOutcome,
    TaskReleased,
    TaskSuccess,
)
from argosy.jobs.settings import ShardStoreSettings
from argosy.jobs.shard.audit import audit
from argosy.throttle.limits.model import RateLimitResponse, Status
from tests.jobs.shard.builders import World, new_job
from tests.jobs.shard.oracle import CHECK, READY, TICKET, OneJob, Oracle
from tests.jobs.shard.slate_world import SlateWorld

R = TypeVar("R")

GIVE_UP = 2
RETRY = RetryPolicy(retry_count=2, initial_interval_ms=100, max_interval_ms=200)
RATE = RateLimit("r", "k", 1, 1_000, retry=RateLimitRetry(1_000, 1_000, 1.0, GIVE_UP))
CHAINS: list[tuple[Limit, ...]] = [
    (),
    (),
    (ConcurrencyLimit("one", 1),),
    (ConcurrencyLimit("two", 2),),
    (RATE,),
    (ConcurrencyLimit("one", 1), RATE),
]
TENANTS = ["a", "b"]
SETTINGS = ShardStoreSettings(cache_bytes=0)


class ShardMachine(RuleBasedStateMachine):
    """Runs each call on a shard and on the oracle, and compares."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.world = self.create_world()
        self.oracle = Oracle()
        self.leases: dict[tuple[str, str], LeasedTask] = {}
        self.is_under = True
        self.numbers = 0

    def create_world(self) -> World:
        return World()

    def run(self, call: Coroutine[Any, Any, R]) -> R:
        return self.loop.run_until_complete(call)

    def teardown(self) -> None:
        self.loop.close()

    @initialize()
    def open(self) -> None:
        self.run(self.world.shard.open())

    def pick(self, data: st.DataObject) -> OneJob:
        return self.oracle.jobs[data.draw(st.sampled_from(sorted(self.oracle.jobs)))]

    def try_to(self, call: Coroutine[Any, Any, object], *, is_allowed: bool) -> bool:
        """Run the call if the oracle allows it, and check that it is rejected otherwise."""
        if is_allowed:
            self.run(call)
        else:
            with pytest.raises(Conflict):
                self.run(call)
        return is_allowed

    # -- rules --------------------------------------------------------------------------------------------------------

    @rule(
        tenant=st.sampled_from(TENANTS),
        priority=st.integers(0, 2),
        later=st.sampled_from([0, 0, 0, 100, 5_000]),
        limits=st.sampled_from(CHAINS),
        retry=st.sampled_from([None, RETRY]),
    )
    def enqueue(
        self, tenant: str, priority: int, later: int, limits: tuple[Limit, ...], retry: RetryPolicy | None
    ) -> None:
        # Ids that do not grow with time, so that order by id is distinguishable.
        self.numbers += 1
        start = self.world.now + later if later else 0
        new = new_job(
            id=f"j{self.numbers * 7919 % 100:02}-{self.numbers}",
            tenant=tenant,
            priority=priority,
            start_at_ms=start,
            limits=limits,
            retry=retry,
        )
        assert self.run(self.world.shard.enqueue([new])) == [new.id]
        self.oracle.enqueue(new, new.id, self.world.now)

    @rule(tasks_max=st.integers(1, 4))
    def lease(self, tasks_max: int) -> None:
        due = self.oracle.due(self.world.now)
        leased = self.run(self.world.lease(tasks_max))
        assert len(leased) == min(tasks_max, len(due))
        for tenant in TENANTS:
            mine = [each.job.id for each in leased if each.job.tenant == tenant]
            assert mine == [job.id for job in due if job.new.tenant == tenant][: len(mine)]
        for each in leased:
            job = self.oracle.jobs[each.job.tenant, each.job.id]
            assert (each.task.attempt, each.task.relative_attempt) == (job.attempt, job.relative)
            assert sorted(each.task.held) == sorted(job.held)
            self.oracle.lease(job, self.world.now)
            self.leases[each.job.tenant, each.job.id] = each
        got = Counter(each.job.tenant for each in leased)
        starved = {job.new.tenant for job in self.oracle.due(self.world.now)}
        assert len(starved) < 2 or abs(got["a"] - got["b"]) <= 1

    @precondition(lambda self: self.leases)
    @rule(
        data=st.data(), outcome=st.sampled_from([TaskSuccess(b"ok"), TaskFailure("E"), TaskCancelled(), TaskReleased()])
    )
    def report(self, data: st.DataObject, outcome: TaskOutcome) -> None:
        place = data.draw(st.sampled_from(sorted(self.leases)))
        leased, job = self.leases.pop(place), self.oracle.jobs[place]
        self.run(self.world.report(leased, outcome))
        match outcome:
            case TaskSuccess():
                self.oracle.succeed(job, self.world.now)
            case TaskFailure():
                self.oracle.fail(job, self.world.now)
            case TaskReleased():
                self.oracle.release(job, self.world.now)
            case TaskCancelled():
                self.oracle.end(job, JobStatus.CANCELLED)
                self.oracle.grant(self.world.now)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        place = data.draw(st.sampled_from(sorted(self.leases)))
        job = self.oracle.jobs[place]
        reply = self.run(self.world.shard.heartbeat("w", self.leases[place].task.id))
        assert bool(reply.cancelled_at) == job.is_cancelled
        job.expires_at = max(job.expires_at, self.world.now + LEASE_MS)

    @precondition(lambda self: self.oracle.jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job = self.pick(data)
        is_allowed = not job.status.is_final and not job.is_cancelled
        if self.try_to(self.world.shard.cancel(job.new.tenant, job.id), is_allowed=is_allowed):
            self.oracle.cancel(job, self.world.now)

    @precondition(lambda self: self.oracle.jobs)
    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        job = self.pick(data)
        is_allowed = job.status in (JobStatus.FAILED, JobStatus.CANCELLED)
        if self.try_to(self.world.shard.restart(job.new.tenant, job.id), is_allowed=is_allowed):
            self.oracle.restart(job, self.world.now)

    @precondition(lambda self: self.oracle.jobs)
    @rule(data=st.data())
    def expedite(self, data: st.DataObject) -> None:
        job = self.pick(data)
        is_allowed = job.where in (READY, TICKET, CHECK) and job.start > self.world.now
        if self.try_to(self.world.shard.expedite(job.new.tenant, job.id), is_allowed=is_allowed):
            self.oracle.expedite(job, self.world.now)
            self.settle()

    @precondition(lambda self: self.oracle.jobs)
    @rule(data=st.data())
    def lease_job(self, data: st.DataObject) -> None:
        job = self.pick(data)
        is_allowed = job.status == JobStatus.SCHEDULED
        if not is_allowed:
            self.try_to(self.world.shard.lease_job(job.new.tenant, job.id, "w"), is_allowed=False)
            return
        leased = self.run(self.world.shard.lease_job(job.new.tenant, job.id, "w"))
        assert (leased.task.attempt, leased.task.relative_attempt) == (job.attempt, job.relative)
        self.leases[job.new.tenant, job.id] = leased
        self.oracle.lease_by_name(job, self.world.now)

    @precondition(lambda self: self.oracle.jobs)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        job = self.pick(data)
        if self.try_to(self.world.shard.delete(job.new.tenant, job.id), is_allowed=job.status.is_final):
            del self.oracle.jobs[job.new.tenant, job.id]

    @rule(ms=st.sampled_from([1, 100, 199, 200, 1_000, 5_000, LEASE_MS]), is_under=st.booleans())
    def pass_time(self, ms: int, is_under: bool) -> None:
        self.world.limiter.response = RateLimitResponse(Status.UNDER_LIMIT if is_under else Status.OVER_LIMIT)
        self.is_under = is_under
        self.world.now += ms
        self.settle()

    def settle(self) -> None:
        self.run(self.world.pass_time(0))
        self.oracle.pass_time(self.world.now, is_under=self.is_under, retries_max=GIVE_UP)
        for place in [place for place in self.leases if self.oracle.jobs[place].status != JobStatus.RUNNING]:
            del self.leases[place]

    @rule()
    def reopen(self) -> None:
        self.run(self.world.reopen())
        for job in self.oracle.jobs.values():
            if job.status == JobStatus.RUNNING:
                job.expires_at = max(job.expires_at, self.world.now + LEASE_MS)

    # -- invariants ---------------------------------------------------------------------------------------------------

    @invariant()
    def audits_clean_and_agrees(self) -> None:
        assert self.run(audit(self.world.shard)) == []
        for tenant in TENANTS:
            views = self.run(self.world.shard.find(tenant, limit=1_000))
            states = {view.job.id: (view.state.status, view.state.attempt) for view in views}
            assert states == {
                job.id: (job.status, job.attempt) for job in self.oracle.jobs.values() if job.new.tenant == tenant
            }
            for key, most in (("one", 1), ("two", 2)):
                holders = self.world.shard.queues.slots.count((tenant, key))
                assert holders == self.oracle.holders(tenant, key) <= most  # JOB-3


TestShardAgainstOracle = ShardMachine.TestCase
TestShardAgainstOracle.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)


class SlateMachine(ShardMachine):
    """The same on SlateDB, through the broker's ledger: every opening fences the previous one."""

    def create_world(self) -> World:
        self.store = self.run(SlateShardStore.open("memory://", SETTINGS))
        return SlateWorld(self.store)

    @initialize()
    def open(self) -> None:
        assert isinstance(self.world, SlateWorld)
        self.run(self.world.open())

    def teardown(self) -> None:
        assert isinstance(self.world, SlateWorld)
        self.run(self.world.close())
        self.run(self.store.close())
        super().teardown()


TestShardOnSlateDBAgainstOracle = SlateMachine.TestCase
TestShardOnSlateDBAgainstOracle.settings = settings(max_examples=6, stateful_step_count=30, deadline=None)
