"""Who is reading about which job, so that a step staged meanwhile is noticed before the reader acts on old rows."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

JobKey = tuple[str, str]  # tenant and job


class ChangeTracker:
    def __init__(self) -> None:
        self._readers: dict[JobKey, list[set[JobKey]]] = {}

    @contextmanager
    def on(self, jobs: Iterable[JobKey]) -> Iterator[set[JobKey]]:
        """The set fills with those of the jobs that change while the block runs."""
        changed: set[JobKey] = set()
        watched = list(dict.fromkeys(jobs))
        for job in watched:
            self._readers.setdefault(job, []).append(changed)
        try:
            yield changed
        finally:
            for job in watched:
                self._leave(job, changed)

    def touch(self, tenant: str, job: str) -> None:
        if self._readers:
            for changed in self._readers.get((tenant, job), ()):
                changed.add((tenant, job))

    def _leave(self, job: JobKey, changed: set[JobKey]) -> None:
        readers = self._readers[job]
        # By identity: two readers' sets may be equal.
        del readers[next(at for at, each in enumerate(readers) if each is changed)]
        if not readers:
            del self._readers[job]
