"""The evaluator's scenarios: arrivals, the capacity of the resource, and the fairness measure."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.sim.throttle_load import (
    SCENARIOS,
    ClientClass,
    LimitedResource,
    Request,
    Scenario,
    arrivals,
    fair_shares,
    jain,
    play,
    scenario,
)

TINY = Scenario("tiny", 1, 10, 5, (ClientClass("heal", 2, 1), ClientClass("late", 1, 20, 4, 6)))


class FixedAdmission:
    """Rejects the given clients, and records the outcomes of the others."""

    def __init__(self, *unwanted: str) -> None:
        self._unwanted = unwanted
        self.learnt: list[tuple[str, bool]] = []

    def admit(self, request: Request) -> bool:
        return request.client not in self._unwanted

    def on_result(self, request: Request, is_served: bool) -> None:
        self.learnt.append((request.client, is_served))


def test_scenarios_are_those_of_the_original() -> None:
    outcomes = {
        name: (each.seed, each.duration_s, each.capacity_per_s, kinds)
        for name, each in SCENARIOS.items()
        for kinds in [[(kind.clients, kind.rate_per_s) for kind in each.classes]]
    }
    assert outcomes == {
        "noisy": (1000, 300, 100, [(180, 0.5), (20, 10)]),
        "flash": (1001, 120, 300, [(500, 1)]),
        "surge": (1002, 360, 120, [(100, 1), (10, 30)]),
    }
    assert (SCENARIOS["surge"].classes[1].begins_s, SCENARIOS["surge"].classes[1].ends_s) == (90, 270)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_number_of_arrivals_follows_the_rates(name: str) -> None:
    wanted = SCENARIOS[name]
    expected = sum(
        kind.clients * kind.rate_per_s * (min(kind.ends_s, wanted.duration_s) - kind.begins_s)
        for kind in wanted.classes
    )
    assert len(arrivals(wanted, wanted.seed)) == pytest.approx(expected, rel=0.02)


def test_arrivals_are_in_order_within_their_time_and_repeat() -> None:
    found = arrivals(TINY, 3)
    assert found == arrivals(TINY, 3) != arrivals(TINY, 4)
    assert all(one <= two for one, two in pairwise(found))
    assert {request.client for request in found} == {"heal-000", "heal-001", "late-000"}
    assert all(4 < request.at_s < 6 for request in found if request.client == "late-000")
    assert all(0 < request.at_s < 10 for request in found)


def test_an_unknown_scenario_is_an_error() -> None:
    with pytest.raises(Invalid, match="scenario 'quiet' not found; available: noisy, flash, surge"):
        scenario("quiet")


def test_the_resource_is_full_at_first_and_filled_steadily() -> None:
    resource = LimitedResource(2)
    taken = [resource.take(at) for at in (0.0, 0.0, 0.0, 0.25, 0.5, 0.75, 1.0)]
    assert taken == [True, True, False, False, True, False, True]
    assert [resource.take(100.0) for _ in range(3)] == [True, True, False]


def test_a_throttled_request_takes_no_capacity_and_has_no_result() -> None:
    requests = [Request(0.0, 0, "a"), Request(0.0, 1, "b"), Request(0.0, 0, "a")]
    wanted = Scenario("two", 1, 1, 1, (ClientClass("x", 2, 1),))
    admission = FixedAdmission("b")
    found = play(wanted, requests, admission)
    assert admission.learnt == [("a", True), ("a", False)]
    assert (found.served, found.failed, found.throttled, found.requests) == (1, 1, 1, 3)
    assert found.ratios == (1.0, 0.0)  # capacity 2 and burst: each is entitled to one
    assert (found.entitlement_jain, found.worst_ratio, found.utilisation) == (0.5, 0.0, 0.5)


def test_clients_without_demand_do_not_count_in_fairness() -> None:
    wanted = Scenario("two", 1, 1, 1, (ClientClass("x", 2, 1),))
    found = play(wanted, [Request(0.0, 0, "a")], FixedAdmission())
    assert (found.entitlement_jain, found.ratios) == (1.0, (1.0, 1.0))


@pytest.mark.parametrize(("values", "index"), [([1, 1, 1, 1], 1.0), ([1, 0, 0, 0], 0.25), ([3, 1], 0.8), ([0, 0], 1.0)])
def test_jains_index(values: list[float], index: float) -> None:
    assert jain(values) == pytest.approx(index)


def test_unused_share_is_redistributed() -> None:
    assert fair_shares({0: 1, 1: 10, 2: 10}, 9) == {0: 1, 1: 4, 2: 4}


@given(demand=st.lists(st.integers(0, 50), min_size=1, max_size=20), capacity=st.floats(0, 500))
def test_shares_meet_demand_add_up_and_are_maximal(demand: list[int], capacity: float) -> None:
    shares = fair_shares(dict(enumerate(demand)), capacity)
    assert all(0 <= shares[number] <= wanted + 1e-9 for number, wanted in enumerate(demand))
    assert sum(shares.values()) == pytest.approx(min(capacity, sum(demand)))
    short = [shares[number] for number, wanted in enumerate(demand) if shares[number] < wanted - 1e-9]
    assert all(share >= max(shares.values()) - 1e-6 for share in short)
