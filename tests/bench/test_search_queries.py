"""Questions of the search bench: every program is asked the same, and each question belongs to its class."""

import re
from pathlib import Path

import pytest

from argosy.bench.search.bench_query import KINDS, Ask, Kind, Place, is_cased
from argosy.bench.search.peers import Csearch, GitGrep, Ripgrep
from argosy.bench.search.query_sampler import Sample, belongs, chosen, sampled
from argosy.bench.search.query_sets import known
from argosy.search.backends.folder import FolderSource
from argosy.search.index.build import build
from argosy.search.query import parse
from argosy.search.query.tree import And, Regexp, Scope, Substring
from argosy.search.skip_policy import Policy
from tests.bench.search_tree import write_tree

PLACED = Ask("filter", ("kmalloc",), place=Place(folder="fs/ext4", suffix=".c"))
CORPUS = Path("/corpus")


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    return sampled(build(FolderSource(str(write_tree(tmp_path))), Policy(), with_symbols=False))


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_person_would_type_means_what_is_asked(kind: Kind) -> None:
    for ask in known(kind):
        query = parse(ask.text).query
        leaves = query.children if isinstance(query, And) else (query,)
        texts = [
            leaf.pattern if isinstance(leaf, Regexp) else leaf.text
            for leaf in leaves
            if isinstance(leaf, Regexp | Substring) and leaf.scope is Scope.CONTENT
        ]
        assert texts == list(ask.words) or {text.replace("\\", "") for text in texts} == {
            word.replace("\\", "") for word in ask.words
        }


def test_a_place_is_the_same_files_for_all() -> None:
    assert PLACED.place is not None
    assert (PLACED.place.regex, PLACED.place.glob) == (r"^fs/ext4/.*\.c$", "/fs/ext4/**/*.c")
    assert (Place(suffix=".h").regex, Place(suffix=".h").glob) == (r"\.h$", "/**/*.h")
    assert (Place(folder="mm").regex, Place(folder="mm").glob) == ("^mm/", "/mm/**/*")


def test_case_matters_to_upper_case_that_somebody_wrote() -> None:
    assert [is_cased(word) for word in ("kmalloc", "NULL", r"\S+_init", r"[A-Z]+_MAX")] == [False, True, False, True]


def test_ripgrep_is_asked_for_several_words_one_after_the_other() -> None:
    command = Ripgrep(CORPUS, "rg", "").command(Ask("and", ("one's", "Two")), ("-c",), 2)
    assert command[:2] == ["sh", "-c"]
    first, second = command[2].split(" | ")
    assert re.search(r"""-i -F -l --null -e 'one'"'"'s' \./$""", first)
    assert re.search(r"^xargs -0 -r rg .* -j2 -s -F -c -e Two --$", second)


def test_git_grep_is_told_where_and_in_which_case() -> None:
    command = GitGrep(CORPUS, "git", "").command(PLACED, ("-c",), 1)
    assert command[-4:] == ["-e", "kmalloc", "--", ":(glob)fs/ext4/**/*.c"]
    assert {"-i", "-F", "--no-index", "--threads=1"} <= set(command)


def test_csearch_has_whole_paths_and_only_regexes() -> None:
    peer = Csearch(CORPUS, "csearch", "")
    assert peer.command(PLACED, "a->b", ("-c",)) == [
        "csearch",
        "-i",
        "-f",
        r"^/corpus/fs/ext4/.*\.c$",
        "-c",
        "--",
        r"a\->b",
    ]
    regex = Ask("regex", (r"\w+_MAX",), is_regex=True)
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
    assert belongs(kind, files, 10_000) is is_one


def test_in_a_small_tree_two_files_are_still_rare() -> None:
    assert [belongs("rare", files, 50) for files in (2, 3)] == [True, False]


def test_the_same_tree_is_always_asked_the_same(sample: Sample) -> None:
    def files_of(ask: Ask) -> int:
        words = [word.encode() for word in ask.words]
        return sum(all(word in content.lower() for word in words) for content in sample.contents)

    first = {kind: chosen(kind, 3, sample, files_of, len(sample.contents)) for kind in ("rare", "identifier", "zero")}
    again = {kind: chosen(kind, 3, sample, files_of, len(sample.contents)) for kind in ("rare", "identifier", "zero")}
    assert first == again
    assert len(first["rare"]) == len(first["zero"]) == 3
    assert all(ask.words[0].startswith("anchor_") for ask in first["rare"])
    assert [ask.words for ask in first["identifier"]] == [("ledger_entry",)]


def test_a_tree_without_words_is_asked_what_is_known() -> None:
    nothing = Sample((), (), ())
    assert chosen("rare", 3, nothing, lambda ask: 0, 10) == []
    assert chosen("zero", 3, nothing, lambda ask: 0, 10) == known("zero")[:3]
