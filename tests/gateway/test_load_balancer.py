"""Whom to ask: the quicker and the less busy, never for ever, and not those that keep failing."""

from collections import Counter
from typing import Any

from argosy.base.clock import seeded_random
from argosy.gateway.load_balancer import HEDGE_BURST_MAX, LATE_UNKNOWN_S, BreakerState, LoadBalancer
from argosy.gateway.settings import GatewaySettings


def balancer(**settings: Any) -> LoadBalancer:
    return LoadBalancer(GatewaySettings(**settings), seeded_random(3))


def asked(made: LoadBalancer, address: str, took_s: float, now: float = 0.0) -> None:
    made.on_start(address, now)
    made.on_response(address, took_s, now)


def test_nodes_that_nobody_knows_are_asked_about_equally() -> None:
    made = balancer()
    counts = Counter(made.pick(("a", "b", "c"), 0.0) for _ in range(600))
    assert set(counts) == {"a", "b", "c"}
    assert min(counts.values()) > 120


def test_the_quicker_one_is_asked() -> None:
    made = balancer()
    asked(made, "slow", 0.5)
    asked(made, "quick", 0.01)
    assert {made.pick(("slow", "quick"), 0.0) for _ in range(20)} == {"quick"}


def test_the_quicker_one_is_not_asked_when_it_has_far_more_to_do() -> None:
    made = balancer()
    asked(made, "slow", 0.05)
    asked(made, "quick", 0.01)
    for _ in range(10):
        made.on_start("quick", 0.0)
    assert made.pick(("slow", "quick"), 0.0) == "slow"


def test_of_two_that_nobody_knows_the_less_busy_is_asked() -> None:
    made = balancer()
    made.on_start("a", 0.0)
    assert {made.pick(("a", "b"), 0.0) for _ in range(10)} == {"b"}


def test_one_that_was_slow_is_tried_again_after_a_while() -> None:
    made = balancer()
    made.on_start("a", 0.0)
    made.on_overtaken("a", 0.5, 0.0)
    asked(made, "b", 0.01)
    assert made.pick(("a", "b"), 0.0) == "b"
    for second in range(60):
        asked(made, "b", 0.01, float(second))
    assert made.pick(("a", "b"), 60.0) == "a"


def test_one_that_keeps_failing_is_not_asked_and_then_once() -> None:
    made = balancer(breaker_failures=2)
    for _ in range(2):
        made.on_start("a", 0.0)
        made.on_failure("a", 0.0)
    assert made.pick(("a",), 0.0) is None
    assert {made.pick(("a", "b"), 0.0) for _ in range(10)} == {"b"}
    at = made.breaker("a").retry_at
    assert made.pick(("a",), at) == "a"
    made.on_start("a", at)
    assert made.pick(("a",), at) is None
    made.on_response("a", 0.1, at)
    assert made.states() == {"a": BreakerState.CLOSED}


def test_a_refusal_is_a_sign_of_life() -> None:
    made = balancer(breaker_failures=2)
    for _ in range(4):
        made.on_start("a", 0.0)
        made.on_failure("a", 0.0)
        made.on_start("a", 0.0)
        made.on_refusal("a", 0.0)
    assert made.pick(("a",), 0.0) == "a"


def test_a_busy_node_that_answers_nobody_is_left_alone() -> None:
    made = balancer(stall_s=5.0)
    for _ in range(8):
        made.on_start("a", 1.0)
    assert made.admits("a", 6.0)
    assert not made.admits("a", 6.1)


def test_a_node_with_one_hard_question_is_not_taken_for_dead() -> None:
    made = balancer(stall_s=5.0)
    made.on_start("a", 1.0)
    assert made.admits("a", 100.0)


def test_a_busy_node_that_answers_now_and_then_is_not_taken_for_dead() -> None:
    made = balancer(stall_s=5.0)
    for _ in range(10):
        made.on_start("a", 1.0)
    made.on_response("a", 4.0, 5.0)
    assert made.admits("a", 9.9)


def test_late_is_later_than_nearly_all_answers_before() -> None:
    made = balancer(hedge_min_s=0.03)
    assert made.hedge_after_s("a") == LATE_UNKNOWN_S
    for i in range(1, 41):
        asked(made, "a", i / 100)
    assert 0.36 <= made.hedge_after_s("a") <= 0.39
    for _ in range(80):
        asked(made, "a", 0.001)
    assert made.hedge_after_s("a") == 0.03


def test_second_questions_are_a_small_part_of_all() -> None:
    made = balancer(hedge_share=0.1)
    burst = 0
    while made.may_hedge():
        burst += 1
    assert burst == HEDGE_BURST_MAX
    granted = 0
    for _ in range(1000):
        asked(made, "a", 0.01)
        granted += made.may_hedge()
    assert 95 <= granted <= 100


def test_second_questions_can_be_turned_off() -> None:
    assert not balancer(with_hedging=False).may_hedge()


def test_nodes_that_are_gone_are_forgotten_unless_they_are_being_asked() -> None:
    made = balancer()
    asked(made, "a", 0.1)
    asked(made, "b", 0.1)
    made.on_start("c", 0.0)
    assert made.retain_only({"b"}) == ["a"]
    assert set(made.states()) == {"b", "c"}
