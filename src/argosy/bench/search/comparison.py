"""Every query on every program, several rounds, and the figures that result.

Programs alternate with every query, so that other load on the machine affects all alike. CPU time is measured with one
thread each, because it is the cost of the work and hardly depends on other load; wall time with as many threads as
there are cores, because it is what a user waits for. A query that took seconds is not repeated: its noise is small
beside it, and a round over a gigabyte takes half an hour as it is.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from argosy.base.errors import ArgosyError
from argosy.bench.harness import Bench
from argosy.bench.search import figures
from argosy.bench.search.bench_query import FORMS, KINDS, MEASURES, BenchQuery, Form, Kind, Measure
from argosy.bench.search.programs import CpuAndWall

OURS = "argosy"
LONG_MS = 1_000.0  # of wall time; a slower query is run once, and that value counts for every round


class ComparedSearcher(Protocol):
    """Argosy or a peer."""

    @property
    def is_threaded(self) -> bool: ...

    def run_query(self, query: BenchQuery, form: Form, threads: int) -> CpuAndWall: ...


@dataclass
class Comparison:
    """Milliseconds by program, form, measure and query; one value for each round."""

    queries: Mapping[Kind, Sequence[BenchQuery]]
    cores: int
    samples: dict[tuple[str, Form, Measure, BenchQuery], list[float]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    _failed: set[tuple[str, Form, BenchQuery]] = field(default_factory=set)

    def run_round(self, form: Form, searchers: Mapping[str, ComparedSearcher], progress: Callable[[str], None]) -> None:
        for kind, queries in self.queries.items():
            for query in queries:
                progress(f"{form} {kind}: {query.text}")
                for name, searcher in searchers.items():
                    if (name, form, query) not in self._failed:
                        self._run(name, form, query, searcher)

    def _run(self, name: str, form: Form, query: BenchQuery, searcher: ComparedSearcher) -> None:
        recorded = [self.samples.get((name, form, measure, query), []) for measure in MEASURES]
        if all(recorded) and recorded[-1][0] > LONG_MS:
            for values in recorded:
                values.append(values[0])
            return
        try:
            single = searcher.run_query(query, form, 1)
            # A single-threaded program would do the same work again.
            is_parallel = searcher.is_threaded and self.cores > 1
            parallel = searcher.run_query(query, form, self.cores) if is_parallel else single
        except ArgosyError as error:
            self._exclude(name, form, query, error)
            return
        for measure, value_s in zip(MEASURES, (single.cpu_s, parallel.wall_s), strict=True):
            self.samples.setdefault((name, form, measure, query), []).append(value_s * 1e3)

    def _exclude(self, name: str, form: Form, query: BenchQuery, error: ArgosyError) -> None:
        """A query that a program fails once is not run on it again: medians need a value from every round."""
        self._failed.add((name, form, query))
        self.failures.append(f"{name} could not answer {query.text} in form {form}: {error}")
        for measure in MEASURES:
            self.samples.pop((name, form, measure, query), None)

    def per_query(self, name: str, form: Form, measure: Measure, kind: Kind) -> dict[BenchQuery, float]:
        """Each query's median over the rounds."""
        keys = {query: (name, form, measure, query) for query in self.queries[kind]}
        return {query: statistics.median(self.samples[key]) for query, key in keys.items() if key in self.samples}

    def per_round(self, name: str, form: Form, measure: Measure, kind: Kind) -> list[float]:
        """Each round's median over the queries of the class."""
        keys = [(name, form, measure, query) for query in self.queries[kind]]
        rounds = [self.samples[key] for key in keys if key in self.samples]
        return [statistics.median(values) for values in zip(*rounds, strict=True)]

    def times(self, name: str, form: Form, measure: Measure, kind: Kind) -> float | None:
        """How many times more than Argosy the median query costs the peer; None if it ran none of them."""
        ours, theirs = (self.per_query(each, form, measure, kind) for each in (OURS, name))
        both = [query for query in ours if query in theirs]
        if not both:
            return None
        return statistics.median(theirs[query] for query in both) / statistics.median(ours[query] for query in both)

    def least_times(self, name: str, form: Form, measure: Measure) -> tuple[float, BenchQuery] | None:
        """The query on which the peer comes closest to Argosy, or is faster. A median would hide it."""
        found = [
            (theirs[query] / ours, query)
            for kind in self.queries
            for theirs in [self.per_query(name, form, measure, kind)]
            for query, ours in self.per_query(OURS, form, measure, kind).items()
            if query in theirs
        ]
        return min(found, key=lambda each: each[0], default=None)

    def raw(self) -> list[dict[str, Any]]:
        """All values: a record for each query and form."""
        records: dict[tuple[BenchQuery, Form], dict[str, Any]] = {}
        for (name, form, measure, query), values in self.samples.items():
            record = records.setdefault((query, form), {"class": query.kind, "query": query.text, "form": form})
            record.setdefault(name, {})[f"{measure}_ms"] = [round(value, 4) for value in values]
        return list(records.values())


def p95(values: Sequence[float]) -> float:
    """The least value that 95 of 100 do not exceed; of fewer than twenty, the greatest."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]


# -- figures ----------------------------------------------------------------------------------------------------------


def record_latencies(bench: Bench, comparison: Comparison, peers: Sequence[str]) -> None:
    for form in FORMS:
        for kind in KINDS:
            for measure in MEASURES:
                _record_class(bench, comparison, form, kind, measure, peers)
        identifiers = comparison.per_query(OURS, form, "wall", "identifier")
        if identifiers:
            bench.record(figures.identifier_p95(form), [p95(list(identifiers.values()))])


def _record_class(
    bench: Bench, comparison: Comparison, form: Form, kind: Kind, measure: Measure, peers: Sequence[str]
) -> None:
    ours = comparison.per_round(OURS, form, measure, kind)
    if not ours:
        return  # a small corpus may have no query of this class
    theirs = {peer: comparison.per_round(peer, form, measure, kind) for peer in peers}
    bench.record(
        figures.latency(form, kind, measure), ours, {name: values for name, values in theirs.items() if values}
    )


def record_ratios(bench: Bench, comparison: Comparison, peers: Sequence[str]) -> None:
    """Ratios of counting, which is the same work for all; and for each peer the query on which it does best."""
    for peer, kind in figures.TIMES:
        for measure in MEASURES:
            times = comparison.times(peer, "count", measure, kind) if peer in peers else None
            if times is not None:
                bench.record(figures.times(peer, kind, measure), [times])
    for peer in peers:
        for form in FORMS:
            for measure in MEASURES:
                _record_least(bench, comparison, peer, form, measure)


def _record_least(bench: Bench, comparison: Comparison, peer: str, form: Form, measure: Measure) -> None:
    least = comparison.least_times(peer, form, measure)
    if least is None:
        return
    times, query = least
    bench.record(figures.least_times(peer, form, measure), [times])
    if bench.wants(figures.least_times(peer, form, measure).id):
        bench.notes.append(
            f"{peer} comes closest in {form} {measure} on {query.text} ({query.kind}): {times:.3g}x ours"
        )
