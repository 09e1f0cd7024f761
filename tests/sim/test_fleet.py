"""`argosy sim fleet`: the stats an operator tunes by."""

import os
import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree

import msgspec
import pytest

from argosy.base.errors import Invalid
from argosy.sim.fleet import run_fleet
from argosy.sim.plot import draw_fleet
from argosy.sim.report import FleetPlan, FleetReport, failover_figures, percentile
from argosy.sim.svg import ticks

SMALL = FleetPlan(repos=40, nodes=5, seed=3, headroom=3.0)


@pytest.fixture(scope="module")
def report() -> FleetReport:
    return run_fleet(SMALL)


def test_a_small_fleet_converges_to_own_and_serve_everything(report: FleetReport) -> None:
    assert report.is_settled
    assert report.violations == ()
    assert report.first_owned_s is not None
    assert report.all_owned_s is not None
    assert report.all_ready_s is not None
    assert report.first_owned_s < report.all_owned_s <= report.all_ready_s < report.duration_s
    assert report.owned[-1][1:] == (40, 40)


def test_auctions_and_bids_add_up(report: FleetReport) -> None:
    auctions = report.auctions
    assert auctions.started == auctions.short_circuited + auctions.timed_out
    assert auctions.started - auctions.no_winner >= 40 + report.failover.repos + report.evictions.reclaims
    assert auctions.bids >= auctions.started


def test_a_killed_nodes_repos_fail_over_after_its_ttl(report: FleetReport) -> None:
    failover = report.failover
    assert failover.kills == 1
    assert failover.repos == len(failover.times_s) > 0
    assert failover.p50_s is not None
    assert failover.p95_s is not None
    assert SMALL.ttl_s * 0.6 < failover.p50_s <= failover.p95_s
    assert report.moves >= failover.repos
    assert len(report.memory.held_mib) == 4


def test_free_memory_as_the_bid_balances_the_fleet(report: FleetReport) -> None:
    heal = run_fleet(replace(SMALL, repos=60, kill=0, drain=0, grow=0.0, commits=0.0))
    assert heal.memory.variation < 0.25


def test_commits_are_found_and_served(report: FleetReport) -> None:
    refresh = report.refresh
    assert refresh.commits == 4
    assert refresh.p50_s is not None
    assert refresh.max_s is not None
    assert 0 < refresh.p50_s <= refresh.max_s < 90.0, "a poll each minute, and a short build"


def test_a_drained_nodes_indexes_are_streamed_and_none_goes_unserved(report: FleetReport) -> None:
    assert report.drain.drains == 1
    assert report.drain.unserved == 0
    assert report.provisioned.received >= report.drain.repos > 0
    assert report.drain.max_s is not None
    assert report.drain.max_s < 30.0


def test_a_unit_that_outgrows_a_node_is_evicted_and_claimed_by_others(report: FleetReport) -> None:
    assert report.evictions.reclaims == report.evictions.evictions > 0
    assert report.provisioned.built >= 40 + report.failover.repos + report.evictions.reclaims
    assert all(held < report.memory.node_budget_mib for held in report.memory.held_mib.values())


def test_with_replicas_a_death_leaves_nothing_unserved() -> None:
    copied = run_fleet(replace(SMALL, repos=10, replicas=1, drain=0, grow=0.0, commits=0.0))
    assert copied.is_settled
    assert copied.failover.repos > 0
    assert copied.failover.max_s == 0.0


def test_two_runs_in_two_interpreters_give_the_same_bytes(report: FleetReport) -> None:
    program = (
        "import sys; from argosy.sim.fleet import run_fleet; from argosy.sim.report import FleetPlan;"
        "sys.stdout.buffer.write(run_fleet(FleetPlan(repos=40, nodes=5, seed=3, headroom=3.0)).to_json())"
    )
    for hash_seed in ("0", "123"):
        environ = {**os.environ, "PYTHONHASHSEED": hash_seed}
        again = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, check=True)
        assert again.stdout == report.to_json()


def test_another_seed_is_another_fleet(report: FleetReport) -> None:
    assert run_fleet(replace(SMALL, seed=4)).fingerprint != report.fingerprint


def test_the_json_can_be_read_back(report: FleetReport) -> None:
    assert msgspec.json.decode(report.to_json(), type=FleetReport) == report


def test_a_fleet_without_room_is_reported_as_not_settled() -> None:
    cramped = run_fleet(replace(SMALL, headroom=0.8, kill=0, ttl_s=5.0, window_s=5.0))
    assert not cramped.is_settled
    assert cramped.all_ready_s is None
    assert cramped.scale[-1][1] > cramped.scale[-1][2], "and more nodes are requested"


def test_progress_only_grows() -> None:
    seen: list[float] = []
    run_fleet(SMALL, lambda fraction, text: seen.append(fraction))
    assert seen[-1] == 1.0
    assert all(0 <= fraction <= 1 for fraction in seen)
    assert seen == sorted(seen)


@pytest.mark.parametrize(
    "wrong",
    [{"nodes": 0}, {"repos": 0}, {"kill": 5}, {"kill": -1}, {"ttl_s": 0.0}, {"headroom": -1.0},
     {"drain": 6}, {"replicas": 9}, {"commits": 2.0}, {"grow": 9.0},
     {"stream_mib_per_s": 0.0}],
)  # fmt: skip
def test_an_invalid_plan_is_rejected(wrong: dict[str, float]) -> None:
    with pytest.raises(Invalid):
        replace(SMALL, **wrong)  # type: ignore[arg-type]


def test_percentiles_are_nearest_ranks() -> None:
    values = [float(i) for i in range(1, 101)]
    assert percentile(values, 0.5) == 50
    assert percentile(values, 0.95) == 95
    assert percentile(values, 1.0) == 100
    assert percentile([7.0], 0.5) == 7
    assert percentile([], 0.5) is None


def test_the_picture_is_well_formed_and_has_titles(report: FleetReport) -> None:
    drawn = ElementTree.fromstring(draw_fleet(report))
    texts = {element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert {"40 repos on 5 nodes", "time (s)", "repos", "held (MiB)", "Repos owned and ready", "budget"} <= texts


def test_a_fleet_without_deaths_can_be_drawn(report: FleetReport) -> None:
    heal = replace(report, failover=failover_figures(0, []))
    assert "no node was killed" in draw_fleet(heal)


@pytest.mark.parametrize("high", [0.0, 0.03, 1.0, 7.0, 499.0, 500.0, 123_456.0])
def test_ticks_are_few_round_and_reach_the_top(high: float) -> None:
    marks = ticks(high)
    assert marks[0] == 0
    assert marks[-1] >= high
    assert 2 <= len(marks) <= 7
