"""Renewing an index: unchanged documents are shared, removed ones are dead, and the segments stay few."""

from collections.abc import Iterator, Mapping, Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.search.backends.memory import MemoryFile, MemorySource, one_branch, several_branches
from argosy.search.documents import Content, Entry, EntryKind, SkipReason
from argosy.search.index.build import build
from argosy.search.index.incremental import DELETED_SHARE_MAX
from argosy.search.index.index import Index
from argosy.search.index.reader import content, content_of, documents
from argosy.search.index.sections import memory_bytes, sections, text_bytes, verify
from argosy.search.model import Branch, Repository
from argosy.search.skip_policy import Policy

POLICY = Policy()


def renewed(index: Index | None, files: Mapping[str, Content]) -> Index:
    return build(one_branch("r", dict(files)), POLICY, previous=index)


def live(index: Index) -> dict[tuple[str, tuple[str, ...]], Content]:
    """Every document that is on a branch, with its branches and its text."""
    listed = documents(index)
    found = {}
    for part in index.parts:
        for number in part.branches.nonzero()[0].tolist():
            each = next(listed)
            found[each.path, each.branches] = content_of(part.segment, number)
    return found


def shared_bytes(old: Index, new: Index) -> int:
    held = {id(array) for part in old.parts for _, array in sections(part.segment)}
    arrays = {id(array): array for part in new.parts for _, array in sections(part.segment)}
    return sum(array.nbytes for number, array in arrays.items() if number in held)


def dead_bytes(index: Index) -> int:
    return sum(int(np.diff(part.segment.content.starts)[part.branches == 0].sum()) for part in index.parts)


def tree(count: int, size: int = 4_000) -> dict[str, bytes]:
    random = Random(8)
    words = [b"%x" % random.randrange(1 << 20) for _ in range(2_000)]
    return {f"src/{n}.c": b" ".join(random.choices(words, k=size // 6)) + b"\n" for n in range(count)}


def test_nothing_new_shares_everything() -> None:
    files = tree(20)
    old = renewed(None, files)
    new = renewed(old, files)
    assert [part.segment for part in new.parts] == [part.segment for part in old.parts]
    assert live(new) == live(old)


def test_one_changed_file_in_a_hundred_leaves_99_percent_of_the_memory_shared() -> None:
    files = tree(1000)
    old = renewed(None, files)
    changed = {**files, **{path: files[path] + b"changed\n" for path in list(files)[::100]}}
    new = renewed(old, changed)
    assert shared_bytes(old, new) >= 0.99 * memory_bytes(old)
    assert len(new.parts) == 2
    assert content(new, "src/0.c").endswith(b"changed\n")
    assert live(new) == live(renewed(None, changed))
    assert verify(new) == []
    assert verify(old) == [], "the old one is as it was"


def test_only_what_changed_is_read() -> None:
    read_paths: list[bytes] = []

    class Watched(MemorySource):
        def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
            read_paths.extend(entry.path for entry in entries)
            return super().read(entries)

    files = tree(30)
    old = renewed(None, files)
    files = {**files, "src/7.c": b"new\n", "src/new.c": b"newer\n"}
    source = Watched(Repository("r"), [MemoryFile(path.encode(), text) for path, text in files.items()])
    build(source, POLICY, previous=old)
    assert read_paths == [b"src/7.c", b"src/new.c"]


def test_a_removed_file_is_dead_and_a_restored_one_alive_again_where_it_was() -> None:
    files = tree(30)
    old = renewed(None, files)
    without = renewed(old, {path: text for path, text in files.items() if path != "src/3.c"})
    assert "src/3.c" not in {each.path for each in documents(without)}
    assert len(without.parts) == 1
    back = renewed(without, files)
    assert [part.segment for part in back.parts] == [part.segment for part in old.parts]
    assert content(back, "src/3.c") == files["src/3.c"]


def test_a_new_file_that_is_skipped_for_its_size_weighs_nothing() -> None:
    files = tree(30)
    old = renewed(None, files)
    new = renewed(old, {**files, "dump.sql": b"x" * (POLICY.size_bytes_max + 1)})
    assert new.parts[0].segment is old.parts[0].segment


def test_when_too_much_is_dead_everything_is_rebuilt() -> None:
    files = tree(100)
    old = renewed(None, files)
    few = dict(list(files.items())[: int(100 * (1 - DELETED_SHARE_MAX)) - 5])
    new = renewed(old, few)
    assert shared_bytes(old, new) == 0
    assert text_bytes(new) < text_bytes(old) * 0.75
    assert live(new) == live(renewed(None, few))
    some = dict(list(files.items())[: int(100 * (1 - DELETED_SHARE_MAX)) + 5])
    assert shared_bytes(old, renewed(old, some)) > 0


def test_rebuilding_reads_no_content_that_the_index_has() -> None:
    class Unreadable(MemorySource):
        def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
            assert not entries
            return iter(())

    files = tree(100)
    few = [MemoryFile(path.encode(), text) for path, text in list(files.items())[:10]]
    new = build(Unreadable(Repository("r", branches=(Branch("main"),)), few), POLICY, previous=renewed(None, files))
    assert live(new) == {(file.path.decode(), ("main",)): file.content for file in few}


def test_many_commits_leave_few_segments() -> None:
    files: dict[str, Content] = dict(tree(400, 2_000))
    index = renewed(None, files)
    random = Random(2)
    most = 0
    for commit in range(80):
        for _ in range(3):
            files[f"src/{random.randrange(400)}.c"] = b"int commit_%d;\n" % commit * random.randrange(1, 100)
        index = renewed(index, files)
        most = max(most, len(index.parts))
    assert most <= 8
    assert live(index) == live(renewed(None, files))


def test_a_branch_that_moves_on_changes_masks_only() -> None:
    both = several_branches("r", {"main": {"a": b"1", "b": b"2"}, "dev": {"a": b"1", "b": b"2"}})
    old = build(both, POLICY)
    new = build(several_branches("r", {"main": {"a": b"1", "b": b"2"}, "dev": {"a": b"1"}}), POLICY, previous=old)
    assert new.parts[0].segment is old.parts[0].segment
    assert live(new) == {("a", ("main", "dev")): b"1", ("b", ("main",)): b"2"}


def test_what_could_not_be_read_is_tried_again() -> None:
    class Flaky(MemorySource):
        answer: Content = SkipReason.UNREADABLE

        def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
            return iter([self.answer for _ in entries])

    source = Flaky(Repository("r", branches=(Branch("main"),)), [MemoryFile(b"a", b"text")])
    old = build(source, POLICY)
    assert live(old) == {("a", ("main",)): SkipReason.UNREADABLE}
    source.answer = b"text"
    assert live(build(source, POLICY, previous=old)) == {("a", ("main",)): b"text"}


def test_a_file_that_becomes_a_link_with_the_same_bytes_is_another_document() -> None:
    repository = Repository("r", branches=(Branch("main"),))
    files = [MemoryFile(b"%d" % n, b"some text\n" * 100) for n in range(20)]
    old = build(MemorySource(repository, [*files, MemoryFile(b"a", b"target")]), POLICY)
    source = MemorySource(repository, [*files, MemoryFile(b"a", b"target", kind=EntryKind.SYMLINK)])
    new = build(source, POLICY, previous=old)
    assert live(new)["a", ("main",)] is SkipReason.SYMLINK


@pytest.mark.parametrize("width", [1, 20, 32])
def test_ids_that_end_in_zeros_are_known_again(width: int) -> None:
    class Named(MemorySource):
        def entries(self) -> Sequence[Entry]:
            return [Entry(b"a", bytes(width), 1), Entry(b"b", b"\1" * width, 1), Entry(b"c", b"\1" + bytes(40), 1)]

        def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
            return iter([b"x"] * len(entries))

    source = Named(Repository("r"), [])
    old = build(source, POLICY)
    assert build(source, POLICY, previous=old).parts[0].segment is old.parts[0].segment


trees = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from([b"", b"1\n", b"22\n", b"\0", b"x" * 9000]))


@settings(max_examples=60, deadline=None)
@given(versions=st.lists(st.tuples(trees, trees), min_size=2, max_size=6))
def test_any_history_ends_as_a_fresh_build_would(versions: list[tuple[dict[str, bytes], dict[str, bytes]]]) -> None:
    index: Index | None = None
    for main, dev in versions:
        source = several_branches("r", {"main": dict(main), "dev": dict(dev)})
        index = build(source, POLICY, previous=index)
        assert live(index) == live(build(source, POLICY))
        assert verify(index) == []
        assert dead_bytes(index) <= DELETED_SHARE_MAX * text_bytes(index)


def test_an_index_of_another_recipe_is_not_renewed() -> None:
    files = {"a.py": b"def one(): pass\n"}
    old = build(one_branch("r", dict(files)), POLICY, with_symbols=False)
    new = build(one_branch("r", dict(files)), POLICY, previous=old)
    assert new.parts[0].segment is not old.parts[0].segment
    assert len(new.parts[0].segment.symbols.starts) == 1
