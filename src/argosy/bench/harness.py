"""The harness: runs a benchmark and its peers in the same minute, and judges the figures by their goals.

A *figure* is something worth knowing (`lease.acquire.valkey`, in 1/s). A *run* produces the values of one or several
figures at once. Own runs alternate with those of the peers, so that other load on the machine affects all alike. The
value is the median, and the spread is the minimum and maximum. A figure that cannot be measured has an error instead of
a value.
"""

import inspect
import statistics
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from os.path import basename, normpath
from typing import Any, Literal, TypeAlias

from argosy.base.errors import ArgosyError, NotFound

Better: TypeAlias = Literal["lower", "higher"]
Values: TypeAlias = Mapping[str, float]  # by the id of the figure
Run: TypeAlias = Callable[[], "Values | float | Awaitable[Values] | Awaitable[float]"]
BenchFunction: TypeAlias = "Callable[[Bench], Coroutine[None, None, None]]"

# By name; imported on first use.
BENCHES = {
    "fleet": "argosy.bench.fleet.run:fleet",
    "ipni": "argosy.bench.ipni.run:ipni",
    "jobs": "argosy.bench.jobs.run:jobs",
    "ownership": "argosy.bench.ownership.run:ownership",
    "registry": "argosy.bench.registry.run:registry",
    "search": "argosy.bench.search.run:search",
    "throttle": "argosy.bench.throttle.run:throttle",
}
REPEATS = 5
REPEATS_QUICK = 3


@dataclass(frozen=True)
class Figure:
    """What is measured, which way is better, and what is good enough."""

    id: str
    unit: str
    better: Better
    goal: float | None = None

    def is_met(self, value: float) -> bool:
        if self.goal is None:
            return True
        return value <= self.goal if self.better == "lower" else value >= self.goal


@dataclass(frozen=True)
class Result:
    """One measured figure; if it could not be measured, `value` is None and `error` has the reason."""

    figure: Figure
    command: str
    value: float | None
    spread: tuple[float, float] | None = None
    peers: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None

    @property
    def is_ok(self) -> bool:
        return self.value is not None and self.figure.is_met(self.value)


class Bench:
    """What a bench is given, to `measure` as often as it likes. `is_quick` asks for smaller runs, not fewer figures.

    `corpus` and `queries` are for benches that run on something: what it is, and how many questions of each kind. What
    a reader must know to judge the figures goes into `notes`; what they were made of into `details`, for machines.
    """

    def __init__(
        self,
        name: str,
        *,
        is_quick: bool = False,
        only: str = "",
        corpus: str = "",
        queries: int = 0,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.name = name
        self.is_quick = is_quick
        self.corpus = corpus
        self.queries = queries
        self.say = say
        self.results: list[Result] = []
        self.notes: list[str] = []
        self.details: dict[str, Any] = {}
        self._only = only

    def wants(self, *ids: str) -> bool:
        """Whether any of these figures is selected: a benchmark starts a server only if it is needed."""
        return any(self._only in each for each in ids)

    async def measure(
        self,
        *figures: Figure,
        run: Run,
        peers: Mapping[str, Run] | None = None,
        repeats: int | None = None,
    ) -> None:
        """Measure figures that come from one run. A peer may return only some of them."""
        if not self.wants(*[figure.id for figure in figures]):
            return
        times = repeats or (REPEATS_QUICK if self.is_quick else REPEATS)
        try:
            own, others = await self._take_turns(figures, run, peers or {}, times)
        except ArgosyError as error:
            self.give_up(figures, error)
            return
        for figure in figures:
            told = {name: found[figure.id] for name, found in others.items() if figure.id in found}
            self.record(figure, own[figure.id], told)

    def record(
        self, figure: Figure, values: Sequence[float], peers: Mapping[str, Sequence[float]] | None = None
    ) -> None:
        """Record a figure from values that the benchmark measured itself."""
        medians = {name: statistics.median(found) for name, found in (peers or {}).items()}
        spread = (min(values), max(values))
        self._add(Result(figure, self._command(figure), statistics.median(values), spread, medians))

    def give_up(self, figures: Sequence[Figure], error: ArgosyError) -> None:
        """Record that these figures could not be measured, and why."""
        for figure in figures:
            self._add(Result(figure, self._command(figure), None, error=str(error)))

    async def _take_turns(
        self, figures: Sequence[Figure], run: Run, peers: Mapping[str, Run], times: int
    ) -> tuple[dict[str, list[float]], dict[str, dict[str, list[float]]]]:
        own: dict[str, list[float]] = {figure.id: [] for figure in figures}
        others: dict[str, dict[str, list[float]]] = {name: {} for name in peers}
        for _ in range(times):
            for figure_id, value in (await _values(run, figures)).items():
                own[figure_id].append(value)
            for name, peer in peers.items():
                for figure_id, value in (await _values(peer, figures)).items():
                    others[name].setdefault(figure_id, []).append(value)
        assert all(len(values) == times for values in own.values()), "a run left out a figure it was to measure"
        return own, others

    def _command(self, figure: Figure) -> str:
        quick = " --quick" if self.is_quick else ""
        # Only the last path component: results are published, and local paths should not be.
        corpus = f" --corpus {basename(normpath(self.corpus))}" if self.corpus else ""
        return f"argosy bench {self.name}{quick}{corpus} --only {figure.id}"

    def _add(self, result: Result) -> None:
        if not self.wants(result.figure.id):
            return
        self.results.append(result)
        self.say(result.figure.id)


async def _values(run: Run, figures: Sequence[Figure]) -> Values:
    made = run()
    values = await made if inspect.isawaitable(made) else made
    return values if isinstance(values, Mapping) else {figures[0].id: values}


def find(name: str) -> BenchFunction:
    """Import the benchmark with this name."""
    if name not in BENCHES:
        raise NotFound(f"benchmark {name!r} not found; available: {', '.join(sorted(BENCHES))}")
    module, _, function = BENCHES[name].partition(":")
    found: BenchFunction = getattr(import_module(module), function)
    return found


def summary(name: str) -> str:
    """One line on what a benchmark measures, or on the module that is not installed."""
    try:
        return (find(name).__doc__ or "").partition("\n")[0]
    except ModuleNotFoundError as error:
        return f"not available: module {error.name} is not installed"
