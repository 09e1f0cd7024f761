"""The harness: runs a benchmark and its peers in the same minute, and judges the figures by their goals.

A *figure* is something worth knowing (`lease.acquire.valkey`, in 1/s). A *run* produces the values of one or several
figures at once. Argosy's runs alternate with those of the peers, so that other load on the machine affects all alike.
The value is the median, and the spread is the minimum and maximum. A figure that cannot be measured has an error
instead of a value.

Peers are other products that do the same work. Their adapters are in `bench/peers` of a checkout and not in the wheel,
because they need packages that no installation of Argosy has. Without them a benchmark measures Argosy alone.
"""

import inspect
import statistics
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from os.path import basename, normpath
from pathlib import Path
from typing import Any, Literal, TypeAlias

from argosy.base.errors import ArgosyError, NotFound

Better: TypeAlias = Literal["lower", "higher"]
Values: TypeAlias = Mapping[str, float]  # by the id of the figure
Run: TypeAlias = Callable[[], "Values | float | Awaitable[Values] | Awaitable[float]"]
BenchFunction: TypeAlias = "Callable[[Bench], Coroutine[None, None, None]]"

# By name; imported on first use, because some need packages of an extra.
BENCHES = {
    "fleet": "argosy.bench.fleet.run:fleet",
    "ipni": "argosy.bench.ipni.run:ipni",
    "jobs": "argosy.bench.jobs.run:jobs",
    "ownership": "argosy.bench.ownership.run:ownership",
    "registry": "argosy.bench.registry:registry",
    "search": "argosy.bench.search.run:search",
    "throttle": "argosy.bench.throttle.run:throttle",
}
# Odd, so that the median is one of the measured values. With three, one disturbed run does not change the median.
REPEATS = 5
REPEATS_QUICK = 3
SOURCE = Path(__file__).resolve().parents[2]  # the directory of the package `argosy`: src in a checkout
ROOT = SOURCE.parent
PEERS = ROOT / "bench" / "peers"
NO_PEERS = "peers: not measured; their adapters are in a checkout of the repository only"


@dataclass(frozen=True)
class Figure:
    """What is measured, which direction is better, and what is good enough."""

    id: str
    unit: str
    better: Better
    goal: float | None = None

    def is_met(self, value: float) -> bool:
        if self.goal is None:
            return True
        return value <= self.goal if self.better == "lower" else value >= self.goal


@dataclass(frozen=True)
class FigureResult:
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
    """One run of a benchmark: its options, and the results so far.

    `is_quick` requests smaller runs, not fewer figures. `corpus` and `queries` are for benchmarks that run on a corpus:
    its path, and the number of queries of each class. `notes` has what a reader must know to judge the figures;
    `details` has the raw material of the figures, for programs.
    """

    def __init__(
        self,
        name: str,
        *,
        is_quick: bool = False,
        only: str = "",
        corpus: str = "",
        queries: int = 0,
        progress: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.name = name
        self.is_quick = is_quick
        self.corpus = corpus
        self.queries = queries
        self.progress = progress
        self.results: list[FigureResult] = []
        self.notes: list[str] = []
        self.details: dict[str, Any] = {}
        self._only = only

    @property
    def repeats(self) -> int:
        return REPEATS_QUICK if self.is_quick else REPEATS

    def wants(self, *ids: str) -> bool:
        """Whether any of these figures is selected: a benchmark starts a server only if it is needed."""
        return any(self._only in each for each in ids)

    def wants_any(self, figures: Iterable[Figure]) -> bool:
        return self.wants(*[figure.id for figure in figures])

    def load_peers(self, name: str = "") -> Any | None:
        """The adapters of the peers of a benchmark, by default this one; None without a checkout, which a note says."""
        peers = load_peers(name or self.name)
        if peers is None and NO_PEERS not in self.notes:
            self.notes.append(NO_PEERS)
        return peers

    async def measure(
        self,
        *figures: Figure,
        run: Run,
        peers: Mapping[str, Run] | None = None,
        repeats: int | None = None,
    ) -> None:
        """Measure figures that come from one run. A peer may return only some of them."""
        if not self.wants_any(figures):
            return
        try:
            own, others = await _alternate(figures, run, peers or {}, repeats or self.repeats)
        except ArgosyError as error:
            self.record_error(figures, error)
            return
        for figure in figures:
            found = {name: values[figure.id] for name, values in others.items() if figure.id in values}
            self.record(figure, own[figure.id], found)

    async def attempt(self, figures: Sequence[Figure], measure: Callable[[], Awaitable[None]]) -> None:
        """Run a measurement if one of its figures is selected. If it fails, its figures without a result get the error.

        So one broken server or peer costs its own figures and not the rest of a run that takes minutes.
        """
        if not self.wants_any(figures):
            return
        try:
            await measure()
        except ArgosyError as error:
            done = {result.figure.id for result in self.results}
            self.record_error([figure for figure in figures if figure.id not in done], error)

    def record(
        self, figure: Figure, values: Sequence[float], peers: Mapping[str, Sequence[float]] | None = None
    ) -> None:
        """Record a figure from values that the benchmark measured itself."""
        medians = {name: statistics.median(found) for name, found in (peers or {}).items()}
        spread = (min(values), max(values))
        self._add(FigureResult(figure, self._command(figure), statistics.median(values), spread, medians))

    def record_error(self, figures: Sequence[Figure], error: ArgosyError) -> None:
        """Record that these figures could not be measured, and why."""
        for figure in figures:
            self._add(FigureResult(figure, self._command(figure), None, error=str(error)))

    def _command(self, figure: Figure) -> str:
        quick = " --quick" if self.is_quick else ""
        # Only the last path component: results are published, and local paths should not be.
        corpus = f" --corpus {basename(normpath(self.corpus))}" if self.corpus else ""
        return f"argosy bench {self.name}{quick}{corpus} --only {figure.id}"

    def _add(self, result: FigureResult) -> None:
        if not self.wants(result.figure.id):
            return
        self.results.append(result)
        self.progress(result.figure.id)


async def _alternate(
    figures: Sequence[Figure], run: Run, peers: Mapping[str, Run], times: int
) -> tuple[dict[str, list[float]], dict[str, dict[str, list[float]]]]:
    """The values of Argosy and of each peer, by figure. One run of each follows the other.

    All runs of one before all of the next would compare two different minutes of the machine: its clock speed, its page
    cache and its other load change slower than a run takes.
    """
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


async def _values(run: Run, figures: Sequence[Figure]) -> Values:
    returned = run()
    values = await returned if inspect.isawaitable(returned) else returned
    return values if isinstance(values, Mapping) else {figures[0].id: values}


def percentile(values: Iterable[float], share: float) -> float:
    """The nearest-rank percentile: always a measured value, never an interpolated one."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


def load_bench(name: str) -> BenchFunction:
    """Import the benchmark with this name."""
    if name not in BENCHES:
        raise NotFound(f"benchmark {name!r} not found; available: {', '.join(sorted(BENCHES))}")
    module, _, function = BENCHES[name].partition(":")
    found: BenchFunction = getattr(import_module(module), function)
    return found


def load_peers(name: str) -> Any | None:
    """Import `bench/peers/NAME.py` of the checkout that this package runs from; None if it is an installed wheel."""
    if not (PEERS / "__init__.py").is_file():
        return None
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))  # last, so that a directory of the checkout hides no installed package
    return import_module(f"bench.peers.{name}")


def summary(name: str) -> str:
    """One line on what a benchmark measures, or on the module that is not installed."""
    try:
        return (load_bench(name).__doc__ or "").partition("\n")[0]
    except ModuleNotFoundError as error:
        return f"not available: module {error.name} is not installed"
