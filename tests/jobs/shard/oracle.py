"""A naive model of the shard: no heaps and no rows; every operation scans all jobs."""

from dataclasses import dataclass, field

from argosy.jobs.model import LEASE_MS, ConcurrencyLimit, JobStatus, Limit, NewJob, RateLimit

READY, TICKET, PARKED, CHECK, RUNNING, DONE = "ready", "ticket", "parked", "check", "running", "done"
RETRY_MS = 200  # after every failure: initial 100, factor 2, at most 200


@dataclass
class OneJob:
    new: NewJob
    id: str
    start: int
    status: JobStatus = JobStatus.SCHEDULED
    where: str = ""
    attempt: int = 1
    relative: int = 1
    rest: tuple[Limit, ...] = ()
    held: list[str] = field(default_factory=list)
    expires_at: int = 0
    is_cancelled: bool = False
    tries: int = 0

    @property
    def grant_order(self) -> tuple[int, int, str, int]:
        return self.start, self.new.priority, self.id, self.attempt


class Oracle:
    def __init__(self) -> None:
        self.jobs: dict[tuple[str, str], OneJob] = {}

    def in_place(self, where: str) -> list[OneJob]:
        return sorted((job for job in self.jobs.values() if job.where == where), key=lambda job: job.grant_order)

    def due(self, now: int) -> list[OneJob]:
        return [job for job in self.in_place(READY) if job.start <= now]

    def holders(self, tenant: str, key: str) -> int:
        return sum(key in job.held for job in self.jobs.values() if job.new.tenant == tenant)

    # -- operations ---------------------------------------------------------------------------------------------------

    def enqueue(self, new: NewJob, id: str, now: int) -> None:
        job = self.jobs[new.tenant, id] = OneJob(new, id, new.start_at_ms or now)
        self.begin(job, now)
        self.grant(now)

    def lease(self, job: OneJob, now: int) -> None:
        job.status, job.where, job.expires_at = JobStatus.RUNNING, RUNNING, now + LEASE_MS

    def succeed(self, job: OneJob, now: int) -> None:
        self.end(job, JobStatus.SUCCEEDED)
        self.grant(now)

    def fail(self, job: OneJob, now: int) -> None:
        retries = job.new.retry.retry_count if job.new.retry is not None else 0
        if job.is_cancelled:
            self.end(job, JobStatus.CANCELLED)
        elif job.relative > retries:
            self.end(job, JobStatus.FAILED)
        else:
            job.held = []
            job.attempt, job.relative, job.start = job.attempt + 1, job.relative + 1, now + RETRY_MS
            self.begin(job, now)
        self.grant(now)

    def release(self, job: OneJob, now: int) -> None:
        if job.is_cancelled:
            self.end(job, JobStatus.CANCELLED)
        else:
            job.held = []
            job.attempt, job.start = job.attempt + 1, now
            self.begin(job, now)
        self.grant(now)

    def cancel(self, job: OneJob, now: int) -> None:
        if job.status == JobStatus.RUNNING:
            job.is_cancelled = True
            return
        self.end(job, JobStatus.CANCELLED)
        job.attempt -= 1
        self.grant(now)

    def restart(self, job: OneJob, now: int) -> None:
        first = job.new.start_at_ms
        job.attempt, job.relative, job.start, job.is_cancelled = job.attempt + 1, 1, max(now, first), False
        self.begin(job, now)
        self.grant(now)

    def expedite(self, job: OneJob, now: int) -> None:
        job.start = now

    def lease_by_name(self, job: OneJob, now: int) -> None:
        job.held = []
        self.lease(job, now)
        self.grant(now)

    def pass_time(self, now: int, *, is_under: bool, retries_max: int) -> None:
        for job in self.in_place(RUNNING):
            if job.expires_at <= now:
                self.fail(job, now)
        arrivals = [job for job in self.in_place(TICKET) if job.start <= now]
        for job in arrivals:
            job.where = PARKED
        self.grant(now)
        for job in self.in_place(CHECK):
            if job.start <= now:
                self.check(job, now, is_under=is_under, retries_max=retries_max)
        self.grant(now)

    # -- consequences -------------------------------------------------------------------------------------------------

    def begin(self, job: OneJob, now: int) -> None:
        job.status, job.rest, job.held, job.tries = JobStatus.SCHEDULED, job.new.limits, [], 0
        self.advance(job, now)

    def advance(self, job: OneJob, now: int) -> None:
        if not job.rest:
            job.where = READY
        elif isinstance(job.rest[0], RateLimit):
            job.where = CHECK
        else:
            job.where = TICKET if job.start > now else PARKED

    def grant(self, now: int) -> None:
        while (job := self._next_granted()) is not None:
            limit = job.rest[0]
            assert isinstance(limit, ConcurrencyLimit)
            job.held.append(limit.key)
            job.rest = job.rest[1:]
            self.advance(job, now)

    def _next_granted(self) -> OneJob | None:
        visited: set[tuple[str, str]] = set()
        for job in self.in_place(PARKED):
            limit = job.rest[0]
            assert isinstance(limit, ConcurrencyLimit)
            slot = (job.new.tenant, limit.key)
            if slot not in visited and self.holders(*slot) < limit.max_concurrency:
                return job
            visited.add(slot)
        return None

    def check(self, job: OneJob, now: int, *, is_under: bool, retries_max: int) -> None:
        if is_under:
            job.rest = job.rest[1:]
            self.advance(job, now)
        elif job.tries >= retries_max:
            self.end(job, JobStatus.FAILED)
        else:
            job.tries += 1
            job.start = now + 1_000

    def end(self, job: OneJob, status: JobStatus) -> None:
        job.status, job.where, job.held = status, DONE, []
