"""Argosy's engine as a program of the comparison: queries from text to result, index builds, and memory of the process.

It runs in this process, as in a node: neither starting a process nor a network is part of its figures. The overhead of
gateway and network is what the fleet benchmark measures.
"""

import ctypes
import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from argosy.bench.search.bench_query import CONTEXT_LINES, FILE_LINES_MAX, BenchQuery, Form
from argosy.bench.search.programs import CpuAndWall
from argosy.search import model
from argosy.search.backends.folder import FolderSource
from argosy.search.documents import Content, Entry, Source
from argosy.search.index.build import build
from argosy.search.index.index import Index
from argosy.search.index_set import IndexSet
from argosy.search.model import Options, Repository, SearchResult
from argosy.search.precompiler import warm
from argosy.search.query import parse
from argosy.search.skip_policy import Policy

CALLS_S = 0.05  # a query is repeated until it has taken this long in all
CALLS_MAX = 9
CALLS_MIN = 3

# Without a time limit: a query that is cut off would look fast.
OPTIONS: dict[Form, Options] = {
    "count": Options(form=model.Form.COUNT, index_match_limit=0, wall_time_s=0.0),
    "top": Options(
        form=model.Form.LINES, file_matches_max=FILE_LINES_MAX, context_lines=CONTEXT_LINES, wall_time_s=0.0
    ),
}
ALL_FILES = Options(form=model.Form.LINES, files_max=0, file_matches_max=1, index_match_limit=0, wall_time_s=0.0)


@dataclass
class Engine:
    """One index, in an index set with one thread and in one with as many as there are cores."""

    index: Index
    cores: int
    is_threaded: bool = True
    _index_sets: dict[int, IndexSet] = field(default_factory=dict)

    def __post_init__(self) -> None:
        warm()  # a node has loaded its kernels before it serves its first query
        self._index_sets = {threads: IndexSet([self.index], threads=threads) for threads in {1, self.cores}}

    def search(self, query: BenchQuery, options: Options, threads: int = 1) -> SearchResult:
        return self._index_sets[threads].search_now(parse(query.text).query, options)

    def index_set(self, threads: int) -> IndexSet:
        return self._index_sets[threads]

    def run_query(self, query: BenchQuery, form: Form, threads: int) -> CpuAndWall:
        """The median of several calls: one call takes microseconds, too short to be measured alone."""
        text, options, index_set = query.text, OPTIONS[form], self._index_sets[threads]
        calls: list[CpuAndWall] = []
        # A long query is run three times at least, a short one up to nine times: the median needs an odd man out.
        while len(calls) < CALLS_MIN or (len(calls) < CALLS_MAX and sum(call.wall_s for call in calls) < CALLS_S):
            calls.append(time_call(lambda: index_set.search_now(parse(text).query, options)))
        return CpuAndWall(
            *(statistics.median(values) for values in ([c.cpu_s for c in calls], [c.wall_s for c in calls]))
        )

    def matching_files(self, query: BenchQuery) -> frozenset[str]:
        return frozenset(file.path for file in self.search(query, ALL_FILES).files)

    def close(self) -> None:
        for index_set in self._index_sets.values():
            index_set.close()


def time_call(work: Callable[[], object]) -> CpuAndWall:
    """The cost of some work of this process; of several threads, the CPU of all of them."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return CpuAndWall(time.process_time() - cpu, time.perf_counter() - wall)


# -- building ---------------------------------------------------------------------------------------------------------


class TimedSource:
    """A source that measures the CPU spent on listing and reading it.

    Reading is the same work for any engine and depends on the file system, so build speed is reported without it.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.cpu_s = 0.0

    @property
    def repository(self) -> Repository:
        return self._source.repository

    def entries(self) -> Sequence[Entry]:
        started = time.process_time()
        found = self._source.entries()
        self.cpu_s += time.process_time() - started
        return found

    def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
        contents = self._source.read(entries)
        while True:
            started = time.process_time()
            content = next(contents, None)
            self.cpu_s += time.process_time() - started
            if content is None:
                return
            yield content


@dataclass(frozen=True)
class IndexBuild:
    """An index, and what building it cost."""

    index: Index
    whole: CpuAndWall
    read_cpu_s: float

    @property
    def index_cpu_s(self) -> float:
        return self.whole.cpu_s - self.read_cpu_s


def build_index(directory: Path, *, with_symbols: bool) -> IndexBuild:
    """A build runs on one thread, so its CPU is that of one core."""
    source = TimedSource(FolderSource(str(directory), with_ignored=True))
    cpu, wall = time.process_time(), time.perf_counter()
    index = build(source, Policy(), with_symbols=with_symbols)
    whole = CpuAndWall(time.process_time() - cpu, time.perf_counter() - wall)
    return IndexBuild(index, whole, source.cpu_s)


def private_bytes() -> int | None:
    """Memory that only this process has, once everything free has been returned to the system; None if not on Linux."""
    gc.collect()
    if not sys.platform.startswith("linux"):
        return None
    # glibc keeps freed memory for later; what it keeps from a build would count as part of the index.
    ctypes.CDLL(None).malloc_trim(0)
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
