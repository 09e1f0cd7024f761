"""Figures of the jobs benchmark, and their goals."""

from argosy.bench.harness import Figure

POLLERS = 1_000
FEW = 1_000  # waiting jobs with which a large shard is compared
OPEN_S_OF_A_MILLION = 15.0

BATCHES = Figure("enqueue.batches", "jobs/s", "higher", goal=4_000)
SINGLE = Figure("enqueue.single", "jobs/s", "higher", goal=2_000)
BATCHES_CPU = Figure("enqueue.batches_cpu", "µs/job", "lower")
SINGLE_CPU = Figure("enqueue.single_cpu", "µs/job", "lower")
LONE_P50 = Figure("enqueue.p50", "ms", "lower", goal=5)
ENQUEUES = (BATCHES, BATCHES_CPU, SINGLE, SINGLE_CPU, LONE_P50)

COMPLETED = Figure("complete.rate", "jobs/s", "higher")
COMPLETED_TIMES = Figure("complete.times_best_peer", "x", "higher", goal=1)
RACES = (COMPLETED, COMPLETED_TIMES)

DUE_P50 = Figure("due.p50", "ms", "lower")
DUE_P99 = Figure("due.p99", "ms", "lower", goal=100)
DUES = (DUE_P50, DUE_P99)

SCHEDULES_RATE = Figure("schedules.rate", "firings/s", "higher", goal=167)  # 10,000 in a minute
SCHEDULES_CPU = Figure("schedules.cpu", "µs/firing", "lower")
SCHEDULES_STALL = Figure("schedules.stall", "ms", "lower")
SCHEDULES = (SCHEDULES_RATE, SCHEDULES_CPU, SCHEDULES_STALL)

NOISY = Figure("noisy.start", "s", "lower", goal=1)

BYTES = Figure("waiting.bytes_per_job", "bytes", "lower")
LEASE_FEW = Figure("waiting.lease_few", "ms", "lower")
LEASE_MANY = Figure("waiting.lease_many", "ms", "lower")
LEASE_TIMES = Figure("waiting.lease_times", "x", "lower", goal=1.5)  # flat, within the noise of an fsync
WAITS = (BYTES, LEASE_FEW, LEASE_MANY, LEASE_TIMES)


def open_time(jobs: int) -> Figure:
    """The goal is in proportion to the number of jobs."""
    return Figure(f"waiting.open_{jobs}", "s", "lower", goal=OPEN_S_OF_A_MILLION * jobs / 1_000_000)
