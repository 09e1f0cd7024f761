"""Invariants of the index controller under random events: bounds hold, pinned indexes stay, and it converges."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from argosy.search.fleet.events import PushReceived, SpecChanged, UnitLost
from tests.search.fleet.controller_fixture import MIB, World, spec

NAMES = [f"r{number}" for number in range(8)]
BUDGET_BYTES = 1000 * MIB

names = st.sampled_from(NAMES[:3])  # few, so that much happens to each
steps = st.lists(
    st.one_of(
        st.tuples(st.just("gain"), names, st.integers(-1, 2), st.booleans()),
        st.tuples(st.just("lose"), names),
        st.tuples(st.just("remove"), names),
        st.tuples(st.just("pin"), names, st.booleans()),
        st.tuples(st.just("move"), names, st.integers(0, 1)),
        st.tuples(st.just("reindex"), names, st.integers(1, 9)),
        st.tuples(st.just("push"), names, st.integers(0, 9)),
        st.tuples(st.just("search"), names),
        st.tuples(st.just("wait"), st.sampled_from([0.0, 1.0, 5.0, 30.0, 200.0])),
    ),
    max_size=40,
)


def take(world: World, step: tuple[object, ...]) -> None:
    match step:
        case ("gain", str(name), int(replica), bool(has_sibling)):
            world.gain(name, replica, "n2:1" if has_sibling else None)
        case ("lose", str(name)):
            world.waiting.discard(name)
            world.handle(UnitLost(name))
        case ("remove", str(name)):
            world.specs.pop(name, None)
            world.handle(SpecChanged(name, None))
        case ("push", str(name), int(version)):
            world.versions[name] = f"c{version}"
            world.handle(PushReceived(name))
        case ("search", str(name)):
            world.controller.traffic.record([name], world.now)
        case ("wait", float(seconds)):
            world.run(seconds)
        case ("pin", str(name), bool(is_pinned)):
            changed(world, name, is_pinned=is_pinned)
        case ("move", str(name), int(place)):
            changed(world, name, url=f"https://host/{name if place else 'elsewhere'}")
        case ("reindex", str(name), int(at)):
            changed(world, name, reindex_requested_at=at)


def changed(world: World, name: str, **changes: object) -> None:
    world.specs[name] = replace(world.specs.get(name, spec(name)), **changes)
    world.handle(SpecChanged(name, world.specs[name]))


def world_of(seed: int, sizes: list[int], failing: float, by: str = "lru") -> World:
    world = World(
        seed,
        budget_bytes=BUDGET_BYTES,
        failing=failing,
        evict_by=by,
        fetches_max=2,
        builds_max=1,
        origin_checks_max=2,
        refresh_s=60.0,
        verify_s=300.0,
    )
    for name, size in zip(NAMES, sizes, strict=True):
        world.sizes[name] = size * MIB
        world.specs[name] = spec(name, footprint_bytes=size * MIB if size % 2 else None)
    return world


sizes = st.lists(st.integers(1, 600), min_size=len(NAMES), max_size=len(NAMES))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 999), sizes, steps, st.sampled_from([0.0, 0.1, 0.5]), st.sampled_from(["lru", "cost"]))
def test_bounds_hold_and_pinned_indexes_are_never_evicted(
    seed: int, sizes: list[int], steps: list[tuple[object, ...]], failing: float, by: str
) -> None:
    world = world_of(seed, sizes, failing, by)
    for step in steps:
        before = len(world.released)
        pinned = {name for name, repo in world.controller.repos.items() if repo.spec and repo.spec.is_pinned}
        take(world, step)  # the world watches the other rules
        if failing == 0.0 and step[0] != "pin":
            assert not pinned & set(world.released[before:])


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 999), sizes, steps)
def test_it_converges_to_the_catalog(seed: int, sizes: list[int], steps: list[tuple[object, ...]]) -> None:
    world = world_of(seed, sizes, failing=0.0)
    for step in steps:
        take(world, step)
    world.run(1000.0)
    assert world.waiting == set(), "every waiting unit is answered"
    assert (world.controller.queue.waiting, world.controller.queue.fetches, world.controller.queue.builds) == (0, 0, 0)
    for name, repo in world.controller.repos.items():
        if repo.spec is None:
            assert repo.loaded is None
        elif not repo.is_leaving:
            assert repo.loaded is not None
            assert repo.loaded.spec.url == world.specs[name].url
            assert repo.loaded.stats.branches[0].version == world.versions.get(name, "c0")


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 999), sizes, st.sampled_from(["lru", "cost"]))
def test_an_eviction_goes_down_to_the_low_watermark(seed: int, sizes: list[int], by: str) -> None:
    world = world_of(seed, sizes, failing=0.0, by=by)
    for name in NAMES:
        before = set(world.released)
        world.gain(name)
        world.run(30.0)
        controller = world.controller
        staying = [repo for repo in controller.repos.values() if repo.loaded and not repo.is_leaving]
        if before != set(world.released):
            expected = BUDGET_BYTES * world.settings.low_watermark
            assert sum(repo.memory_bytes for repo in staying) <= expected
    assert controller.memory.held_bytes <= BUDGET_BYTES * world.settings.high_watermark


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 999), sizes)
def test_after_failures_end_everything_held_converges_to_the_catalog(seed: int, sizes: list[int]) -> None:
    world = world_of(seed, [min(size, 100) for size in sizes], failing=0.4)
    for name in NAMES:
        world.gain(name)
    world.run(500.0)
    world._failing = 0.0
    for name in NAMES:
        world.versions[name] = "c9"
    world.run(3000.0)
    for repo in world.controller.repos.values():
        assert repo.loaded is not None
        assert (repo.reason, repo.loaded.stats.branches[0].version) == ("", "c9")
