"""Records what clients and workers observed, and reports violations of JOB-2 and JOB-3 afterwards."""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass
class Run:
    """A worker's run of a job: from the lease response until its report, or until its lease expires."""

    job: str
    task: str
    started_at: float
    until: float
    limit: str = ""


@dataclass
class Auditor:
    acknowledged: dict[str, str] = field(default_factory=dict)  # job -> tenant
    runs: list[Run] = field(default_factory=list)

    def overlapping_runs(self) -> list[tuple[Run, Run]]:
        """Runs of one job that overlap (JOB-2)."""
        by_job: dict[str, list[Run]] = defaultdict(list)
        for each in self.runs:
            by_job[each.job].append(each)
        overlaps = []
        for runs in by_job.values():
            runs.sort(key=lambda each: each.started_at)
            overlaps += [(a, b) for a, b in pairwise(runs) if b.started_at < a.until]
        return overlaps

    def max_concurrent(self) -> dict[str, int]:
        """For each limit, the maximum number of concurrent runs under it (JOB-3)."""
        steps: dict[str, list[tuple[float, int]]] = defaultdict(list)
        for each in self.runs:
            if each.limit and each.until > each.started_at:
                steps[each.limit] += [(each.started_at, 1), (each.until, -1)]
        most = {}
        for limit, changes in steps.items():
            running = high = 0
            for _, change in sorted(changes):  # at one instant, ends sort before starts
                running += change
                high = max(high, running)
            most[limit] = high
        return most
