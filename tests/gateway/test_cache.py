"""Cached results: bounded in every way, and never older than a change."""

from argosy.gateway.cache import SearchCache, weight_bytes
from argosy.search.model import Chunk, FileMatch, LimitHit, Location, Missing, MissingReason, SearchResult, Stats

V = (1, 1)


def cache(entries: int = 3, size: int = 1 << 20, ttl_s: float = 2.0) -> SearchCache:
    return SearchCache(entries_max=entries, bytes_max=size, ttl_s=ttl_s)


def answer(files: int = 1, size: int = 0) -> SearchResult:
    chunk = Chunk(b"x" * size, Location(0, 1, 1), ())
    return SearchResult(tuple(FileMatch("r", str(i), chunks=(chunk,)) for i in range(files)), Stats(files=files))


def test_a_result_is_cached_for_its_ttl() -> None:
    kept, one = cache(), answer()
    kept.put("a", V, one, 10.0)
    assert kept.get("a", V, 11.9) is one
    assert kept.get("a", V, 12.0) is None
    assert (len(kept), kept.held_bytes) == (0, 0)


def test_any_change_of_leases_or_catalog_invalidates_all_entries() -> None:
    for changed in ((2, 1), (1, 2), (0, 1)):
        kept = cache()
        kept.put("a", V, answer(), 0.0)
        assert kept.get("a", changed, 0.0) is None
        assert kept.get("a", V, 0.0) is None
        assert kept.held_bytes == 0


def test_the_least_recently_used_entry_is_evicted_first() -> None:
    kept = cache(entries=2)
    kept.put("a", V, answer(), 0.0)
    kept.put("b", V, answer(), 0.0)
    assert kept.get("a", V, 0.0)
    kept.put("c", V, answer(), 0.0)
    assert [key for key in "abc" if kept.get(key, V, 0.0)] == ["a", "c"]


def test_bytes_are_bounded() -> None:
    one = answer(size=10_000)
    kept = cache(entries=100, size=3 * weight_bytes(one))
    for key in range(10):
        kept.put(key, V, one, 0.0)
    assert len(kept) == 3
    assert kept.held_bytes == 3 * weight_bytes(one)
    kept.put("large", V, answer(files=10, size=10_000), 0.0)
    assert kept.get("large", V, 0.0) is None
    assert len(kept) == 3


def test_a_result_put_twice_counts_once() -> None:
    kept, one = cache(), answer(size=100)
    kept.put("a", V, one, 0.0)
    kept.put("a", V, one, 1.0)
    assert kept.held_bytes == weight_bytes(one)
    assert kept.get("a", V, 2.5) is one


def test_only_repeatable_results_are_cached() -> None:
    kept = cache()
    kept.put("missing", V, SearchResult(missing=(Missing("r", MissingReason.WARMING),)), 0.0)
    kept.put("time", V, SearchResult(limits_hit=(LimitHit.WALL_TIME,)), 0.0)
    kept.put("bound", V, SearchResult(limits_hit=(LimitHit.FILES_SHOWN,)), 0.0)
    assert [key for key in ("missing", "time", "bound") if kept.get(key, V, 0.0)] == ["bound"]


def test_it_can_be_turned_off() -> None:
    for off in (cache(entries=0), cache(ttl_s=0.0), cache(size=0)):
        off.put("a", V, answer(), 0.0)
        assert off.get("a", V, 0.0) is None
