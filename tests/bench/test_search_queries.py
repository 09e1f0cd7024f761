"""Queries of the search benchmark: the same for every program, and each belongs to its class."""

import re
from pathlib import Path

import pytest

from argosy.bench.search.bench_query import KINDS, BenchQuery, FileFilter, Kind, is_case_sensitive
from argosy.bench.search.query_selection import Sample, belongs_to, known_queries, sample_index, select_queries
from argosy.search.backends.folder import FolderSource
from argosy.search.index.build import build
from argosy.search.query import parse
from argosy.search.query.tree import And, Regexp, Scope, Substring
from argosy.search.skip_policy import Policy
from bench.peers.search import Csearch, GitGrep, Ripgrep
from tests.bench.search_tree import write_tree

FILTERED = BenchQuery("filter", ("kmalloc",), files=FileFilter(directory="fs/ext4", suffix=".c"))
CORPUS = Path("/corpus")


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    return sample_index(build(FolderSource(str(write_tree(tmp_path))), Policy(), with_symbols=False))


@pytest.mark.parametrize("kind", KINDS)
def test_the_text_of_a_query_means_the_query(kind: Kind) -> None:
    for query in known_queries(kind):
        tree = parse(query.text).query
        leaves = tree.children if isinstance(tree, And) else (tree,)
        texts = [
            leaf.pattern if isinstance(leaf, Regexp) else leaf.text
            for leaf in leaves
            if isinstance(leaf, Regexp | Substring) and leaf.scope is Scope.CONTENT
        ]
        assert texts == list(query.words) or {text.replace("\\", "") for text in texts} == {
            word.replace("\\", "") for word in query.words
        }


def test_a_file_filter_is_the_same_for_all_programs() -> None:
    assert FILTERED.files is not None
    assert (FILTERED.files.regex, FILTERED.files.glob) == (r"^fs/ext4/.*\.c$", "/fs/ext4/**/*.c")
    assert (FileFilter(suffix=".h").regex, FileFilter(suffix=".h").glob) == (r"\.h$", "/**/*.h")
    assert (FileFilter(directory="mm").regex, FileFilter(directory="mm").glob) == ("^mm/", "/mm/**/*")


def test_case_matters_to_upper_case_letters_of_the_text() -> None:
    assert [is_case_sensitive(word) for word in ("kmalloc", "NULL", r"\S+_init", r"[A-Z]+_MAX")] == [
        False,
        True,
        False,
        True,
    ]


def test_ripgrep_searches_for_several_words_in_a_pipeline() -> None:
    command = Ripgrep(CORPUS, "rg", "").command(BenchQuery("and", ("one's", "Two")), ("-c",), 2)
    assert command[:2] == ["sh", "-c"]
    first, second = command[2].split(" | ")
    assert re.search(r"""-i -F -l --null -e 'one'"'"'s' \./$""", first)
    assert re.search(r"^xargs -0 -r rg .* -j2 -s -F -c -e Two --$", second)


def test_git_grep_gets_path_and_case() -> None:
    command = GitGrep(CORPUS, "git", "").command(FILTERED, ("-c",), 1)
    assert command[-4:] == ["-e", "kmalloc", "--", ":(glob)fs/ext4/**/*.c"]
    assert {"-i", "-F", "--no-index", "--threads=1"} <= set(command)


def test_csearch_gets_whole_paths_and_only_regexes() -> None:
    peer = Csearch(CORPUS, "csearch", "")
    assert peer.command(FILTERED, "a->b", ("-c",)) == [
        "csearch",
        "-i",
        "-f",
        r"^/corpus/fs/ext4/.*\.c$",
        "-c",
        "--",
        r"a\->b",
    ]
    regex = BenchQuery("regex", (r"\w+_MAX",), is_regex=True)
    assert peer.command(regex, regex.words[0], ("-n",)) == ["csearch", "-n", "--", r"\w+_MAX"]


@pytest.mark.parametrize(
    ("kind", "files", "is_one"),
    [
        ("zero", 0, True), ("zero", 1, False),
        ("rare", 0, False), ("rare", 1, True), ("rare", 10, True), ("rare", 11, False),
        ("identifier", 10, False), ("identifier", 11, True), ("identifier", 1_999, True), ("identifier", 2_000, False),
        ("common", 1_999, False), ("common", 2_000, True),
        ("regex", 1, True), ("regex", 0, False), ("short", 10_000, True),
    ],
)  # fmt: skip
def test_a_class_is_a_share_of_the_files(kind: Kind, files: int, is_one: bool) -> None:
    assert belongs_to(kind, files, 10_000) is is_one


def test_in_a_small_tree_two_files_are_still_rare() -> None:
    assert [belongs_to("rare", files, 50) for files in (2, 3)] == [True, False]


def test_the_same_tree_always_gets_the_same_queries(sample: Sample) -> None:
    def files_of(query: BenchQuery) -> int:
        words = [word.encode() for word in query.words]
        return sum(all(word in content.lower() for word in words) for content in sample.contents)

    first = {
        kind: select_queries(kind, 3, sample, files_of, len(sample.contents)) for kind in ("rare", "identifier", "zero")
    }
    again = {
        kind: select_queries(kind, 3, sample, files_of, len(sample.contents)) for kind in ("rare", "identifier", "zero")
    }
    assert first == again
    assert len(first["rare"]) == len(first["zero"]) == 3
    assert all(query.words[0].startswith("anchor_") for query in first["rare"])
    assert [query.words for query in first["identifier"]] == [("ledger_entry",)]


def test_a_tree_without_words_gets_the_well_known_queries() -> None:
    nothing = Sample((), (), ())
    assert select_queries("rare", 3, nothing, lambda query: 0, 10) == []
    assert select_queries("zero", 3, nothing, lambda query: 0, 10) == known_queries("zero")[:3]
