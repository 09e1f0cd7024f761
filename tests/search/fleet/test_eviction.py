"""Which indexes are evicted when memory is low."""

from argosy.ownership.model import Unit
from argosy.search.fleet.eviction import YOUNG_S, Traffic, select_victims
from argosy.search.fleet.held_repo import HeldRepo, LoadedIndex
from tests.search.fleet.controller_fixture import spec, stats

NOW = 10_000.0


def loaded_repo(
    name: str, size: int, *, ready_at: float = 0.0, is_pinned: bool = False, is_leaving: bool = False
) -> HeldRepo:
    return HeldRepo(
        Unit(name),
        spec(name, is_pinned=is_pinned),
        loaded=LoadedIndex(stats(size), spec(name), ready_at),
        ready_at=ready_at,
        is_leaving=is_leaving,
    )


def select(
    repos: list[HeldRepo], low: int, *, by: str = "lru", searches: dict[str, list[float]] | None = None
) -> list[str]:
    traffic = Traffic()
    for repo in repos:
        traffic.add(repo.name)
    for at, name in sorted((at, name) for name, times in (searches or {}).items() for at in times):
        traffic.record([name], at)
    load = sum(repo.memory_bytes for repo in repos if not repo.is_leaving)
    return select_victims(repos, traffic, load_bytes=load, low_bytes=low, by=by, now=NOW)


def test_the_least_recently_served_are_evicted_first_and_no_more_than_needed() -> None:
    repos = [loaded_repo(name, 10) for name in "abcd"]
    searches = {"a": [900.0], "b": [500.0], "c": [700.0], "d": [100.0]}
    assert select(repos, 25, searches=searches) == ["d", "b"]
    assert select(repos, 40, searches=searches) == []


def test_an_index_never_served_counts_from_its_readiness() -> None:
    repos = [loaded_repo("a", 10, ready_at=600.0), loaded_repo("b", 10)]
    assert select(repos, 10, searches={"b": [700.0]}) == ["a"]


def test_by_cost_the_largest_for_its_traffic_is_evicted_first() -> None:
    repos = [loaded_repo("large", 90), loaded_repo("busy", 100), loaded_repo("small", 10)]
    searches = {"busy": [NOW - 1] * 50}
    assert select(repos, 110, by="cost", searches=searches) == ["large"]
    assert select(repos, 100, by="cost", searches=searches) == ["large", "small"]


def test_pinned_and_leaving_indexes_are_not_evicted() -> None:
    repos = [
        loaded_repo("pinned", 10, is_pinned=True),
        loaded_repo("leaving", 10, is_leaving=True),
        loaded_repo("a", 10),
    ]
    assert select(repos, 0) == ["a"]


def test_recently_loaded_indexes_are_evicted_last() -> None:
    repos = [loaded_repo("young", 100, ready_at=NOW - YOUNG_S / 2), loaded_repo("a", 10), loaded_repo("b", 10)]
    assert select(repos, 105, by="cost") == ["a", "b"]
    assert select(repos, 50, by="cost") == ["a", "b", "young"]
