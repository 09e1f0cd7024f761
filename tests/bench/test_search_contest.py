"""Everybody is asked in turn, and the figures are what came out of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from argosy.base.errors import Unavailable
from argosy.bench.harness import Bench
from argosy.bench.search.bench_query import KINDS, Ask, Form, Kind
from argosy.bench.search.contest import OURS, Contender, Contest, p95
from argosy.bench.search.latency_figures import record_latencies, record_ratios
from argosy.bench.search.programs import Spent

RARE = [Ask("rare", (word,)) for word in ("one", "two", "three")]
ASKS: dict[Kind, Sequence[Ask]] = {kind: [] for kind in KINDS} | {"rare": RARE}


@dataclass
class Fixed:
    """Answers each question in a fixed time, and keeps the order in a common book."""

    name: str
    cpu_ms: float
    wall_ms: float
    book: list[tuple[str, str, int]] = field(default_factory=list)
    is_threaded: bool = True
    cannot: str = ""

    def ask(self, ask: Ask, form: Form, threads: int) -> Spent:
        if ask.words[0] == self.cannot:
            raise Unavailable("out of breath")
        self.book.append((self.name, ask.words[0], threads))
        times = 1 + RARE.index(ask)
        return Spent(self.cpu_ms * times / 1e3, self.wall_ms * times / threads / 1e3)


def run(*contenders: Fixed, rounds: int = 1) -> Contest:
    contest = Contest(ASKS, cores=2)
    named: dict[str, Contender] = {contender.name: contender for contender in contenders}
    for _ in range(rounds):
        contest.round("count", named, lambda text: None)
    return contest


def test_turns_change_with_every_question() -> None:
    book: list[tuple[str, str, int]] = []
    run(Fixed(OURS, 1, 1, book), Fixed("rg", 9, 9, book, is_threaded=False))
    assert book[:3] == [(OURS, "one", 1), (OURS, "one", 2), ("rg", "one", 1)]
    assert book[3] == (OURS, "two", 1)


def test_cpu_is_of_one_thread_and_wall_of_all_cores() -> None:
    contest = run(Fixed(OURS, 2, 8))
    assert contest.per_round(OURS, "count", "cpu", "rare") == [4.0]
    assert contest.per_round(OURS, "count", "wall", "rare") == [8.0]


def test_ratios_are_of_medians_and_of_the_worst_question() -> None:
    contest = run(Fixed(OURS, 1, 1), Fixed("rg", 50, 50), rounds=3)
    contest.samples["rg", "count", "cpu", RARE[2]] = [1.5] * 3
    assert contest.times("rg", "count", "cpu", "rare") == 25.0  # 50, 100 and 1.5 against 1, 2 and 3
    assert contest.least_times("rg", "count", "cpu") == (0.5, RARE[2])
    assert contest.times("csearch", "count", "cpu", "rare") is None
    assert contest.least_times("csearch", "count", "cpu") is None


def test_a_question_that_a_peer_cannot_answer_is_told_and_left_out_for_it() -> None:
    contest = run(Fixed(OURS, 1, 1), Fixed("rg", 10, 10, cannot="two"), rounds=2)
    assert contest.failures == ["rg could not answer content:two in form count: out of breath"]
    assert set(contest.per_ask("rg", "count", "cpu", "rare")) == {RARE[0], RARE[2]}
    assert contest.times("rg", "count", "cpu", "rare") == 10.0
    assert len(contest.per_round("rg", "count", "cpu", "rare")) == 2


def test_figures_are_told_with_peers_and_goals() -> None:
    contest = run(Fixed(OURS, 1, 2), Fixed("rg", 200, 100), rounds=2)
    bench = Bench("search")
    record_latencies(bench, contest, ["rg"])
    record_ratios(bench, contest, ["rg"])
    told = {result.figure.id: (result.value, dict(result.peers), result.is_ok) for result in bench.results}
    assert told == {
        "count.rare.cpu": (2.0, {"rg": 400.0}, True),
        "count.rare.wall": (2.0, {"rg": 100.0}, True),
        "times.rg.rare.cpu": (200.0, {}, True),
        "times.rg.rare.wall": (50.0, {}, False),
        "least_times.rg.count.cpu": (200.0, {}, True),
        "least_times.rg.count.wall": (50.0, {}, True),
    }
    assert "rg comes closest in count cpu on content:one (rare): 200x ours" in bench.notes


def test_raw_values_are_kept_by_question_and_form() -> None:
    (first, *_) = run(Fixed(OURS, 1, 2), rounds=2).raw()
    assert first == {
        "class": "rare",
        "query": "content:one",
        "form": "count",
        OURS: {"cpu_ms": [1.0, 1.0], "wall_ms": [1.0, 1.0]},
    }


def test_of_few_values_the_greatest_is_the_95th_percentile() -> None:
    assert p95([3.0, 1.0, 2.0]) == 3.0
    assert p95([float(value) for value in range(1, 101)]) == 95.0


def test_who_takes_seconds_is_asked_once() -> None:
    slow = Fixed("git grep", 900, 2_400, is_threaded=False)
    contest = run(slow, rounds=3)
    assert [ask for _, ask, _ in slow.book] == ["one", "two", "three"]
    assert contest.per_round("git grep", "count", "wall", "rare") == [4_800.0] * 3
    assert contest.per_round("git grep", "count", "cpu", "rare") == [1_800.0] * 3
