"""The order in which repositories are fetched and built."""

from itertools import count

from argosy.ownership.model import SUCCESSOR, Unit
from argosy.search.fleet.effects import Build, Fetch
from argosy.search.fleet.held_repo import HeldRepo, LoadedIndex
from argosy.search.fleet.index_queue import IndexQueue
from tests.search.fleet.controller_fixture import MIB, of_kind, only, spec, stats


def queue_of(fetches_max: int, builds_max: int) -> IndexQueue:
    return IndexQueue(count(1), fetches_max=fetches_max, builds_max=builds_max)


def waiting(
    queue: IndexQueue, name: str, *, replica: int = 0, size: int | None = None, loaded: bool = False
) -> HeldRepo:
    repo = HeldRepo(Unit(name, replica), spec(name, footprint_bytes=size))
    if loaded:
        repo.loaded = LoadedIndex(stats(), spec(name), 0.0)
    queue.add(repo, 0.0)
    return repo


def order(queue: IndexQueue) -> list[str]:
    return [effect.spec.name for effect in of_kind(queue.advance(), Fetch)]


def number_of(repo: HeldRepo) -> int:
    assert repo.job is not None
    return repo.job.number


def test_unsearchable_repositories_come_first_then_primaries_then_smaller_ones() -> None:
    queue = queue_of(10, 1)
    waiting(queue, "old", loaded=True, size=9)
    waiting(queue, "less old", loaded=True, size=1)
    waiting(queue, "replica", replica=1, size=1)
    waiting(queue, "large", size=200 * MIB)
    waiting(queue, "unknown")
    waiting(queue, "small", size=MIB)
    waiting(queue, "successor", replica=SUCCESSOR, size=0)
    assert order(queue) == ["successor", "small", "unknown", "large", "replica", "old", "less old"]


def test_a_slot_is_taken_until_the_job_has_ended_even_after_it_was_stopped() -> None:
    queue = queue_of(1, 1)
    first = waiting(queue, "a")
    waiting(queue, "b")
    number = number_of(first)
    assert order(queue) == ["a"]
    assert order(queue) == []
    assert queue.cancel(first) == number
    assert order(queue) == []
    assert queue.end(number) is None  # no unit waits for it
    assert order(queue) == ["b"]


def test_a_fetched_repository_keeps_its_slot_until_it_is_built() -> None:
    queue = queue_of(2, 1)
    a, b, _ = [waiting(queue, name) for name in "abc"]
    assert order(queue) == ["a", "b"]
    queue.on_source_fetched(number_of(b))
    queue.on_source_fetched(number_of(a))
    effects = list(queue.advance())
    assert only(effects, Build).number == number_of(a)
    assert only(effects, Fetch).spec.name == "c"  # in the place of a
    assert (queue.fetches, queue.builds, queue.waiting) == (2, 1, 0)
    assert queue.end(number_of(a)) is a
    assert only(queue.advance(), Build).number == number_of(b)


def test_a_waiting_job_is_removed_without_a_trace() -> None:
    queue = queue_of(1, 1)
    waiting(queue, "a")
    repo = waiting(queue, "b")
    assert order(queue) == ["a"]
    assert queue.cancel(repo) is None
    assert (queue.waiting, repo.job) == (0, None)
