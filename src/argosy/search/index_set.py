"""Searches many indexes together with a few threads.

The postings of all segments are read first, which is fast. If little candidate text is left, the calling thread scans
it; otherwise threads share the segments, because kernels and RE2 run outside the interpreter lock.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from argosy.base.clock import Clock, SystemClock
from argosy.base.errors import NotFound, Unavailable
from argosy.search.index.index import Index
from argosy.search.index.kernel_tables import KernelTables
from argosy.search.match import Budget, Collector, Search, Task
from argosy.search.match.limits import never
from argosy.search.model import Form, LimitHit, Options, Repository, SearchResult
from argosy.search.query.tree import And, Query, Substring

_T = TypeVar("_T")

# Handing work to the pool costs more than it saves on a short scan: a query under 1 ms takes several times as long with
# two threads as with one.
ALONE_BYTES = 8 << 20  # less text is scanned faster by one thread: about 1 ms
# Passing a search to a thread and back costs about as much as a short search, so it starts on the event loop. Between
# tasks it moves to a thread after BRIEF_S of CPU time. A single task that takes longer than HELD_UP_S_MAX would delay
# all other requests: it is aborted, and the search starts again in a thread.
BRIEF_S = 0.006
HELD_UP_S_MAX = 0.024
BRIEF_CHARACTERS_MIN = 3  # shorter literals are in nearly every file


class IndexSet:
    """Indexes by repository name. A search uses the set as it was when the search started."""

    def __init__(
        self,
        indexes: Iterable[Index] = (),
        *,
        threads: int | None = None,
        clock: Clock | None = None,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        """`cpu_s` returns the CPU time of the calling thread."""
        self._indexes: dict[str, Index] = {}
        self._tables = KernelTables(())  # replaced as a whole; a search takes a reference when it starts
        self._changing = threading.Lock()
        self._clock = clock or SystemClock()
        self._threads = threads or os.cpu_count() or 1
        self._cpu_s = cpu_s
        # Threads, not processes: kernels and RE2 release the interpreter lock, and all searches share the arrays of one
        # process.
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="search")
        for index in indexes:
            self.put(index)

    def put(self, index: Index) -> None:
        """Adds an index or replaces the one of the same repository."""
        with self._changing:  # tables are built from the dictionary, so two changes must not interleave
            self._indexes[index.repository.name] = index
            self._tables = KernelTables(_best_first(self._indexes.values()), self._tables)

    def drop(self, name: str) -> None:
        with self._changing:
            self.get(name)
            del self._indexes[name]
            self._tables = KernelTables(_best_first(self._indexes.values()), self._tables)

    def get(self, name: str) -> Index:
        try:
            return self._indexes[name]
        except KeyError:
            raise NotFound(f"repository {name!r} not found in this index set") from None

    async def search(self, query: Query, options: Options, *, only: Collection[str] | None = None) -> SearchResult:
        """Searches the repositories in `only` that are in the set at the time of the call; None searches all."""
        indexes, requested_at = self._tables.only(only), self._clock.now()
        # The tables are taken once, before the first await: a change of the set during the search must not mix two
        # states.
        here = self._search_inline(indexes, query, options)
        if isinstance(here, SearchResult):
            return here
        if here is not None:
            return await self._in_thread(here.finish)
        return await self._in_thread(
            lambda is_cancelled: self._search(indexes, query, options, is_cancelled, requested_at)
        )

    async def repositories(self, query: Query, *, only: Collection[str] | None = None) -> tuple[Repository, ...]:
        indexes = self._tables.only(only)
        return await self._in_thread(lambda is_cancelled: self._matching(indexes, query, is_cancelled))

    def search_now(self, query: Query, options: Options, is_cancelled: Callable[[], bool] = never) -> SearchResult:
        """Searches in this thread, for programs without an event loop."""
        return self._search(self._tables, query, options, is_cancelled)

    def repositories_now(self, query: Query, is_cancelled: Callable[[], bool] = never) -> tuple[Repository, ...]:
        return self._matching(self._tables, query, is_cancelled)

    def _search(
        self,
        indexes: KernelTables,
        query: Query,
        options: Options,
        is_cancelled: Callable[[], bool],
        requested_at: float | None = None,
    ) -> SearchResult:
        budget = Budget(self._clock.now, options.wall_time_s, is_cancelled)
        # The wait for a thread is reported apart from the duration, so that an overloaded node is not mistaken for a
        # slow query.
        began = budget.now()
        wait_s = 0.0 if requested_at is None else began - requested_at
        return self._collect(indexes, Search(query, options, budget)).result(began, budget, wait_s)

    def _search_inline(
        self, indexes: KernelTables, query: Query, options: Options
    ) -> "SearchResult | _PartialSearch | None":
        """Runs a short search on the event loop. Returns its result, the rest of its work, or None if nothing was done.

        Passing a search of a millisecond to a thread and back costs nearly as much as the search.
        """
        if not _may_be_brief(query):
            return None
        # CPU time, because on a busy host wall time passes without progress, and a thread would not be faster.
        began_s = self._cpu_s()
        stop = _StopFlag(lambda: self._cpu_s() >= began_s + HELD_UP_S_MAX)
        budget = Budget(self._clock.now, options.wall_time_s, stop)
        rest = _PartialSearch(self, Collector(options), budget, stop)
        search = Search(query, options, budget)
        rest.tasks = search.tasks(indexes, rest.collector)
        # Too much text for the event loop; the postings are read already, so a thread continues with the tasks.
        if sum(task.cost_bytes for task in rest.tasks) > ALONE_BYTES:
            return rest
        # Tasks are in search order, best first. Reversed, `pop` takes the first one in constant time.
        rest.tasks.reverse()
        while rest.tasks and self._cpu_s() < began_s + BRIEF_S:
            rest.collector.merge(rest.tasks.pop().run())
        # Creating the result converts the matches of the files shown, so it is started only while time is left.
        result = None
        if not rest.tasks and self._cpu_s() < began_s + BRIEF_S:
            result = rest.collector.result(rest.began, budget)
        # A task was aborted in the middle, so what it found is incomplete and cannot be continued: a thread starts from
        # scratch.
        if budget.limit_hit is LimitHit.CANCELLED:
            return None
        rest.tasks.reverse()
        return result or rest

    def _matching(
        self, indexes: KernelTables, query: Query, is_cancelled: Callable[[], bool]
    ) -> tuple[Repository, ...]:
        # One match is enough to list a repository.
        options = Options(form=Form.COUNT, index_match_limit=1)
        budget = Budget(self._clock.now, options.wall_time_s, is_cancelled)
        found = self._collect(indexes, Search(query, options, budget)).found
        # A list of repositories has no place to say that it is incomplete, so a truncated one is an error (GW-1).
        if budget.limit_hit is LimitHit.WALL_TIME:
            raise Unavailable(f"listing timed out after {options.wall_time_s:g} s: narrow the query")
        repositories = [indexes.indexes[number].repository for number in found]
        return tuple(sorted(repositories, key=lambda repository: repository.name))

    def _collect(self, indexes: KernelTables, search: Search) -> Collector:
        collector = Collector(search.options)
        self.run(search.tasks(indexes, collector), collector)
        return collector

    def run(self, tasks: list[Task], collector: Collector) -> None:
        """Runs the tasks and merges their results into the collector."""
        if self._threads > 1 and _is_worth_sharing(tasks):
            for part in self._pool.map(_run, tasks):
                collector.merge(part)
        else:
            for task in tasks:
                collector.merge(task.run())

    async def _in_thread(self, work: Callable[[Callable[[], bool]], _T]) -> _T:
        cancelled = threading.Event()
        try:
            return await asyncio.to_thread(work, cancelled.is_set)
        # A thread cannot be interrupted, so the search polls this event through its budget.
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def close(self) -> None:
        # Searches that are running hold the tables they need; they finish on their own.
        self._pool.shutdown(wait=False, cancel_futures=True)


class _StopFlag:
    """The stop condition of a search, which changes when the search moves to a thread."""

    def __init__(self, is_over: Callable[[], bool]) -> None:
        self.is_over = is_over

    def __call__(self) -> bool:
        return self.is_over()


class _PartialSearch:
    """A started search and its remaining tasks."""

    def __init__(self, indexes: IndexSet, collector: Collector, budget: Budget, stop: _StopFlag) -> None:
        self.collector = collector
        self.tasks: list[Task] = []
        self.began = budget.now()
        self._indexes = indexes
        self._budget = budget
        self._stop = stop

    def finish(self, is_cancelled: Callable[[], bool]) -> SearchResult:
        self._stop.is_over = is_cancelled
        self._indexes.run(self.tasks, self.collector)
        return self.collector.result(self.began, self._budget)


def _best_first(indexes: Iterable[Index]) -> tuple[Index, ...]:
    """Highest rank first, so that a limit drops the least relevant repositories."""
    # The name makes the order, and with it the result of a search that hits a limit, independent of when an index was
    # added.
    return tuple(sorted(indexes, key=lambda index: (-index.repository.rank, index.repository.name)))


def _may_be_brief(query: Query) -> bool:
    """Whether the query consists of literals, whose blocks the index selects without reading text."""
    match query:
        case Substring(text):
            return len(text) >= BRIEF_CHARACTERS_MIN
        case And(children):
            return all(map(_may_be_brief, children))
        case _:
            return False


def _run(task: Task) -> Collector:
    return task.run()


def _is_worth_sharing(tasks: list[Task]) -> bool:
    total = 0
    for task in tasks:
        total += task.cost_bytes
        # A single task cannot be divided.
        if total > ALONE_BYTES:
            return len(tasks) > 1
    return False
