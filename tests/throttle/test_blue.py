"""The arithmetic of one window's buckets (THR-1)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.throttle.blue import Bucket, Window, clamp, decay, least, move, move_shared, probabilities
from argosy.throttle.levels import levels_of
from argosy.throttle.model import Config

PER_MS = 1e-5  # 0.01 per second
NOW = 1_700_000_000_000

times = st.integers(0, 2 * NOW)
steps = st.floats(-1, 1)
rates = st.sampled_from([0.0, 1e-6, PER_MS, 1e-3, 10.0])


def bucket(probability: float, at_ms: int = NOW, unsent: float = 0.0) -> Bucket:
    subject = Bucket(0, 0, 0)
    subject.probability, subject.at_ms, subject.unsent = probability, at_ms, unsent
    return subject


# -- decay ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("probability", "per_s", "ms", "after"),
    [
        (0.5, 0.0, 10_000, 0.5),
        (0.5, 0.01, 0, 0.5),
        (0.0, 0.01, 10_000, 0.0),
        (0.9, 1.0, 1_000_000, 0.0),
        (1.0, 0.1, 100, math.exp(-0.01)),
        (1.0, 0.01, 69_315, 0.4999986),
        (0.8, 0.5, 1_000, 0.8 * math.exp(-0.5)),
        (0.8, 0.5, 1, 0.8 * math.exp(-0.0005)),
    ],
)
def test_time_forgives(probability: float, per_s: float, ms: int, after: float) -> None:
    assert decay(probability, NOW, NOW + ms, per_s / 1000) == pytest.approx(after, abs=1e-6, rel=1e-9)


@given(probability=st.floats(0, 1), from_ms=times, to_ms=times, per_ms=rates)
def test_decay_stays_within_bounds_and_time_never_runs_backwards(
    probability: float, from_ms: int, to_ms: int, per_ms: float
) -> None:
    after = decay(probability, from_ms, to_ms, per_ms)
    assert 0 <= after <= probability
    assert after == probability or to_ms > from_ms


@given(probability=st.floats(0, 1), first=st.integers(0, 10**6), second=st.integers(0, 10**6))
def test_decay_is_independent_of_when_it_is_computed(probability: float, first: int, second: int) -> None:
    at_once = decay(probability, 0, first + second, PER_MS)
    in_two = decay(decay(probability, 0, first, PER_MS), first, first + second, PER_MS)
    assert in_two == pytest.approx(at_once, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize(
    ("value", "clamped"),
    [(-1.0, 0.0), (0.0, 0.0), (0.3, 0.3), (1.0, 1.0), (7.35, 1.0), (math.inf, 1.0), (-math.inf, 0.0), (math.nan, 0.0)],
)
def test_any_result_is_clamped_to_a_probability(value: float, clamped: float) -> None:
    assert clamp(value) == clamped


# -- reading ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.floats(0, 1), times), min_size=1, max_size=6), times, rates)
def test_the_least_is_the_smallest_of_all(states: list[tuple[float, int]], now_ms: int, per_ms: float) -> None:
    buckets = [bucket(probability, at_ms) for probability, at_ms in states]
    assert least(buckets, now_ms, per_ms) == min(probabilities(buckets, now_ms, per_ms))


def test_reading_changes_nothing() -> None:
    one = bucket(0.5, NOW)
    least([one], NOW + 5000, PER_MS)
    probabilities([one], NOW + 5000, PER_MS)
    assert (one.probability, one.at_ms) == (0.5, NOW)


# -- changing ---------------------------------------------------------------------------------------------------------


def test_a_step_is_added_after_decay_and_the_time_is_noted() -> None:
    one = bucket(0.5, NOW)
    move([one], 0.04, NOW + 10_000, PER_MS)
    assert one.probability == 0.5 * math.exp(-0.1) + 0.04
    assert one.at_ms == NOW + 10_000


@pytest.mark.parametrize(
    ("probability", "step", "after"), [(0.98, 0.04, 1.0), (1.0, 0.04, 1.0), (0.00003, -0.00004, 0.0), (0.5, 0.5, 1.0)]
)
def test_a_step_ends_at_the_limits(probability: float, step: float, after: float) -> None:
    one = bucket(probability)
    move([one], step, NOW, PER_MS)
    assert one.probability == after


def test_a_bucket_from_the_future_keeps_its_time_and_does_not_decay() -> None:
    one = bucket(0.5, NOW + 60_000)
    move([one], 0.25, NOW, PER_MS)
    assert (one.probability, one.at_ms) == (0.75, NOW + 60_000)


def test_each_bucket_decays_by_its_own_age() -> None:
    states = [(0.5, NOW), (0.5, NOW - 10_000), (0.5, NOW + 10_000), (0.5, NOW)]
    buckets = [bucket(*state) for state in states]
    move(buckets, 0.0, NOW, PER_MS)
    assert [one.probability for one in buckets] == [0.5, 0.5 * math.exp(-0.1), 0.5, 0.5]
    assert [one.at_ms for one in buckets] == [NOW, NOW, NOW + 10_000, NOW]


@given(st.lists(st.tuples(steps, times), max_size=30), rates)
def test_no_sequence_of_steps_leaves_the_bounds(moves: list[tuple[float, int]], per_ms: float) -> None:
    one = bucket(0.0, 0)
    newest = 0
    for step, now_ms in moves:
        move([one], step, now_ms, per_ms)
        newest = max(newest, now_ms)
        assert 0 <= one.probability <= 1  # THR-1
        assert one.at_ms == newest


# -- recorded changes -------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(steps, times), max_size=30), rates)
def test_keeping_account_changes_no_result(moves: list[tuple[float, int]], per_ms: float) -> None:
    plain, shared = [bucket(0.0, 0), bucket(0.5, NOW)], [bucket(0.0, 0), bucket(0.5, NOW)]
    for step, now_ms in moves:
        move(plain, step, now_ms, per_ms)
        move_shared(shared, step, now_ms, per_ms, [])
    assert [(one.probability, one.at_ms) for one in plain] == [(one.probability, one.at_ms) for one in shared]


@given(st.lists(st.tuples(steps, st.integers(0, 100_000)), max_size=30))
def test_the_returned_changes_are_the_applied_changes(moves: list[tuple[float, int]]) -> None:
    """Decayed to the same instant, the changes sum to the whole difference: clamped parts are not reported."""
    one = bucket(0.0, 0)
    for step, now_ms in moves:
        move_shared([one], step, now_ms, PER_MS, [])
    assert one.unsent == pytest.approx(one.probability, abs=1e-12)


def test_a_bucket_is_listed_once_and_only_if_it_changed() -> None:
    dirty: list[Bucket] = []
    full, empty, half = bucket(1.0), bucket(0.0), bucket(0.5)
    for _ in range(3):
        move_shared([full, half], 0.1, NOW, PER_MS, dirty)
    move_shared([empty], -0.1, NOW, PER_MS, dirty)
    assert dirty == [half]
    assert half.unsent == pytest.approx(0.3)


# -- a window ---------------------------------------------------------------------------------------------------------


def window(config: Config) -> Window:
    return Window(7, config, levels_of(config, 7))


def test_a_client_has_the_same_buckets_every_time() -> None:
    subject = window(Config())
    assert [(one.seed, one.row) for one in subject.of(b"a")] == [(7, 0), (7, 1), (7, 2)]
    assert all(one is two for one, two in zip(subject.of(b"a"), subject.of(b"a"), strict=True))
    assert [one.col for one in subject.of(b"a")] == list(levels_of(Config(), 7)(b"a"))


def test_buckets_start_at_zero_and_are_created_when_needed() -> None:
    subject = window(Config())
    assert subject.existing_buckets() == []
    assert {one.probability for one in subject.of(b"a")} == {0.0}
    assert len(subject.existing_buckets()) == 3


@pytest.mark.parametrize(("row", "col"), [(-1, 0), (0, -1), (3, 0), (0, 10), (2, 10), (99, 99)])
def test_an_invalid_bucket_position_is_not_found(row: int, col: int) -> None:
    subject = window(Config(buckets=10))
    assert subject.find(row, col) is None
    assert subject.find(2, 9) is subject.at(2, 9)
