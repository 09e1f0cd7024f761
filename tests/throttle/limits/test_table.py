"""A bounded table of buckets: eviction, and the changes recorded for persistence."""

import pytest

from argosy.base.errors import Invalid
from argosy.throttle.limits.buckets import TokenBucket
from argosy.throttle.limits.table import BucketTable
from tests.throttle.limits.stage import NOON_MS, request


def hit(table: BucketTable, *keys: str, now_ms: int = NOON_MS) -> list[int]:
    return [answer.remaining for answer in table.answer([request(1, key=key) for key in keys], now_ms)]


def test_the_least_recently_used_bucket_is_evicted_first() -> None:
    table = BucketTable(keys_max=3)
    hit(table, "a", "b", "c", "a", "d")
    assert len(table) == 3
    assert hit(table, "a", "c", "d") == [7, 8, 8]
    assert hit(table, "b") == [9]


def test_a_query_counts_as_use() -> None:
    table = BucketTable(keys_max=2)
    hit(table, "a", "b")
    table.answer([request(0, key="a")], NOON_MS)
    hit(table, "c")
    assert hit(table, "a") == [8]


def test_only_live_buckets_count_as_evicted() -> None:
    table = BucketTable(keys_max=2)
    hit(table, "a", "b")
    hit(table, "c", now_ms=NOON_MS + 1000)
    assert table.take_evicted() == 1
    hit(table, "d", now_ms=NOON_MS + 1001)
    assert table.take_evicted() == 0
    assert len(table) == 2


def test_a_table_without_persistence_records_no_changes() -> None:
    table = BucketTable(keys_max=2)
    hit(table, "a", "b", "c")
    assert table.take_changes() == {}


def test_changes_are_collected_once_and_can_be_returned() -> None:
    table = BucketTable(is_saved=True)
    hit(table, "a", "b")
    changes = table.take_changes()
    assert changes.keys() == {"n_a", "n_b"}
    assert table.take_changes() == {}
    hit(table, "a")
    table.restore_changes(changes)
    again = table.take_changes()
    assert again.keys() == {"n_a", "n_b"}
    assert again["n_a"] == TokenBucket(10, 1000, 8, NOON_MS, NOON_MS + 1000)


def test_unchanged_buckets_are_not_saved() -> None:
    table = BucketTable(is_saved=True)
    hit(table, "a")
    table.take_changes()
    table.answer([request(0, key="a"), request(99, key="a"), request(1, key="")], NOON_MS)
    assert table.take_changes() == {}


def test_evicted_buckets_are_recorded_as_deleted() -> None:
    table = BucketTable(keys_max=1, is_saved=True)
    hit(table, "a", "b")
    assert table.take_changes() == {"n_a": None, "n_b": TokenBucket(10, 1000, 9, NOON_MS, NOON_MS + 1000)}
    table.answer([request(1, key="b", behavior=8)], NOON_MS)
    assert table.take_changes() == {"n_b": None}


def test_only_live_buckets_are_loaded_and_the_newest_if_there_are_too_many() -> None:
    def bucket(expire_at: int) -> TokenBucket:
        return TokenBucket(10, 1000, 4, NOON_MS - 500, expire_at)

    table = BucketTable(keys_max=2, is_saved=True)
    ends = {"n_dead": NOON_MS - 1, "n_a": NOON_MS, "n_b": NOON_MS + 9, "n_c": NOON_MS + 9}
    table.restore([(key, bucket(end)) for key, end in ends.items()], NOON_MS)
    assert table.take_changes() == {"n_dead": None, "n_a": None}
    assert hit(table, "b", "c") == [3, 3]


def test_a_table_without_room_is_refused() -> None:
    with pytest.raises(Invalid, match="keys_max must be at least 1, not 0"):
        BucketTable(keys_max=0)
