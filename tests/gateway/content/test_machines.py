"""The pure parts, in virtual time: when to stop waiting, whom to leave alone, and what to keep."""

from argosy.base.clock import seeded_random
from argosy.gateway.breaker import BreakerState
from argosy.gateway.content.answer_cache import AnswerCache, results_bytes, store_answer
from argosy.gateway.content.backend_tracker import Book
from argosy.gateway.content.gather_machine import Gather
from argosy.gateway.content.model import Answer, Lack, Outcome
from argosy.gateway.content.settings import ContentSettings
from tests.ipni.web.making import result

SETTINGS = ContentSettings(breaker_first_s=1.0, breaker_ceiling_s=8.0, stall_s=2.0, questions_max=20)


def gather(is_one_enough: bool = False, **indexers: float | Outcome) -> Gather:
    return Gather(indexers, now=100.0, deadline_s=5.0, is_one_enough=is_one_enough)


def book(settings: ContentSettings = SETTINGS) -> Book:
    return Book(settings, seeded_random(1))


def ask(known: Book, outcome: Outcome, now: float, took_s: float = 0.0) -> None:
    known.began("a", now)
    if outcome in (Outcome.FOUND, Outcome.NOTHING, Outcome.REFUSED):
        known.answered("a", took_s, now + took_s)
    known.ended("a", outcome, now + took_s)


def test_while_nothing_is_found_everybody_is_waited_for() -> None:
    made = gather(a=0.1, b=0.2)
    made.ended("a", Outcome.NOTHING)
    assert made.deadline() == 105.0
    assert not made.is_over(104.9)
    assert made.is_over(105.0)
    assert made.missing(105.0) == (Lack("b", Outcome.TIMED_OUT),)


def test_with_something_found_only_those_who_are_not_late_are_waited_for() -> None:
    made = gather(a=0.1, b=0.2, c=0.4)
    made.found()
    made.ended("a", Outcome.FOUND)
    assert made.deadline() == 100.4, "the most patient of those who are still silent"
    assert not made.is_over(100.3)
    made.ended("c", Outcome.NOTHING)
    assert made.is_over(100.3)
    assert made.missing(100.3) == (Lack("b", Outcome.LATE),)


def test_one_that_streams_is_waited_for_and_an_answer_may_begin_before() -> None:
    made = gather(a=0.1, b=0.1)
    made.began("a")
    made.found()
    assert not made.is_ready(100.05), "b may still say that it cannot be had"
    assert made.is_ready(100.1)
    assert not made.is_over(104.0)
    assert made.missing(104.0) == (Lack("b", Outcome.LATE),)
    made.ended("a", Outcome.FOUND)
    assert made.is_over(104.0)


def test_where_one_answer_is_enough_nobody_else_is_missing() -> None:
    made = gather(is_one_enough=True, a=0.1, b=0.1, c=Outcome.LEFT_ALONE)
    made.found()
    made.ended("a", Outcome.FOUND)
    assert made.is_over(100.0)
    assert made.missing(100.0) == ()
    unlucky = gather(is_one_enough=True, a=0.1, c=Outcome.LEFT_ALONE)
    unlucky.ended("a", Outcome.NOTHING)
    assert unlucky.missing(100.0) == (Lack("c", Outcome.LEFT_ALONE),)


def test_who_was_not_asked_is_missing_in_the_operators_order() -> None:
    made = gather(a=Outcome.BUSY, b=0.1, c=Outcome.LEFT_ALONE)
    made.ended("b", Outcome.ERROR)
    assert [lack.backend for lack in made.missing(100.0)] == ["a", "b", "c"]
    assert gather(a=Outcome.BUSY).is_over(100.0)


def test_an_indexer_is_late_by_its_own_measure_within_bounds() -> None:
    known = book()
    assert known.patience_s("a") == SETTINGS.patience_max_s, "of one that is not known yet much is forgiven"
    for _ in range(20):
        ask(known, Outcome.FOUND, 0.0, took_s=0.001)
    assert known.patience_s("a") == SETTINGS.patience_min_s
    for _ in range(80):
        ask(known, Outcome.FOUND, 0.0, took_s=0.05)
    assert known.patience_s("a") == 0.2
    for _ in range(80):
        ask(known, Outcome.FOUND, 0.0, took_s=3.0)
    assert known.patience_s("a") == SETTINGS.patience_max_s


def test_the_breaker_opens_on_each_kind_of_failure_and_on_nothing_else() -> None:
    for outcome in Outcome:
        known = book()
        for _ in range(3):
            ask(known, outcome, 0.0)
        opens = outcome in (Outcome.FAILED, Outcome.ERROR, Outcome.TIMED_OUT)
        assert known.refusal("a", 0.1) is (Outcome.LEFT_ALONE if opens else None), outcome


def test_a_single_probe_goes_and_its_failure_makes_the_wait_longer() -> None:
    known = book()
    for _ in range(3):
        ask(known, Outcome.FAILED, 0.0)
    assert known.refusal("a", 0.4) is Outcome.LEFT_ALONE
    assert known.refusal("a", 1.0) is None
    known.began("a", 1.0)
    assert known.state("a") is BreakerState.HALF_OPEN
    assert known.refusal("a", 1.0) is Outcome.LEFT_ALONE, "while the probe is on its way"
    known.ended("a", Outcome.TIMED_OUT, 2.0)
    assert known.refusal("a", 2.9) is Outcome.LEFT_ALONE
    assert known.refusal("a", 4.0) is None
    ask(known, Outcome.NOTHING, 4.0)
    assert known.state("a") is BreakerState.CLOSED


def test_a_probe_that_is_called_back_lets_the_next_one_go() -> None:
    known = book()
    for _ in range(3):
        ask(known, Outcome.FAILED, 0.0)
    known.began("a", 1.0)
    known.abandoned("a", 1.1)
    assert known.refusal("a", 1.1) is None


def test_a_busy_indexer_that_answers_nobody_is_left_alone() -> None:
    known = book()
    for _ in range(8):
        known.began("a", 0.0)
    assert known.refusal("a", 1.9) is None
    assert known.refusal("a", 2.1) is Outcome.LEFT_ALONE
    busy = book()
    for _ in range(20):
        busy.began("a", 0.0)
    assert busy.refusal("a", 0.0) is Outcome.BUSY


def test_only_those_without_questions_are_forgotten() -> None:
    known = book()
    known.began("a", 0.0)
    ask_other = known.patience_s("b")
    assert ask_other > 0
    assert known.keep({"c"}) == ["b"]
    known.ended("a", Outcome.NOTHING, 0.0)
    assert known.keep({"c"}) == ["a"]


def test_answers_are_cached_for_their_time_and_only_when_complete() -> None:
    cache: AnswerCache = AnswerCache(entries_max=2, bytes_max=100)
    store_answer(cache, "a", Answer([1]), size_bytes=40, ttl_s=5, now=0)
    assert cache.get("a", 4.9) == Answer([1])
    assert cache.get("a", 5.0) is None
    store_answer(cache, "lacking", Answer([1], (Lack("x", Outcome.LATE),)), size_bytes=1, ttl_s=5, now=0)
    store_answer(cache, "large", Answer([1]), size_bytes=101, ttl_s=5, now=0)
    store_answer(cache, "never", Answer([1]), size_bytes=1, ttl_s=0, now=0)
    assert (len(cache), cache.held_bytes) == (0, 0)
    assert results_bytes([result()] * 2) > results_bytes([result()]) > 0
