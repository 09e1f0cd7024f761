"""Replica choice: the faster and less busy node, new samples over old ones, and no failing nodes."""

from collections import Counter
from typing import Any

from argosy.base.clock import seeded_random
from argosy.gateway.load_balancer import HEDGE_BURST_MAX, LATE_UNKNOWN_S, BreakerState, LoadBalancer
from argosy.gateway.settings import GatewaySettings


def balancer_of(**settings: Any) -> LoadBalancer:
    return LoadBalancer(GatewaySettings(**settings), seeded_random(3))


def request(balancer: LoadBalancer, address: str, took_s: float, now: float = 0.0) -> None:
    balancer.on_start(address, now)
    balancer.on_response(address, took_s, now)


def test_nodes_without_samples_get_about_equal_shares() -> None:
    balancer = balancer_of()
    counts = Counter(balancer.pick(("a", "b", "c"), 0.0) for _ in range(600))
    assert set(counts) == {"a", "b", "c"}
    assert min(counts.values()) > 120


def test_the_faster_node_is_picked() -> None:
    balancer = balancer_of()
    request(balancer, "slow", 0.5)
    request(balancer, "quick", 0.01)
    assert {balancer.pick(("slow", "quick"), 0.0) for _ in range(20)} == {"quick"}


def test_the_faster_node_is_not_picked_when_it_has_far_more_requests() -> None:
    balancer = balancer_of()
    request(balancer, "slow", 0.05)
    request(balancer, "quick", 0.01)
    for _ in range(10):
        balancer.on_start("quick", 0.0)
    assert balancer.pick(("slow", "quick"), 0.0) == "slow"


def test_of_two_nodes_without_samples_the_less_busy_is_picked() -> None:
    balancer = balancer_of()
    balancer.on_start("a", 0.0)
    assert {balancer.pick(("a", "b"), 0.0) for _ in range(10)} == {"b"}


def test_a_node_that_was_slow_is_tried_again_after_a_while() -> None:
    balancer = balancer_of()
    balancer.on_start("a", 0.0)
    balancer.on_overtaken("a", 0.5, 0.0)
    request(balancer, "b", 0.01)
    assert balancer.pick(("a", "b"), 0.0) == "b"
    for second in range(60):
        request(balancer, "b", 0.01, float(second))
    assert balancer.pick(("a", "b"), 60.0) == "a"


def test_a_failing_node_is_not_picked_and_then_probed_once() -> None:
    balancer = balancer_of(breaker_failures=2)
    for _ in range(2):
        balancer.on_start("a", 0.0)
        balancer.on_failure("a", 0.0)
    assert balancer.pick(("a",), 0.0) is None
    assert {balancer.pick(("a", "b"), 0.0) for _ in range(10)} == {"b"}
    at = balancer.breaker("a").retry_at
    assert balancer.pick(("a",), at) == "a"
    balancer.on_start("a", at)
    assert balancer.pick(("a",), at) is None
    balancer.on_response("a", 0.1, at)
    assert balancer.states() == {"a": BreakerState.CLOSED}


def test_a_refusal_is_a_sign_of_life() -> None:
    balancer = balancer_of(breaker_failures=2)
    for _ in range(4):
        balancer.on_start("a", 0.0)
        balancer.on_failure("a", 0.0)
        balancer.on_start("a", 0.0)
        balancer.on_refusal("a", 0.0)
    assert balancer.pick(("a",), 0.0) == "a"


def test_a_stalled_node_has_its_circuit_opened() -> None:
    balancer = balancer_of(stall_s=5.0)
    for _ in range(8):
        balancer.on_start("a", 1.0)
    assert balancer.admits("a", 6.0)
    assert not balancer.admits("a", 6.1)


def test_a_node_with_one_slow_request_does_not_count_as_dead() -> None:
    balancer = balancer_of(stall_s=5.0)
    balancer.on_start("a", 1.0)
    assert balancer.admits("a", 100.0)


def test_a_busy_node_that_responds_now_and_then_does_not_count_as_dead() -> None:
    balancer = balancer_of(stall_s=5.0)
    for _ in range(10):
        balancer.on_start("a", 1.0)
    balancer.on_response("a", 4.0, 5.0)
    assert balancer.admits("a", 9.9)


def test_a_response_is_late_if_later_than_nearly_all_before() -> None:
    balancer = balancer_of(hedge_min_s=0.03)
    assert balancer.hedge_after_s("a") == LATE_UNKNOWN_S
    for i in range(1, 41):
        request(balancer, "a", i / 100)
    assert 0.36 <= balancer.hedge_after_s("a") <= 0.39
    for _ in range(80):
        request(balancer, "a", 0.001)
    assert balancer.hedge_after_s("a") == 0.03


def test_hedged_requests_are_a_small_share_of_all() -> None:
    balancer = balancer_of(hedge_share=0.1)
    burst = 0
    while balancer.may_hedge():
        burst += 1
    assert burst == HEDGE_BURST_MAX
    granted = 0
    for _ in range(1000):
        request(balancer, "a", 0.01)
        granted += balancer.may_hedge()
    assert 95 <= granted <= 100


def test_hedging_can_be_turned_off() -> None:
    assert not balancer_of(with_hedging=False).may_hedge()


def test_removed_nodes_are_dropped_unless_requests_to_them_are_in_flight() -> None:
    balancer = balancer_of()
    request(balancer, "a", 0.1)
    request(balancer, "b", 0.1)
    balancer.on_start("c", 0.0)
    assert balancer.retain_only({"b"}) == ["a"]
    assert set(balancer.states()) == {"b", "c"}
