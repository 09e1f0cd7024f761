"""Changes on their way: one entry per bucket, and a bound."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.throttle.exchange import PUSHED_BUCKETS_MAX, DeltaBuffer
from argosy.throttle.ports import BucketDelta, QueueFull, RowId, Update

PER_MS = 1e-5


def ledger(entries_max: int = 100) -> DeltaBuffer:
    return DeltaBuffer(PER_MS, entries_max)


def update(*deltas: tuple[int, int, float, int], seed: int = 7) -> Update:
    return Update(seed, [BucketDelta(*delta) for delta in deltas])


@given(st.permutations([(0.04, 1000), (0.04, 61_000), (-0.00004, 30_000), (0.04, 0)]))
def test_changes_of_one_bucket_are_added_as_of_the_newest(changes: list[tuple[float, int]]) -> None:
    buffer = ledger()
    for delta, at_ms in changes:
        buffer.add([update((0, 5, delta, at_ms))])
    summed, at_ms = buffer.row(RowId(7, 0))[5]
    assert at_ms == 61_000
    assert summed == pytest.approx(sum(delta * math.exp(-PER_MS * (61_000 - at)) for delta, at in changes))
    assert len(buffer) == 1


def test_rows_and_windows_are_separate() -> None:
    buffer = ledger()
    buffer.add([update((0, 5, 0.1, 0), (1, 5, 0.2, 0)), update((0, 5, 0.3, 0), seed=8)])
    assert buffer.row(RowId(7, 1)) == {5: (0.2, 0)}
    assert buffer.row(RowId(8, 0)) == {5: (0.3, 0)}
    assert buffer.row(RowId(9, 0)) == {}
    assert len(buffer) == 3


def test_when_full_an_update_is_rejected_whole() -> None:
    buffer = ledger(entries_max=2)
    buffer.add([update((0, 1, 0.1, 0), (0, 2, 0.1, 0))])
    with pytest.raises(QueueFull, match="2 buckets wait"):
        buffer.add([update((0, 1, 0.5, 0), (0, 3, 0.1, 0))])
    assert buffer.row(RowId(7, 0))[1] == (0.1, 0)
    buffer.add([update((0, 1, 0.5, 0))])  # a bucket that waits already takes no room
    assert buffer.row(RowId(7, 0))[1] == (pytest.approx(0.6), 0)


def test_a_bucket_named_twice_counts_once() -> None:
    buffer = ledger(entries_max=1)
    buffer.add([update((0, 1, 0.1, 0), (0, 1, 0.1, 0))])
    assert len(buffer) == 1


def test_pushes_are_cut_and_numbered() -> None:
    buffer = ledger(entries_max=1000)
    buffer.add([update(*((0, col, 0.1, 0) for col in range(PUSHED_BUCKETS_MAX + 1)), (1, 0, 0.2, 5))])
    pushes = list(buffer.pushes(after=41))
    assert [push.number for push in pushes] == [42, 43, 44]
    assert [push.cell for push in pushes] == [RowId(7, 0), RowId(7, 0), RowId(7, 1)]
    assert [len(push.deltas) for push in pushes] == [PUSHED_BUCKETS_MAX, 1, 1]
    assert pushes[2].deltas == ((0, 0.2, 5),)


def test_cleared_changes_are_counted() -> None:
    buffer = ledger()
    buffer.add([update((0, 1, 0.1, 0), (0, 2, 0.1, 0))])
    assert buffer.clear() == 2
    assert (len(buffer), list(buffer.pushes(0)), buffer.clear()) == (0, [], 0)
