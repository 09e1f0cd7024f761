"""Our own engine, asked as the peers are: the same questions, from text to answer, in this process."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from argosy.bench.search.bench_query import CONTEXT_LINES, FILE_LINES_MAX, Ask, Form
from argosy.bench.search.programs import Spent
from argosy.search import model
from argosy.search.index.index import Index
from argosy.search.index_set import IndexSet
from argosy.search.model import Options, SearchResult
from argosy.search.precompiler import warm
from argosy.search.query import parse

CALLS_S = 0.05  # a question is repeated until it has taken so long
CALLS_MAX = 9
CALLS_MIN = 3

OPTIONS: dict[Form, Options] = {
    "count": Options(form=model.Form.COUNT, index_match_limit=0, wall_time_s=0.0),
    "top": Options(
        form=model.Form.LINES, file_matches_max=FILE_LINES_MAX, context_lines=CONTEXT_LINES, wall_time_s=0.0
    ),
}
EVERY_FILE = Options(form=model.Form.LINES, files_max=0, file_matches_max=1, index_match_limit=0, wall_time_s=0.0)


@dataclass
class Engine:
    """One index, on a shelf with one thread and on one with as many as there are cores."""

    index: Index
    cores: int
    is_threaded: bool = True
    _shelves: dict[int, IndexSet] = field(default_factory=dict)

    def __post_init__(self) -> None:
        warm()  # a process that answers all day has loaded its kernels long ago
        self._shelves = {threads: IndexSet([self.index], threads=threads) for threads in {1, self.cores}}

    def answer(self, ask: Ask, options: Options, threads: int = 1) -> SearchResult:
        return self._shelves[threads].search_now(parse(ask.text).query, options)

    def shelf(self, threads: int) -> IndexSet:
        return self._shelves[threads]

    def ask(self, ask: Ask, form: Form, threads: int) -> Spent:
        """The median of several calls: one call is too short to be measured alone."""
        text, options, shelf = ask.text, OPTIONS[form], self._shelves[threads]
        calls: list[Spent] = []
        while len(calls) < CALLS_MIN or (len(calls) < CALLS_MAX and sum(call.wall_s for call in calls) < CALLS_S):
            calls.append(spent(lambda: shelf.search_now(parse(text).query, options)))
        return Spent(*(statistics.median(values) for values in ([c.cpu_s for c in calls], [c.wall_s for c in calls])))

    def files(self, ask: Ask) -> frozenset[str]:
        return frozenset(file.path for file in self.answer(ask, EVERY_FILE).files)

    def close(self) -> None:
        for shelf in self._shelves.values():
            shelf.close()


def spent(work: Callable[[], object]) -> Spent:
    """What some work of this process costs; with several threads at it, the CPU of all of them."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return Spent(time.process_time() - cpu, time.perf_counter() - wall)
