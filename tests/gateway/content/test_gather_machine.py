"""The pure parts, in virtual time: when to stop waiting, which indexers to skip, and what to cache."""

from argosy.base.clock import seeded_random
from argosy.gateway.content.backend_tracker import BackendTracker
from argosy.gateway.content.gather_machine import GatherMachine
from argosy.gateway.content.model import BackendOutcome, MergedAnswer, MissingBackend
from argosy.gateway.content.service import AnswerCache, results_bytes, store_answer
from argosy.gateway.load_balancer import BreakerState
from argosy.gateway.settings import ContentSettings
from tests.ipni.web.builders import result

SETTINGS = ContentSettings(breaker_first_s=1.0, breaker_ceiling_s=8.0, stall_s=2.0, requests_max=20)


def gather(is_one_enough: bool = False, **indexers: float | BackendOutcome) -> GatherMachine:
    return GatherMachine(indexers, now=100.0, deadline_s=5.0, is_one_enough=is_one_enough)


def tracker(settings: ContentSettings = SETTINGS) -> BackendTracker:
    return BackendTracker(settings, seeded_random(1))


def request(known: BackendTracker, outcome: BackendOutcome, now: float, took_s: float = 0.0) -> None:
    known.on_start("a", now)
    if outcome in (BackendOutcome.FOUND, BackendOutcome.NOTHING, BackendOutcome.REFUSED):
        known.on_response("a", took_s, now + took_s)
    known.on_end("a", outcome, now + took_s)


def test_without_a_result_every_indexer_is_awaited() -> None:
    machine = gather(a=0.1, b=0.2)
    machine.on_end("a", BackendOutcome.NOTHING)
    assert machine.deadline() == 105.0
    assert not machine.is_over(104.9)
    assert machine.is_over(105.0)
    assert machine.missing(105.0) == (MissingBackend("b", BackendOutcome.TIMED_OUT),)


def test_with_a_result_only_indexers_that_are_not_late_are_awaited() -> None:
    machine = gather(a=0.1, b=0.2, c=0.4)
    machine.on_found()
    machine.on_end("a", BackendOutcome.FOUND)
    assert machine.deadline() == 100.4, "the longest wait among those without a response"
    assert not machine.is_over(100.3)
    machine.on_end("c", BackendOutcome.NOTHING)
    assert machine.is_over(100.3)
    assert machine.missing(100.3) == (MissingBackend("b", BackendOutcome.LATE),)


def test_a_streaming_indexer_is_awaited_and_a_response_may_begin_before() -> None:
    machine = gather(a=0.1, b=0.1)
    machine.on_start("a")
    machine.on_found()
    assert not machine.is_ready(100.05), "b may still respond that it is unavailable"
    assert machine.is_ready(100.1)
    assert not machine.is_over(104.0)
    assert machine.missing(104.0) == (MissingBackend("b", BackendOutcome.LATE),)
    machine.on_end("a", BackendOutcome.FOUND)
    assert machine.is_over(104.0)


def test_where_one_response_is_enough_no_other_indexer_is_missing() -> None:
    machine = gather(is_one_enough=True, a=0.1, b=0.1, c=BackendOutcome.CIRCUIT_OPEN)
    machine.on_found()
    machine.on_end("a", BackendOutcome.FOUND)
    assert machine.is_over(100.0)
    assert machine.missing(100.0) == ()
    unlucky = gather(is_one_enough=True, a=0.1, c=BackendOutcome.CIRCUIT_OPEN)
    unlucky.on_end("a", BackendOutcome.NOTHING)
    assert unlucky.missing(100.0) == (MissingBackend("c", BackendOutcome.CIRCUIT_OPEN),)


def test_skipped_indexers_are_missing_in_the_operators_order() -> None:
    machine = gather(a=BackendOutcome.BUSY, b=0.1, c=BackendOutcome.CIRCUIT_OPEN)
    machine.on_end("b", BackendOutcome.ERROR)
    assert [missing.backend for missing in machine.missing(100.0)] == ["a", "b", "c"]
    assert gather(a=BackendOutcome.BUSY).is_over(100.0)


def test_an_indexer_is_late_by_its_own_latency_within_bounds() -> None:
    known = tracker()
    assert known.patience_s("a") == SETTINGS.patience_max_s, "of one that is not known yet much is forgiven"
    for _ in range(20):
        request(known, BackendOutcome.FOUND, 0.0, took_s=0.001)
    assert known.patience_s("a") == SETTINGS.patience_min_s
    for _ in range(80):
        request(known, BackendOutcome.FOUND, 0.0, took_s=0.05)
    assert known.patience_s("a") == 0.2
    for _ in range(80):
        request(known, BackendOutcome.FOUND, 0.0, took_s=3.0)
    assert known.patience_s("a") == SETTINGS.patience_max_s


def test_the_breaker_opens_on_each_kind_of_failure_and_on_nothing_else() -> None:
    for outcome in BackendOutcome:
        known = tracker()
        for _ in range(3):
            request(known, outcome, 0.0)
        opens = outcome in (BackendOutcome.FAILED, BackendOutcome.ERROR, BackendOutcome.TIMED_OUT)
        assert known.refusal("a", 0.1) is (BackendOutcome.CIRCUIT_OPEN if opens else None), outcome


def test_a_single_probe_is_sent_and_its_failure_lengthens_the_wait() -> None:
    known = tracker()
    for _ in range(3):
        request(known, BackendOutcome.FAILED, 0.0)
    assert known.refusal("a", 0.4) is BackendOutcome.CIRCUIT_OPEN
    assert known.refusal("a", 1.0) is None
    known.on_start("a", 1.0)
    assert known.state("a") is BreakerState.HALF_OPEN
    assert known.refusal("a", 1.0) is BackendOutcome.CIRCUIT_OPEN, "while the probe is on its way"
    known.on_end("a", BackendOutcome.TIMED_OUT, 2.0)
    assert known.refusal("a", 2.9) is BackendOutcome.CIRCUIT_OPEN
    assert known.refusal("a", 4.0) is None
    request(known, BackendOutcome.NOTHING, 4.0)
    assert known.state("a") is BreakerState.CLOSED


def test_a_cancelled_probe_allows_the_next_one() -> None:
    known = tracker()
    for _ in range(3):
        request(known, BackendOutcome.FAILED, 0.0)
    known.on_start("a", 1.0)
    known.on_cancel("a", 1.1)
    assert known.refusal("a", 1.1) is None


def test_a_stalled_indexer_has_its_circuit_opened() -> None:
    known = tracker()
    for _ in range(8):
        known.on_start("a", 0.0)
    assert known.refusal("a", 1.9) is None
    assert known.refusal("a", 2.1) is BackendOutcome.CIRCUIT_OPEN
    busy = tracker()
    for _ in range(20):
        busy.on_start("a", 0.0)
    assert busy.refusal("a", 0.0) is BackendOutcome.BUSY


def test_only_indexers_without_requests_are_forgotten() -> None:
    known = tracker()
    known.on_start("a", 0.0)
    ask_other = known.patience_s("b")
    assert ask_other > 0
    assert known.retain_only({"c"}) == ["b"]
    known.on_end("a", BackendOutcome.NOTHING, 0.0)
    assert known.retain_only({"c"}) == ["a"]


def test_responses_are_cached_for_their_ttl_and_only_when_complete() -> None:
    cache: AnswerCache = AnswerCache(entries_max=2, bytes_max=100)
    store_answer(cache, "a", MergedAnswer([1]), size_bytes=40, ttl_s=5, now=0)
    assert cache.get("a", 4.9) == MergedAnswer([1])
    assert cache.get("a", 5.0) is None
    store_answer(
        cache, "lacking", MergedAnswer([1], (MissingBackend("x", BackendOutcome.LATE),)), size_bytes=1, ttl_s=5, now=0
    )
    store_answer(cache, "large", MergedAnswer([1]), size_bytes=101, ttl_s=5, now=0)
    store_answer(cache, "never", MergedAnswer([1]), size_bytes=1, ttl_s=0, now=0)
    assert (len(cache), cache.held_bytes) == (0, 0)
    assert results_bytes([result()] * 2) > results_bytes([result()]) > 0
