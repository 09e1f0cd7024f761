"""A repository in memory behaves like one on disk: ordered entries, ids by content, branches as bits."""

import pytest

from argosy.base.errors import Invalid
from argosy.search.backends.memory import MemoryFile, MemorySource, one_branch, several_branches
from argosy.search.documents import SkipReason
from argosy.search.model import Repository


def test_entries_come_by_path_and_contents_in_the_requested_order() -> None:
    source = one_branch("r", {"b": b"2", "a": b"1", "c": SkipReason.MISSING})
    entries = source.entries()
    assert [entry.path for entry in entries] == [b"a", b"b", b"c"]
    assert list(source.read([entries[2], entries[0]])) == [SkipReason.MISSING, b"1"]


def test_a_blob_is_named_as_git_names_it() -> None:
    assert one_branch("r", {"a": b"hello\n"}).entries()[0].blob_id.hex() == "ce013625030ba8dba906f756967f9e9ca394464a"


def test_what_is_equal_on_two_branches_is_one_entry() -> None:
    source = several_branches("r", {"main": {"a": b"1", "b": b"2"}, "dev": {"a": b"1", "b": b"3"}})
    assert sorted((entry.path, entry.branches) for entry in source.entries()) == [(b"a", 3), (b"b", 1), (b"b", 2)]
    assert [branch.name for branch in source.repository.branches] == ["main", "dev"]


def test_there_are_at_most_64_branches() -> None:
    with pytest.raises(Invalid, match="at most 64"):
        several_branches("r", {str(number): {} for number in range(65)})


def test_the_same_file_twice_is_rejected() -> None:
    with pytest.raises(Invalid, match="given twice"):
        MemorySource(Repository("r"), [MemoryFile(b"a", b"1"), MemoryFile(b"a", b"1")])
