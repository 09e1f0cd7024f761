"""What a server needs besides fast answers: to be up soon, to stop when told, to answer many at once."""

import statistics
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

import argosy
from argosy.bench.search.bench_query import Ask
from argosy.bench.search.engine import OPTIONS, Engine
from argosy.bench.search.programs import Spent, run
from argosy.search.query import parse

FIRST_ANSWER = """
import sys
from argosy.search.backends.factory import open_source
from argosy.search.index.build import build
from argosy.search.model import Options
from argosy.search.query import parse
from argosy.search.index_set import IndexSet
from argosy.search.skip_policy import Policy

shelf = IndexSet([build(open_source(sys.argv[1], with_ignored=True), Policy())])
answer = shelf.search_now(parse("class lang:python").query, Options())
shelf.close()
assert answer.files
"""
CANCEL_AFTER_S = (0.001, 0.005, 0.02)  # while the index is asked, and while text is looked at


def cold_start(bytecode: Path) -> Spent:
    """A new interpreter, until it has imported the engine, indexed a small folder and answered its first question.

    What it compiles it keeps in the folder `bytecode`, as interpreters do unless they are forbidden to.
    """
    folder = Path(argosy.__file__).parent / "base"
    env = {"PYTHONPYCACHEPREFIX": str(bytecode), "PYTHONDONTWRITEBYTECODE": ""}
    return run([sys.executable, "-c", FIRST_ANSWER, str(folder)], cwd=folder, env=env).spent


def overshoot_ms(engine: Engine, asks: Sequence[Ask], trials: int) -> dict[str, float]:
    """By question, how long a search goes on after it was told to stop: the median of the trials, at the worst moment.

    Questions that are answered before they are told do not count.
    """
    found: dict[str, float] = {}
    for ask in asks:
        late = [_late_ms(engine, ask, after_s, trials) for after_s in CANCEL_AFTER_S]
        if told := [statistics.median(values) for values in late if values]:
            found[ask.text] = max(told)
    return found


@dataclass(frozen=True)
class _Stop:
    """A flag that is raised at an instant."""

    at: float

    def __call__(self) -> bool:
        return time.perf_counter() >= self.at


def _late_ms(engine: Engine, ask: Ask, after_s: float, trials: int) -> list[float]:
    query = parse(ask.text).query
    late: list[float] = []
    for _ in range(trials):
        stop = _Stop(time.perf_counter() + after_s)
        if not engine.shelf(engine.cores).search_now(query, OPTIONS["count"], stop).is_complete:
            late.append((time.perf_counter() - stop.at) * 1e3)
    return late


def answers_per_s(engine: Engine, asks: Sequence[Ask], callers: int, seconds: float) -> float:
    """So many callers, each in its own thread, ask one question after the other, each beginning elsewhere."""
    shelf = engine.shelf(1)
    queries = [parse(ask.text).query for ask in asks]
    began = time.perf_counter()
    done = [0] * callers

    def work(caller: int) -> None:
        for query in islice(cycle(queries), caller * len(queries) // callers, None):
            if time.perf_counter() - began >= seconds:
                return
            shelf.search_now(query, OPTIONS["top"])
            done[caller] += 1

    threads = [threading.Thread(target=work, args=(caller,)) for caller in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / (time.perf_counter() - began)
