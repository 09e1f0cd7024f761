"""One harness for all benches: turns are taken, medians are told, nothing is made up."""

import pytest

from argosy.base.errors import Invalid, NotFound
from argosy.bench import harness, machine, report
from argosy.bench.harness import Bench, Figure

LATENCY = Figure("fake.latency", "ms", "lower", goal=5)
RATE = Figure("fake.rate", "1/s", "higher", goal=100)


async def test_the_value_is_the_median_and_the_spread_its_ends() -> None:
    values = iter([9.0, 1.0, 4.0])
    bench = Bench("fake", is_quick=True)
    await bench.measure(LATENCY, run=lambda: next(values))
    (result,) = bench.results
    assert (result.value, result.spread, result.is_ok) == (4.0, (1.0, 9.0), True)


async def test_own_runs_and_peers_take_turns() -> None:
    order: list[str] = []

    async def own() -> float:
        order.append("own")
        return 1.0

    def peer() -> float:
        order.append("peer")
        return 2.0

    bench = Bench("fake")
    await bench.measure(LATENCY, run=own, peers={"other": peer}, repeats=3)
    assert order == ["own", "peer"] * 3
    assert bench.results[0].peers == {"other": 2.0}


async def test_one_run_may_tell_several_figures_and_a_peer_only_some() -> None:
    bench = Bench("fake")
    await bench.measure(
        LATENCY, RATE, run=lambda: {LATENCY.id: 4.0, RATE.id: 50.0}, peers={"other": lambda: {RATE.id: 25.0}}
    )
    assert [(each.figure.id, each.is_ok, dict(each.peers)) for each in bench.results] == [
        ("fake.latency", True, {}),
        ("fake.rate", False, {"other": 25.0}),
    ]


async def test_a_run_that_leaves_out_a_figure_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="left out a figure"):
        await Bench("fake").measure(LATENCY, RATE, run=lambda: {LATENCY.id: 4.0})


@pytest.mark.parametrize(
    ("better", "value", "is_met"), [("lower", 5, True), ("lower", 6, False), ("higher", 5, True), ("higher", 4, False)]
)
def test_a_goal_is_met_at_the_goal_itself(better: harness.Better, value: float, is_met: bool) -> None:
    assert Figure("x", "s", better, goal=5).is_met(value) is is_met


def test_without_a_goal_every_value_will_do() -> None:
    assert Figure("x", "s", "lower").is_met(1e9)


async def test_what_cannot_be_measured_says_why_and_is_not_ok() -> None:
    def run() -> float:
        raise Invalid("the server is not installed: run `make setup`")

    bench = Bench("fake")
    await bench.measure(LATENCY, run=run)
    (told,) = report.as_json("fake", {}, "c0ffee", bench.results)["results"]
    assert (told["value"], told["ok"], told["error"]) == (None, False, "the server is not installed: run `make setup`")


async def test_only_what_was_asked_for_is_measured() -> None:
    bench = Bench("fake", only="rate")
    await bench.measure(LATENCY, run=lambda: 1.0)
    await bench.measure(RATE, LATENCY, run=lambda: {RATE.id: 1.0, LATENCY.id: 1.0})
    assert [result.figure for result in bench.results] == [RATE]


async def test_the_json_has_exactly_the_promised_fields() -> None:
    bench = Bench("fake", is_quick=True)
    await bench.measure(RATE, run=lambda: 123456.789, peers={"other": lambda: 61728.0})
    told = report.as_json("fake", machine.describe(), "c0ffee", bench.results)
    assert set(told) == {"bench", "machine", "commit", "results"}
    assert told["results"] == [
        {
            "id": "fake.rate",
            "value": 123500,
            "unit": "1/s",
            "better": "higher",
            "goal": 100,
            "ok": True,
            "peers": {"other": 61730},
            "command": "argosy bench fake --quick --only fake.rate",
            "spread": [123500, 123500],
        }
    ]


async def test_the_table_shows_how_many_times_better_we_are() -> None:
    bench = Bench("fake")
    await bench.measure(RATE, run=lambda: 200.0, peers={"slow": lambda: 100.0})
    await bench.measure(LATENCY, run=lambda: 8.0, peers={"fast": lambda: 4.0})
    peers = [row[-1] for row in report.as_rows(bench.results)]
    assert peers == ["slow 100.0 (2x)", "fast 4.0 (0.5x)"]


def test_a_ratio_with_zero_is_not_told() -> None:
    assert report.ratio(0.0, 1.0, "lower") is None


def test_every_bench_is_found_and_says_what_it_measures() -> None:
    assert all(harness.summary(name) for name in harness.BENCHES)


def test_an_unknown_bench_is_told_what_there_is() -> None:
    with pytest.raises(NotFound, match=r"benchmark 'nope' not found; available: .*ownership"):
        harness.find("nope")


def test_the_machine_is_described() -> None:
    told = machine.describe()
    assert told["cores"] >= 1
    assert told["memory_bytes"] > 1 << 20
    assert len(told["load"]) == 3
