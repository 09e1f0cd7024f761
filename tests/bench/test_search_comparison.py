"""The comparison: programs alternate with every query, and the figures follow from their times."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from argosy.base.errors import Unavailable
from argosy.bench.harness import Bench
from argosy.bench.search.bench_query import KINDS, BenchQuery, Form, Kind
from argosy.bench.search.comparison import OURS, ComparedSearcher, Comparison, p95, record_latencies, record_ratios
from argosy.bench.search.programs import CpuAndWall

RARE = [BenchQuery("rare", (word,)) for word in ("one", "two", "three")]
QUERIES: dict[Kind, Sequence[BenchQuery]] = {kind: [] for kind in KINDS} | {"rare": RARE}


@dataclass
class FixedSearcher:
    """Takes a fixed time for each query, and records the order in a shared log."""

    name: str
    cpu_ms: float
    wall_ms: float
    log: list[tuple[str, str, int]] = field(default_factory=list)
    is_threaded: bool = True
    failing: str = ""

    def run_query(self, query: BenchQuery, form: Form, threads: int) -> CpuAndWall:
        if query.words[0] == self.failing:
            raise Unavailable("out of memory")
        self.log.append((self.name, query.words[0], threads))
        times = 1 + RARE.index(query)
        return CpuAndWall(self.cpu_ms * times / 1e3, self.wall_ms * times / threads / 1e3)


def run(*searchers: FixedSearcher, rounds: int = 1) -> Comparison:
    comparison = Comparison(QUERIES, cores=2)
    by_name: dict[str, ComparedSearcher] = {each.name: each for each in searchers}
    for _ in range(rounds):
        comparison.run_round("count", by_name, lambda text: None)
    return comparison


def test_programs_alternate_with_every_query() -> None:
    log: list[tuple[str, str, int]] = []
    run(FixedSearcher(OURS, 1, 1, log), FixedSearcher("rg", 9, 9, log, is_threaded=False))
    assert log[:3] == [(OURS, "one", 1), (OURS, "one", 2), ("rg", "one", 1)]
    assert log[3] == (OURS, "two", 1)


def test_cpu_is_of_one_thread_and_wall_of_all_cores() -> None:
    comparison = run(FixedSearcher(OURS, 2, 8))
    assert comparison.per_round(OURS, "count", "cpu", "rare") == [4.0]
    assert comparison.per_round(OURS, "count", "wall", "rare") == [8.0]


def test_ratios_are_of_medians_and_of_the_worst_query() -> None:
    comparison = run(FixedSearcher(OURS, 1, 1), FixedSearcher("rg", 50, 50), rounds=3)
    comparison.samples["rg", "count", "cpu", RARE[2]] = [1.5] * 3
    assert comparison.times("rg", "count", "cpu", "rare") == 25.0  # 50, 100 and 1.5 against 1, 2 and 3
    assert comparison.least_times("rg", "count", "cpu") == (0.5, RARE[2])
    assert comparison.times("csearch", "count", "cpu", "rare") is None
    assert comparison.least_times("csearch", "count", "cpu") is None


def test_a_query_that_a_peer_cannot_run_is_reported_and_excluded_for_it() -> None:
    comparison = run(FixedSearcher(OURS, 1, 1), FixedSearcher("rg", 10, 10, failing="two"), rounds=2)
    assert comparison.failures == ["rg could not answer content:two in form count: out of memory"]
    assert set(comparison.per_query("rg", "count", "cpu", "rare")) == {RARE[0], RARE[2]}
    assert comparison.times("rg", "count", "cpu", "rare") == 10.0
    assert len(comparison.per_round("rg", "count", "cpu", "rare")) == 2


def test_figures_have_peers_and_goals() -> None:
    comparison = run(FixedSearcher(OURS, 1, 2), FixedSearcher("rg", 200, 100), rounds=2)
    bench = Bench("search")
    record_latencies(bench, comparison, ["rg"])
    record_ratios(bench, comparison, ["rg"])
    recorded = {result.figure.id: (result.value, dict(result.peers), result.is_ok) for result in bench.results}
    assert recorded == {
        "count.rare.cpu": (2.0, {"rg": 400.0}, True),
        "count.rare.wall": (2.0, {"rg": 100.0}, True),
        "times.rg.rare.cpu": (200.0, {}, True),
        "times.rg.rare.wall": (50.0, {}, False),
        "least_times.rg.count.cpu": (200.0, {}, True),
        "least_times.rg.count.wall": (50.0, {}, True),
    }
    assert "rg comes closest in count cpu on content:one (rare): 200x ours" in bench.notes


def test_raw_values_are_by_query_and_form() -> None:
    (first, *_) = run(FixedSearcher(OURS, 1, 2), rounds=2).raw()
    assert first == {
        "class": "rare",
        "query": "content:one",
        "form": "count",
        OURS: {"cpu_ms": [1.0, 1.0], "wall_ms": [1.0, 1.0]},
    }


def test_of_few_values_the_greatest_is_the_95th_percentile() -> None:
    assert p95([3.0, 1.0, 2.0]) == 3.0
    assert p95([float(value) for value in range(1, 101)]) == 95.0


def test_a_query_that_takes_seconds_is_run_once() -> None:
    slow = FixedSearcher("git grep", 900, 2_400, is_threaded=False)
    comparison = run(slow, rounds=3)
    assert [query for _, query, _ in slow.log] == ["one", "two", "three"]
    assert comparison.per_round("git grep", "count", "wall", "rare") == [4_800.0] * 3
    assert comparison.per_round("git grep", "count", "cpu", "rare") == [1_800.0] * 3
