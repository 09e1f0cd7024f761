"""Who goes when memory is short."""

from argosy.ownership.model import Unit
from argosy.search.fleet.eviction import YOUNG_S, victims
from argosy.search.fleet.held_repo import HeldRepo, LoadedIndex
from argosy.search.fleet.traffic import Traffic
from tests.search.fleet.making import figures, spec

NOW = 10_000.0


def kept(name: str, size: int, *, ready_at: float = 0.0, is_pinned: bool = False, is_leaving: bool = False) -> HeldRepo:
    return HeldRepo(
        Unit(name),
        spec(name, is_pinned=is_pinned),
        kept=LoadedIndex(figures(size), spec(name), ready_at),
        ready_at=ready_at,
        is_leaving=is_leaving,
    )


def chosen(
    volumes: list[HeldRepo], low: int, *, by: str = "lru", searches: dict[str, list[float]] | None = None
) -> list[str]:
    traffic = Traffic()
    for volume in volumes:
        traffic.begin(volume.name)
    for at, name in sorted((at, name) for name, times in (searches or {}).items() for at in times):
        traffic.note([name], at)
    load = sum(volume.memory_bytes for volume in volumes if not volume.is_leaving)
    return victims(volumes, traffic, load_bytes=load, low_bytes=low, by=by, now=NOW)


def test_the_longest_unserved_go_first_and_no_more_than_needed() -> None:
    volumes = [kept(name, 10) for name in "abcd"]
    searches = {"a": [900.0], "b": [500.0], "c": [700.0], "d": [100.0]}
    assert chosen(volumes, 25, searches=searches) == ["d", "b"]
    assert chosen(volumes, 40, searches=searches) == []


def test_what_was_never_served_counts_from_when_it_could_be() -> None:
    volumes = [kept("a", 10, ready_at=600.0), kept("b", 10)]
    assert chosen(volumes, 10, searches={"b": [700.0]}) == ["a"]


def test_by_cost_the_largest_for_its_traffic_goes_first() -> None:
    volumes = [kept("large", 90), kept("busy", 100), kept("small", 10)]
    searches = {"busy": [NOW - 1] * 50}
    assert chosen(volumes, 110, by="cost", searches=searches) == ["large"]
    assert chosen(volumes, 100, by="cost", searches=searches) == ["large", "small"]


def test_the_pinned_and_those_that_leave_already_are_not_chosen() -> None:
    volumes = [kept("pinned", 10, is_pinned=True), kept("leaving", 10, is_leaving=True), kept("a", 10)]
    assert chosen(volumes, 0) == ["a"]


def test_the_young_go_last() -> None:
    volumes = [kept("young", 100, ready_at=NOW - YOUNG_S / 2), kept("a", 10), kept("b", 10)]
    assert chosen(volumes, 105, by="cost") == ["a", "b"]
    assert chosen(volumes, 50, by="cost") == ["a", "b", "young"]
