"""The counts of an index are those of its live documents."""

import pytest

from argosy.search.backends.memory import one_branch, several_branches
from argosy.search.fleet import repo_contents
from argosy.search.fleet.model import Phase, RepoStatus
from argosy.search.fleet.repo_contents import Counts, IndexCounts, count_index
from argosy.search.index.build import build
from argosy.search.index.index import Index
from argosy.search.index.sections import memory_bytes
from argosy.search.skip_policy import Policy

FILES: dict[str | bytes, bytes] = {
    "a.py": b"def f():\n    pass\n",
    "b.py": b"x = 1",
    "c.go": b"package c\n\n",
    "d": b"\n\n\n",
    "e.png": b"\0\n\n",
}


def test_the_contents_of_an_index_are_counted() -> None:
    index = build(one_branch("r", FILES), Policy())
    assert count_index(index) == Counts(
        documents=5,
        content_bytes=18 + 5 + 11 + 3,
        memory_bytes=memory_bytes(index),
        lines=2 + 0 + 2 + 3,
        has_symbols=True,
        languages={"Python": 2, "Go": 1},
    )


def test_a_document_on_two_branches_counts_once() -> None:
    index = build(several_branches("r", {"main": FILES, "dev": FILES}), Policy())
    assert (count_index(index).documents, count_index(index).lines) == (5, 7)


def test_dead_documents_do_not_count() -> None:
    stays: dict[str | bytes, bytes] = {f"{i}.py": b"x = %d\n" % (100 + i) for i in range(100)}
    first = build(one_branch("r", {**stays, "gone.go": b"package c\n\n", "new.py": b"\n\n"}), Policy())
    index = build(one_branch("r", {**stays, "new.py": b"y = 1\n"}), Policy(), previous=first)
    assert len(index.parts) == 2, "the test is about an index that was incremental"
    counts = count_index(index)
    assert (counts.documents, counts.content_bytes, counts.lines) == (101, 806, 101)
    assert counts.languages == {"Python": 101}


def test_lines_are_counted_across_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repo_contents, "SLICE_BYTES", 3)
    assert count_index(build(one_branch("r", FILES), Policy())).lines == 7


def test_an_index_without_definitions_is_marked() -> None:
    index = build(one_branch("r", FILES), Policy(), with_symbols=False)
    assert not count_index(index).has_symbols
    assert count_index(build(one_branch("r", {}), Policy())).documents == 0


def test_a_version_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[Index] = []

    def counting(index: Index) -> Counts:
        counted.append(index)
        return count_index(index)

    monkeypatch.setattr(repo_contents, "count_index", counting)
    listings = IndexCounts()
    first = build(one_branch("r", FILES), Policy())
    second = build(one_branch("r", {"a.py": b"1\n"}), Policy(), previous=first)
    assert [listings.listing(first, None).documents for _ in range(3)] == [5, 5, 5]
    assert listings.listing(second, None).documents == 1
    assert listings.listing(second, RepoStatus("r", Phase.READY, indexed_at=7.0)).indexed_at == 7.0
    assert counted == [first, second]


def test_the_number_of_cached_counts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repo_contents, "CACHED_MAX", 2)
    listings = IndexCounts()
    for name in "abcde":
        assert listings.listing(build(one_branch(name, FILES), Policy()), None).documents == 5
    assert len(listings._cached) <= 2
