"""The harness: runs alternate, values are medians, and what cannot be measured has no value."""

from pathlib import Path

import pytest

from argosy.base.errors import Invalid, NotFound
from argosy.bench import harness, machine, report
from argosy.bench.harness import Bench, Figure

LATENCY = Figure("fake.latency", "ms", "lower", goal=5)
RATE = Figure("fake.rate", "1/s", "higher", goal=100)


async def test_value_is_the_median_and_spread_the_extremes() -> None:
    values = iter([9.0, 1.0, 4.0])
    bench = Bench("fake", is_quick=True)
    await bench.measure(LATENCY, run=lambda: next(values))
    (result,) = bench.results
    assert (result.value, result.spread, result.is_ok) == (4.0, (1.0, 9.0), True)


async def test_own_runs_and_peers_alternate() -> None:
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


async def test_one_run_may_return_several_figures_and_a_peer_only_some() -> None:
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


def test_without_a_goal_every_value_is_ok() -> None:
    assert Figure("x", "s", "lower").is_met(1e9)


async def test_a_figure_that_cannot_be_measured_has_the_error_and_is_not_ok() -> None:
    def run() -> float:
        raise Invalid("the server is not installed: run `make setup`")

    bench = Bench("fake")
    await bench.measure(LATENCY, run=run)
    (result,) = report.to_json("fake", {}, "c0ffee", bench.results)["results"]
    assert (result["value"], result["ok"], result["error"]) == (
        None,
        False,
        "the server is not installed: run `make setup`",
    )


async def test_only_selected_figures_are_measured() -> None:
    bench = Bench("fake", only="rate")
    await bench.measure(LATENCY, run=lambda: 1.0)
    await bench.measure(RATE, LATENCY, run=lambda: {RATE.id: 1.0, LATENCY.id: 1.0})
    assert [result.figure for result in bench.results] == [RATE]


async def test_json_has_exactly_the_documented_fields() -> None:
    bench = Bench("fake", is_quick=True)
    await bench.measure(RATE, run=lambda: 123456.789, peers={"other": lambda: 61728.0})
    results = report.to_json("fake", machine.describe(), "c0ffee", bench.results)
    assert set(results) == {"bench", "machine", "commit", "results"}
    assert results["results"] == [
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


async def test_table_shows_the_ratio_to_each_peer() -> None:
    bench = Bench("fake")
    await bench.measure(RATE, run=lambda: 200.0, peers={"slow": lambda: 100.0})
    await bench.measure(LATENCY, run=lambda: 8.0, peers={"fast": lambda: 4.0})
    peers = [row[-1] for row in report.to_rows(bench.results)]
    assert peers == ["slow 100.0 (2x)", "fast 4.0 (0.5x)"]


def test_ratio_with_zero_is_none() -> None:
    assert report.ratio(0.0, 1.0, "lower") is None


def test_every_benchmark_is_found_and_has_a_summary() -> None:
    assert all(harness.summary(name) for name in harness.BENCHES)


def test_unknown_benchmark_error_lists_the_available_ones() -> None:
    with pytest.raises(NotFound, match=r"benchmark 'nope' not found; available: .*ownership"):
        harness.load_bench("nope")


def test_the_machine_is_described() -> None:
    described = machine.describe()
    assert described["cores"] >= 1
    assert described["memory_bytes"] > 1 << 20
    assert len(described["load"]) == 3


async def test_a_failed_measurement_costs_only_its_own_figures_without_a_result() -> None:
    bench = Bench("fake")

    async def measure() -> None:
        bench.record(LATENCY, [1.0])
        raise Invalid("the disk is full")

    await bench.attempt((LATENCY, RATE), measure)
    assert [(each.figure, each.value, each.error) for each in bench.results] == [
        (LATENCY, 1.0, None),
        (RATE, None, "the disk is full"),
    ]


def test_percentile_is_one_of_the_values() -> None:
    assert harness.percentile([5.0], 0.99) == 5.0
    assert [harness.percentile(range(100), share) for share in (0.0, 0.5, 0.99, 1.0)] == [0, 50, 99, 99]


@pytest.mark.parametrize("name", sorted(set(harness.BENCHES) - {"fleet"}))
def test_a_checkout_has_the_peers_of_every_benchmark(name: str) -> None:
    assert harness.load_peers(name) is not None


def test_without_a_checkout_there_are_no_peers_and_one_note_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(harness, "PEERS", tmp_path)
    bench = Bench("ownership")
    assert [bench.load_peers(), bench.load_peers("search")] == [None, None]
    assert bench.notes == ["peers: not measured; their adapters are in a checkout of the repository only"]
