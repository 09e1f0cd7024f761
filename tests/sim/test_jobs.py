"""`argosy sim jobs`: job brokers through crashes, partitions and splits; no job is lost, doubled or over its limit."""

import os
import subprocess
import sys

import msgspec
import pytest

from argosy.base.kv import Batch
from argosy.jobs import keys
from argosy.jobs.model import JobStatus, RunAttempt, TaskLease
from argosy.jobs.shard.rows import encode
from argosy.sim.chaos import ChaosReport
from argosy.sim.checkers.jobs import JobsChecker, Run
from argosy.sim.jobs_chaos import draw_plan, run_jobs_chaos, run_seed
from argosy.sim.plan import ClockSkew, Crash, Drain, Join, Outage, Partition, Pause
from argosy.sim.trace import ViolationLog

SEEDS = 4
JOB, OTHER = ("t", "j"), ("t", "k")


def test_no_job_is_lost_doubled_or_over_its_limit_in_many_worlds() -> None:
    report = run_jobs_chaos(1, SEEDS, jobs=2)
    assert report.violations == ()
    assert report.seeds == SEEDS
    assert msgspec.json.decode(report.to_json(), type=ChaosReport) == report


def test_a_seed_leaves_the_same_trace_whatever_the_hash_seed() -> None:
    program = "from argosy.sim.jobs_chaos import run_seed; print([run_seed(seed).fingerprint for seed in (1, 2)])"
    outputs = set()
    for hash_seed in ("0", "99"):
        environ = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, check=True)
        outputs.add(done.stdout)
    assert len(outputs) == 1


def test_the_trace_has_every_kind_of_event() -> None:
    trace_tail = run_seed(3, keeps_trace=True).trace_tail
    for event in ("is acknowledged", " runs t", "ends ", "stores ", "ServingStarted"):
        assert any(event in line for line in trace_tail), event


def test_worlds_are_varied_and_include_every_fault() -> None:
    plans = [draw_plan(seed)[0] for seed in range(40)]
    kinds = {type(fault) for plan in plans for fault in plan.world.faults}
    assert kinds >= {ClockSkew, Crash, Drain, Join, Outage, Partition, Pause}
    assert {len(plan.splits) for plan in plans} == {0, 1, 2, 3}
    assert any(plan.disks for plan in plans)
    assert {plan.settings.shards for plan in plans} == {1, 2, 3}


# -- the checker ------------------------------------------------------------------------------------------------------


class Watch:
    """A checker with a clock to turn."""

    def __init__(self) -> None:
        self.now = 0.0
        self.violations = ViolationLog(lambda: self.now)
        self.checker = JobsChecker(self.violations, {"two": 2})

    def found(self) -> list[str]:
        return [violation.invariant for violation in self.violations.entries]


@pytest.fixture
def watch() -> Watch:
    return Watch()


def run_of(job: tuple[str, str], task: str, until: float = 5.0, *, slot: bool = False) -> Run:
    return Run(job, task, "w", until, ("t", "two") if slot else None)


def commit(watch: Watch, *puts: tuple[bytes, bytes], shard: str = "s", gone: tuple[bytes, ...] = ()) -> None:
    batch = Batch()
    for key, value in puts:
        batch.put(key, value)
    for key in gone:
        batch.delete(key)
    watch.checker.on_commit(shard, batch.ops())


def lease_row(task: str, job: str) -> tuple[bytes, bytes]:
    return keys.key(keys.LEASE, task), encode(TaskLease("w", RunAttempt(task, "t", job, 1, 1), "g", 0, 10))


def test_an_acknowledged_job_that_is_not_durable_is_detected(watch: Watch) -> None:
    commit(watch, (keys.key(keys.JOB, *JOB), b""))
    watch.checker.on_enqueued(JOB)
    assert watch.found() == []
    watch.checker.on_enqueued(OTHER)
    assert watch.found() == ["JOB-1"]


def test_a_job_may_leave_a_disk_as_long_as_another_has_it(watch: Watch) -> None:
    row = (keys.key(keys.JOB, *JOB), b"")
    commit(watch, row, shard="parent")
    commit(watch, row, shard="child")
    watch.checker.on_enqueued(JOB)
    watch.checker.on_removed("parent")
    assert watch.found() == []
    commit(watch, shard="child", gone=(row[0],))
    assert watch.found() == ["JOB-1"]


def test_an_acknowledged_job_that_is_not_found_breaks_job_1(watch: Watch) -> None:
    watch.checker.on_not_found(JOB)
    assert watch.found() == ["JOB-1"]


def test_an_acknowledged_success_is_not_undone(watch: Watch) -> None:
    commit(watch, lease_row("1", "j"))
    watch.checker.on_reported(JOB)
    watch.checker.on_status(JOB, JobStatus.SUCCEEDED)
    assert watch.found() == []
    watch.checker.on_status(JOB, JobStatus.FAILED)
    watch.checker.on_run_started(run_of(JOB, "1"))
    assert watch.found() == ["JOB-1", "JOB-1"]


def test_a_job_runs_again_only_after_its_lease_or_its_worker_ended(watch: Watch) -> None:
    for number in range(1, 5):
        commit(watch, lease_row(f"{number}", "j"), shard=f"s{number}")
    first = run_of(JOB, "1", until=5.0)
    watch.checker.on_run_started(first)
    watch.now = 5.0
    second = run_of(JOB, "2", until=10.0)
    watch.checker.on_run_started(second)
    watch.checker.on_run_ended(second)
    watch.checker.on_run_started(run_of(JOB, "3", until=10.0))
    assert watch.found() == []
    watch.checker.on_run_started(run_of(JOB, "4", until=10.0))
    assert watch.found() == ["JOB-2"]


def test_a_lease_granted_before_it_is_durable_is_detected(watch: Watch) -> None:
    watch.checker.on_run_started(run_of(JOB, "1"))
    assert watch.found() == ["JOB-2"]


def test_two_leases_of_one_job_on_disk_are_detected(watch: Watch) -> None:
    commit(watch, lease_row("1", "j"), lease_row("2", "k"))
    commit(watch, lease_row("3", "j"), gone=(lease_row("1", "j")[0],))
    assert watch.found() == []
    commit(watch, lease_row("4", "j"))
    assert watch.found() == ["JOB-2"]


def test_more_runs_than_a_limit_allows_are_detected(watch: Watch) -> None:
    commit(watch, *(lease_row(f"{number}", f"j{number}") for number in range(3)))
    for number in range(2):
        watch.checker.on_run_started(run_of(("t", f"j{number}"), f"{number}", slot=True))
    assert watch.found() == []
    assert watch.checker.most == {("t", "two"): 2}
    watch.checker.on_run_started(run_of(("t", "j2"), "2", slot=True))
    assert watch.found() == ["JOB-3"]


def test_more_holders_than_a_limit_allows_are_detected(watch: Watch) -> None:
    rows = [(keys.key(keys.HOLDER, "t", "two", f"{number}"), b"") for number in range(4)]
    commit(watch, *rows[:2])
    commit(watch, rows[2], gone=(rows[0][0],))
    assert watch.found() == []
    commit(watch, rows[3])
    assert watch.found() == ["JOB-3"]
