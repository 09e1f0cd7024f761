"""The queue of index jobs: order, and the bounds on concurrent fetches and builds.

A repository that cannot be searched yet comes before one whose index is only stale. Among the former, primaries and
successors come before replicas, because queries wait for them; then the smaller first, so that most repositories are
searchable soonest (the queue is short: a node wins only a few units at a time). Refreshes run in the order they
were requested, so that small ones cannot starve a large one.

A slot stays occupied until the work has really ended, also after a cancellation: a build thread cannot be stopped at
once. A fetched source that waits for a build keeps its fetch slot, which bounds the sources on local disk.
"""

from collections.abc import Callable, Iterator

from argosy.ownership.model import PRIMARY
from argosy.search.fleet.effects import Build, Effect, Fetch, Receive, Restore
from argosy.search.fleet.held_repo import HeldRepo, IndexJob, JobStage
from argosy.search.model import Branch

UNKNOWN_BYTES = 64 << 20  # assumed size of a repository that was never indexed


class IndexQueue:
    """Index jobs of one node by number."""

    def __init__(self, numbers: Iterator[int], *, fetches_max: int, builds_max: int) -> None:
        self._numbers = numbers
        self._fetches_max = fetches_max
        self._builds_max = builds_max
        self._waiting: dict[int, HeldRepo] = {}
        self._under_way: dict[int, HeldRepo] = {}
        self._stopping: dict[int, JobStage] = {}  # cancelled, but not ended yet

    def add(
        self,
        repo: HeldRepo,
        since: float,
        *,
        heads: tuple[Branch, ...] | None = None,
        sibling: str | None = None,
        can_restore: bool = False,
    ) -> None:
        """Queues a job for the current spec of the repository."""
        assert repo.spec is not None
        assert repo.job is None
        number = next(self._numbers)
        repo.job = IndexJob(number, repo.spec, since, heads=heads, sibling=sibling, can_restore=can_restore)
        self._waiting[number] = repo

    def cancel(self, repo: HeldRepo) -> int | None:
        """Removes the job of a repository. Returns its number if it was under way and must be stopped."""
        job, repo.job = _job_of(repo), None
        if self._waiting.pop(job.number, None) is not None:
            return None
        del self._under_way[job.number]
        self._stopping[job.number] = job.stage
        return job.number

    def end(self, number: int) -> HeldRepo | None:
        """Frees the slot of ended work. Returns its repository, unless the job was cancelled."""
        self._stopping.pop(number, None)
        return self._under_way.pop(number, None)

    def on_source_fetched(self, number: int) -> None:
        if (repo := self._under_way.get(number)) is not None:
            _job_of(repo).stage = JobStage.FETCHED

    def advance(self) -> Iterator[Effect]:
        """Starts as many jobs as there are slots. Builds first: each frees a fetch slot."""
        yield from self._start_builds()
        yield from self._start_fetches()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def fetches(self) -> int:
        return self._count(lambda stage: stage is not JobStage.BUILDING)

    @property
    def builds(self) -> int:
        return self._count(lambda stage: stage is JobStage.BUILDING)

    def building(self) -> list[HeldRepo]:
        return [each for each in self._under_way.values() if _job_of(each).stage is JobStage.BUILDING]

    def refresh_bytes(self) -> int:
        """Memory that refreshed indexes may take beside the old ones, if they share little."""
        return sum(repo.memory_bytes for repo in self._under_way.values())

    def _start_builds(self) -> Iterator[Effect]:
        fetched = [each for each in self._under_way.values() if _job_of(each).stage is JobStage.FETCHED]
        fetched.sort(key=_order)
        for repo in fetched[: max(0, self._builds_max - self.builds)]:
            job, loaded = _job_of(repo), repo.loaded
            job.stage = JobStage.BUILDING
            # An index of another URL shares nothing worth reusing, and a requested reindex must not reuse anything.
            is_incremental = loaded is not None and loaded.spec.url == job.spec.url and not job.is_full_rebuild
            yield Build(job.number, is_incremental)

    def _start_fetches(self) -> Iterator[Effect]:
        """Each by the fastest way that is left: local disk, another node, the origin."""
        while self._waiting and self.fetches < self._fetches_max:
            number = min(self._waiting, key=lambda number: _order(self._waiting[number]))
            repo = self._under_way[number] = self._waiting.pop(number)
            job = _job_of(repo)
            if job.can_restore:
                job.stage = JobStage.RESTORING
                yield Restore(number, job.spec)
            elif job.sibling is not None:
                job.stage = JobStage.RECEIVING
                yield Receive(number, job.spec, job.sibling)
            else:
                job.stage = JobStage.FETCHING
                # The fetch reads the origin as of now, so it covers a pending push and a pending reindex request.
                job.is_full_rebuild, repo.is_full_rebuild, repo.has_pending_push = repo.is_full_rebuild, False, False
                yield Fetch(number, job.spec)

    def _count(self, matches: Callable[[JobStage], bool]) -> int:
        stages = [_job_of(repo).stage for repo in self._under_way.values()]
        return sum(map(matches, [*stages, *self._stopping.values()]))


def _job_of(repo: HeldRepo) -> IndexJob:
    assert repo.job is not None, f"{repo.name!r} is queued without an index job"
    return repo.job


def _order(repo: HeldRepo) -> tuple[int, int, float, int]:
    job = _job_of(repo)
    if repo.loaded is not None:
        return (2, 0, job.since, job.number)
    is_awaited = repo.unit.replica <= PRIMARY  # a primary, or the successor of a draining one
    size_bytes = job.spec.footprint_bytes
    return (0 if is_awaited else 1, UNKNOWN_BYTES if size_bytes is None else size_bytes, job.since, job.number)
