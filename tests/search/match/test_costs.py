"""The reported costs of a search; and a filter on names reads no text of other files."""

import sys
from subprocess import run

import pytest

from argosy.search.index_set import IndexSet
from argosy.search.model import Options
from argosy.search.query.tree import Regexp, Scope, Substring
from tests.search.match.search_calls import build_index, search_one, tree_of

TEXT = b"a needle in a line\n" * 50
FILES: dict[str | bytes, bytes] = {f"{folder}/{i}.{kind}": TEXT for folder in "ab" for i in range(5) for kind in "ch"}


@pytest.mark.parametrize("query", ["content:needle", "needle", "content:nee.le", "content:needle content:line"])
@pytest.mark.parametrize(
    ("narrowing", "files"), [(r"file:^a/", 10), (r"file:^a/.*\.c$", 5), ("file:b/3.c", 1), (r"-file:\.h$", 10)]
)
def test_only_the_text_of_named_files_is_searched(query: str, narrowing: str, files: int) -> None:
    stats = search_one(build_index(FILES), f"{query} {narrowing}").stats
    atoms = query.count("content:") or 1
    assert (stats.files, stats.files_considered) == (files, files)
    assert stats.content_bytes == atoms * files * (len(TEXT) + 1)  # each with its NUL


def test_a_name_that_no_file_has_leaves_nothing_to_do() -> None:
    stats = search_one(build_index(FILES), r"content:needle file:^c/").stats
    assert (stats.files_considered, stats.content_bytes) == (0, 0)


def test_names_that_narrowed_a_search_are_still_reported() -> None:
    answer = search_one(build_index(FILES), "file:b/3 file:c")
    assert [file.path for file in answer.files] == ["b/3.c"]
    assert [len(chunk.ranges) for chunk in answer.files[0].chunks] == [2]


def test_trigrams_looked_up_and_postings_read_are_counted() -> None:
    index = build_index(FILES)
    missing = search_one(index, Substring("zzqq", scope=Scope.CONTENT)).stats
    assert (missing.ngram_lookups, missing.index_bytes) == (2, 0)
    plain = search_one(index, Substring("needle", scope=Scope.CONTENT)).stats
    assert plain.ngram_lookups == 4
    assert plain.index_bytes >= 2 * 4 * len(FILES) / 16  # each of the keys is in every block: bitmaps
    tree = search_one(index, "content:needle lang:c").stats
    assert (tree.ngram_lookups, tree.index_bytes) == (plain.ngram_lookups, plain.index_bytes)


def test_files_matched_by_a_regular_expression_are_counted() -> None:
    files: dict[str | bytes, bytes] = {"a": b"needle and thread", "b": b"needle", "c": b"thread"}
    assert search_one(build_index(files), Substring("needle", scope=Scope.CONTENT)).stats.regexps_considered == 0
    assert search_one(build_index(files), Regexp("needle.*thread", scope=Scope.CONTENT)).stats.regexps_considered == 1


class Late:
    """A clock that advances by a second at every reading."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def now(self) -> float:
        self.now_s += 1.0
        return self.now_s

    def wall(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds


async def test_waiting_for_a_thread_is_measured_apart_from_the_work() -> None:
    index_set = IndexSet([build_index(FILES)], clock=Late())
    try:
        waited = await index_set.search(tree_of("needl."), Options(wall_time_s=0.0))  # no plain word: it needs a thread
        at_once = index_set.search_now(tree_of("needle"), Options(wall_time_s=0.0))
    finally:
        index_set.close()
    assert waited.stats.wait_s > 0
    assert at_once.stats.wait_s == 0
    assert min(waited.stats.duration_s, at_once.stats.duration_s) > 0


def test_searching_loads_no_module_for_symbol_extraction() -> None:
    code = "import sys, argosy.search.index_set, argosy.search.query; print(*sys.modules)"
    loaded = run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "argosy.search.match.search" in loaded
    assert not {"argosy.search.symbols.extract", "argosy.search.index.build"} & set(loaded)
