"""The arithmetic of a store of rows; the contract suite checks the stores against it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.throttle.model import Config
from argosy.throttle.ports import BucketState, RowId, RowPull, RowVersion, RowWrite
from argosy.throttle.rows import SKEW_MS_MAX, apply_delta, apply_restore, is_moved, row_rules

NOW = 1_700_000_000_000
PER_MS = 1e-5
CELL = RowId(7, 0)

times = st.integers(NOW - 100_000, NOW + SKEW_MS_MAX)


def after(*changes: tuple[float, int]) -> BucketState | None:
    state: BucketState | None = None
    for delta, at_ms in changes:
        state = apply_delta(state, delta, at_ms, now_ms=NOW, per_ms=PER_MS)
    return state


def test_a_first_change_is_the_state() -> None:
    assert after((0.04, NOW)) == BucketState(0.04, NOW)


def test_stored_state_decays_before_a_change_is_added() -> None:
    assert after((0.5, NOW - 10_000), (0.04, NOW)) == BucketState(0.5 * math.exp(-0.1) + 0.04, NOW)


def test_a_late_change_is_discounted_and_the_newest_time_stays() -> None:
    assert after((0.5, NOW), (0.04, NOW - 10_000)) == BucketState(0.5 + 0.04 * math.exp(-0.1), NOW)


@given(st.lists(st.tuples(st.floats(0, 0.05), times), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_any_order_gives_the_same_sum(changes: list[tuple[float, int]], random: "object") -> None:
    shuffled = list(changes)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    newest = max(at_ms for _, at_ms in changes)
    closed_form = sum(delta * math.exp(-PER_MS * (newest - at_ms)) for delta, at_ms in changes)
    state = after(*shuffled)
    assert state is not None
    assert state.at_ms == newest
    assert state.prob == pytest.approx(closed_form, abs=1e-12)


@given(st.lists(st.tuples(st.floats(), st.integers(0, 2 * NOW)), min_size=1, max_size=12))
def test_any_pushed_change_leaves_a_valid_probability(changes: list[tuple[float, int]]) -> None:
    state = after(*changes)
    assert state is not None
    assert 0 <= state.prob <= 1  # THR-1
    assert state.at_ms <= NOW + SKEW_MS_MAX


def test_a_broken_clock_cannot_freeze_a_bucket_in_the_future() -> None:
    assert after((0.5, NOW + 3_600_000)) == BucketState(0.5, NOW + SKEW_MS_MAX)


@given(st.lists(st.tuples(st.floats(0, 1), times), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_restoring_in_any_order_and_twice_is_restoring_once(restores: list[tuple[float, int]], random: object) -> None:
    def restore_all(all_restores: list[tuple[float, int]]) -> BucketState:
        state: BucketState | None = BucketState(0.1, NOW - 50_000)
        for prob, at_ms in all_restores:
            state = apply_restore(state, prob, at_ms, now_ms=NOW, per_ms=PER_MS)
        assert state is not None
        return state

    shuffled = restores * 2
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert restore_all(shuffled).at_ms == restore_all(restores).at_ms
    assert restore_all(shuffled).prob == pytest.approx(restore_all(restores).prob, rel=1e-12)


def test_restoring_keeps_the_greater_as_of_one_instant() -> None:
    stored = BucketState(0.5, NOW - 100_000)  # 0.18 by now
    assert apply_restore(stored, 0.2, NOW, now_ms=NOW, per_ms=PER_MS) == BucketState(0.2, NOW)
    assert apply_restore(stored, 0.1, NOW, now_ms=NOW, per_ms=PER_MS).prob == pytest.approx(0.5 * math.exp(-1))
    assert apply_restore(None, 0.3, NOW + 10**9, now_ms=NOW, per_ms=PER_MS) == BucketState(0.3, NOW + SKEW_MS_MAX)


# -- versions and rules -----------------------------------------------------------------------------------------------


def written(number: int, *, cell: RowId = CELL, is_duplicate: bool = False) -> list[RowWrite]:
    return [RowWrite(cell, RowVersion(1, 0), is_duplicate, {})] * number


@pytest.mark.parametrize(
    ("mark", "own", "moved"),
    [
        (RowVersion(1, 5), written(0), False),
        (RowVersion(1, 6), written(0), True),
        (RowVersion(1, 6), written(1), False),
        (RowVersion(1, 7), written(1), True),
        (RowVersion(1, 7), written(2), False),
        (RowVersion(1, 6), written(1, is_duplicate=True), True),
        (RowVersion(1, 6), written(1, cell=RowId(7, 1)), True),
        (RowVersion(2, 5), written(0), True),
        (RowVersion(), written(0), True),
    ],
)
def test_a_row_has_changed_if_another_instance_wrote(mark: RowVersion, own: list[RowWrite], moved: bool) -> None:
    assert is_moved(RowPull(CELL, RowVersion(1, 5)), mark, own) is moved


def test_rows_live_three_windows() -> None:
    assert row_rules(Config()).ttl_ms == 3 * 300_000


@pytest.mark.parametrize(
    "other",
    [
        Config(levels=4), Config(buckets=999), Config(failure_step=0.05), Config(success_step=0.00005),
        Config(decay_per_s=0.02), Config(window_s=301), Config(hashing="double"), Config(secret=b"x"),
    ],
    ids=["levels", "buckets", "failures", "successes", "decay", "window", "hashing", "secret"],
)  # fmt: skip
def test_throttles_that_differ_have_other_fingerprints(other: Config) -> None:
    assert row_rules(other).fingerprint != row_rules(Config()).fingerprint


def test_per_instance_settings_are_not_in_the_fingerprint() -> None:
    chosen = Config(is_shadow=True, is_explaining=True, clients_max=10, admitted_min=0.1)
    assert row_rules(chosen).fingerprint == row_rules(Config()).fingerprint


def test_the_secret_cannot_be_read_from_the_fingerprint() -> None:
    assert row_rules(Config(secret=b"hush")).fingerprint != row_rules(Config(secret=b"hash")).fingerprint
    assert "hush" not in str(row_rules(Config(secret=b"hush")))
