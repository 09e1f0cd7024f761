"""What a server needs besides fast queries: a fast start, prompt cancellation, and throughput."""

import statistics
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

import argosy
from argosy.bench.search.bench_query import BenchQuery
from argosy.bench.search.engine import OPTIONS, Engine
from argosy.bench.search.programs import CpuAndWall, run_program
from argosy.search.query import parse

FIRST_SEARCH = """
import sys
from argosy.search.backends.factory import open_source
from argosy.search.index.build import build
from argosy.search.model import Options
from argosy.search.query import parse
from argosy.search.index_set import IndexSet
from argosy.search.skip_policy import Policy

index_set = IndexSet([build(open_source(sys.argv[1], with_ignored=True), Policy())])
result = index_set.search_now(parse("class lang:python").query, Options())
index_set.close()
assert result.files
"""
CANCEL_AFTER_S = (0.001, 0.005, 0.02)  # during the lookup in the index, and while text is scanned


def cold_start(bytecode: Path) -> CpuAndWall:
    """A new interpreter, until it has imported the engine, indexed a small directory and run its first query.

    It stores its bytecode in the directory `bytecode`, as an installation does: the second start is the one that
    counts.
    """
    directory = Path(argosy.__file__).parent / "base"
    env = {"PYTHONPYCACHEPREFIX": str(bytecode), "PYTHONDONTWRITEBYTECODE": ""}
    return run_program([sys.executable, "-c", FIRST_SEARCH, str(directory)], cwd=directory, env=env).spent


def overshoot_ms(engine: Engine, queries: Sequence[BenchQuery], trials: int) -> dict[str, float]:
    """How long a search goes on after its cancellation, by query: the median of the trials, at the worst moment.

    Queries that end before they are cancelled do not count.
    """
    found: dict[str, float] = {}
    for query in queries:
        late = [_late_ms(engine, query, after_s, trials) for after_s in CANCEL_AFTER_S]
        if medians := [statistics.median(values) for values in late if values]:
            found[query.text] = max(medians)
    return found


@dataclass(frozen=True)
class _Cancellation:
    """Becomes true at an instant. No thread sets it, whose scheduling would be part of the figure."""

    at: float

    def __call__(self) -> bool:
        return time.perf_counter() >= self.at


def _late_ms(engine: Engine, bench_query: BenchQuery, after_s: float, trials: int) -> list[float]:
    query = parse(bench_query.text).query
    late: list[float] = []
    for _ in range(trials):
        cancelled = _Cancellation(time.perf_counter() + after_s)
        if not engine.index_set(engine.cores).search_now(query, OPTIONS["count"], cancelled).is_complete:
            late.append((time.perf_counter() - cancelled.at) * 1e3)
    return late


def searches_per_s(engine: Engine, bench_queries: Sequence[BenchQuery], callers: int, seconds: float) -> float:
    """Callers in threads of their own run one query after the other.

    Each caller starts at another query, so that they do not all run the same query at the same time.
    """
    index_set = engine.index_set(1)
    queries = [parse(each.text).query for each in bench_queries]
    started = time.perf_counter()
    done = [0] * callers

    def work(caller: int) -> None:
        for query in islice(cycle(queries), caller * len(queries) // callers, None):
            if time.perf_counter() - started >= seconds:
                return
            index_set.search_now(query, OPTIONS["top"])
            done[caller] += 1

    threads = [threading.Thread(target=work, args=(caller,)) for caller in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / (time.perf_counter() - started)
