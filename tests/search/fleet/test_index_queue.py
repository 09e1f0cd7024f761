"""Who is fetched and built next."""

from itertools import count

from argosy.ownership.model import SUCCESSOR, Unit
from argosy.search.fleet.effects import Build, Fetch
from argosy.search.fleet.held_repo import HeldRepo, LoadedIndex
from argosy.search.fleet.index_queue import IndexQueue
from tests.search.fleet.making import MIB, figures, of_kind, only, spec


def line_of(fetches_max: int, builds_max: int) -> IndexQueue:
    return IndexQueue(count(1), fetches_max=fetches_max, builds_max=builds_max)


def waiting(line: IndexQueue, name: str, *, replica: int = 0, size: int | None = None, kept: bool = False) -> HeldRepo:
    volume = HeldRepo(Unit(name, replica), spec(name, footprint_bytes=size))
    if kept:
        volume.kept = LoadedIndex(figures(), spec(name), 0.0)
    line.add(volume, 0.0)
    return volume


def order(line: IndexQueue) -> list[str]:
    return [effect.spec.name for effect in of_kind(line.advance(), Fetch)]


def number_of(volume: HeldRepo) -> int:
    assert volume.making is not None
    return volume.making.number


def test_what_cannot_be_searched_comes_first_then_primaries_then_the_smaller() -> None:
    line = line_of(10, 1)
    waiting(line, "old", kept=True, size=9)
    waiting(line, "less old", kept=True, size=1)
    waiting(line, "replica", replica=1, size=1)
    waiting(line, "large", size=200 * MIB)
    waiting(line, "unknown")
    waiting(line, "small", size=MIB)
    waiting(line, "successor", replica=SUCCESSOR, size=0)
    assert order(line) == ["successor", "small", "unknown", "large", "replica", "old", "less old"]


def test_a_place_is_taken_until_the_work_has_ended_even_when_it_was_given_up() -> None:
    line = line_of(1, 1)
    first = waiting(line, "a")
    waiting(line, "b")
    number = number_of(first)
    assert order(line) == ["a"]
    assert order(line) == []
    assert line.leave(first) == number
    assert order(line) == []
    assert line.end(number) is None  # nobody wants it
    assert order(line) == ["b"]


def test_what_is_fetched_keeps_its_place_until_it_is_built() -> None:
    line = line_of(2, 1)
    a, b, _ = [waiting(line, name) for name in "abc"]
    assert order(line) == ["a", "b"]
    line.fetched(number_of(b))
    line.fetched(number_of(a))
    effects = list(line.advance())
    assert only(effects, Build).number == number_of(a)
    assert only(effects, Fetch).spec.name == "c"  # in the place of a
    assert (line.fetches, line.builds, line.waiting) == (2, 1, 0)
    assert line.end(number_of(a)) is a
    assert only(line.advance(), Build).number == number_of(b)


def test_what_only_waits_leaves_without_a_trace() -> None:
    line = line_of(1, 1)
    waiting(line, "a")
    volume = waiting(line, "b")
    assert order(line) == ["a"]
    assert line.leave(volume) is None
    assert (line.waiting, volume.making) == (0, None)
