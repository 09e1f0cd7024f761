"""The one cache: bounded in entries, in bytes and in time, the least recently used entry evicted first."""

from hypothesis import given
from hypothesis import strategies as st

from argosy.base.cache import Cache


def test_an_entry_is_read_until_it_expires() -> None:
    cache: Cache[str, int] = Cache(entries_max=2)
    cache.put("a", 1, size_bytes=7, expires_at=12.0)
    assert cache.get("a", 11.9) == 1
    assert cache.get("a", 12.0) is None
    assert (len(cache), cache.held_bytes) == (0, 0)


def test_an_entry_without_expiry_needs_no_time() -> None:
    cache: Cache[str, int] = Cache(entries_max=2)
    cache.put("a", 1)
    assert cache.get("a") == 1
    assert cache.get("a", 1e18) == 1


def test_the_least_recently_used_entry_is_evicted_first() -> None:
    cache: Cache[str, int] = Cache(entries_max=2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert "b" in cache
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert [key for key in "abc" if key in cache] == ["a", "c"]


def test_bytes_are_bounded_and_a_larger_value_evicts_nothing_else() -> None:
    cache: Cache[str, int] = Cache(entries_max=9, bytes_max=100)
    for key in "abc":
        cache.put(key, 1, size_bytes=40)
    assert ([key for key in "abc" if key in cache], cache.held_bytes) == (["b", "c"], 80)
    cache.put("b", 2, size_bytes=101)
    assert ([key for key in "abc" if key in cache], cache.held_bytes) == (["c"], 40)


def test_a_replaced_entry_counts_once_and_is_the_newest() -> None:
    cache: Cache[str, int] = Cache(entries_max=2, bytes_max=100)
    cache.put("a", 1, size_bytes=30)
    cache.put("b", 2, size_bytes=30)
    cache.put("a", 3, size_bytes=40)
    cache.put("c", 4, size_bytes=10)
    assert [cache.get(key) for key in "abc"] == [3, None, 4]
    assert cache.held_bytes == 50


def test_removing_says_whether_there_was_an_entry() -> None:
    cache: Cache[str, int] = Cache(entries_max=2)
    cache.put("a", 1, size_bytes=5)
    assert cache.remove("a")
    assert not cache.remove("a")
    cache.put("b", 1, size_bytes=5)
    cache.clear()
    assert (len(cache), cache.held_bytes) == (0, 0)


def test_a_cache_of_no_entries_holds_nothing() -> None:
    for cache in (Cache[str, int](entries_max=0), Cache[str, int](entries_max=1, bytes_max=0)):
        cache.put("a", 1, size_bytes=1)
        assert cache.get("a") is None
        assert (len(cache), cache.held_bytes) == (0, 0)


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 60), st.integers(1, 9), st.booleans())))
def test_it_agrees_with_a_list_in_order_of_use(steps: list[tuple[str, int, int, bool]]) -> None:
    cache: Cache[str, int] = Cache(entries_max=3, bytes_max=100)
    model: list[tuple[str, int, int, float]] = []  # the most recently used last
    for now, (key, size, life, is_read) in enumerate(steps):
        found = next((each for each in model if each[0] == key), None)
        model = [each for each in model if each[0] != key]
        if is_read:
            is_live = found is not None and now < found[3]
            assert cache.get(key, now) == (found[1] if found is not None and is_live else None)
            model += [found] if found is not None and is_live else []
        else:
            cache.put(key, now, size_bytes=size, expires_at=now + life)
            model.append((key, now, size, now + life))
            while len(model) > 3 or sum(each[2] for each in model) > 100:
                model.pop(0)
        assert cache.held_bytes == sum(each[2] for each in model)
        assert len(cache) == len(model)
