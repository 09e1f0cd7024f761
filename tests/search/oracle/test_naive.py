"""The oracle itself, held to expectations written by hand."""

import pytest

from argosy.search.model import Branch as RepositoryBranch
from argosy.search.model import Location, Repository
from argosy.search.query.tree import (
    FALSE,
    TRUE,
    Alias,
    And,
    Boost,
    BranchesRepos,
    FileNameSet,
    Flag,
    Language,
    Meta,
    Not,
    OnBranch,
    Or,
    Query,
    Regexp,
    Repo,
    RepoIds,
    RepoSet,
    ResultKind,
    Scope,
    Substring,
    Symbol,
    Type,
)
from tests.search.oracle import comparison
from tests.search.oracle.naive import Corpus, Document, Span, search

REPOSITORY = Repository(
    name="team/alpha",
    id=7,
    branches=(RepositoryBranch("main"), RepositoryBranch("main-next"), RepositoryBranch("HEADLESS")),
    flags={"archived": True},
    metadata={"tier": "gold"},
    aliases=("first",),
)
PYTHON = Document(b"src/one.py", b"def foo():\n    return Bar\n", 0b001, "Python", ((4, 7),))
GO = Document(b"two.go", b"func Foo() {}\n// foo foofoo\n", 0b011, "Go", ((5, 8),))
EMPTY = Document(b"foo/skipped.bin", b"", 0b100)
GONE = Document(b"foo/gone.txt", b"foo", 0b000)
BROKEN = Document(b"latin.txt", b"caf\xe9 k\n", 0b001)
ODD = Document(b"odd.txt", "5 \u212aelvin, ſet, ÉTÉ, ПОЛЕ\n".encode(), 0b100)
CORPUS = Corpus(REPOSITORY, (PYTHON, GO, EMPTY, GONE, BROKEN, ODD))

FOO = Substring("foo")


def names(query: Query) -> list[bytes]:
    return [found.document.path for found in search(CORPUS, query)]


def spans(query: Query, document: Document) -> list[tuple[int, int]]:
    [found] = [found for found in search(CORPUS, query) if found.document is document]
    return [(span.start, span.end) for span in found.spans]


def test_true_selects_what_is_there_and_false_nothing() -> None:
    assert names(TRUE) == [b"src/one.py", b"two.go", b"foo/skipped.bin", b"latin.txt", b"odd.txt"]
    assert names(FALSE) == []
    assert names(And(())) == names(TRUE)
    assert names(Or(())) == []


def test_text_is_looked_for_in_content_and_name() -> None:
    assert names(FOO) == [b"src/one.py", b"two.go", b"foo/skipped.bin"]
    assert names(Substring("foo", scope=Scope.CONTENT)) == [b"src/one.py", b"two.go"]
    assert names(Substring("foo", scope=Scope.FILE_NAME)) == [b"foo/skipped.bin"]
    assert names(Substring("Foo", is_case_sensitive=True)) == [b"two.go"]


@pytest.mark.parametrize("text", ["kelvin", "SET", "été", "поле"])
def test_letters_of_either_case_are_equal_in_any_script(text: str) -> None:
    assert names(Substring(text)) == [b"odd.txt"]
    assert names(Substring(text, is_case_sensitive=True)) == []


def test_a_document_that_is_not_utf8_is_read_byte_by_byte() -> None:
    assert spans(Regexp("caf. K"), BROKEN) == [(0, 6)]
    assert spans(Regexp(r"[^\x00-\x7f]"), BROKEN) == [(3, 4)]
    assert b"latin.txt" not in names(Substring("é"))


def test_matches_of_one_leaf_follow_one_another_without_overlap() -> None:
    assert spans(FOO, GO) == [(5, 8), (17, 20), (21, 24), (24, 27)]
    assert spans(Substring("oof"), GO) == [(22, 25)]


def test_of_overlapping_matches_the_first_and_then_the_longest_stays() -> None:
    assert spans(And((FOO, Substring("foofoo"))), GO) == [(5, 8), (17, 20), (21, 27)]
    assert spans(And((Substring("oof"), Substring("foo"))), GO) == [(5, 8), (17, 20), (21, 24), (24, 27)]


def test_content_matches_suppress_those_of_the_name() -> None:
    assert search(CORPUS, Substring("o"))[0].spans == (Span(5, 6), Span(6, 7))
    assert search(CORPUS, Substring("one"))[0].spans == (Span(4, 7, is_name=True),)
    assert search(CORPUS, And((Substring("one"), Substring("bar"))))[0].spans == (Span(22, 25),)


def test_a_document_selected_by_filters_alone_shows_its_whole_name() -> None:
    assert search(CORPUS, Language("Go"))[0].spans == (Span(0, 6, is_name=True),)
    assert search(CORPUS, Regexp("x*"))[1].spans == (Span(0, 6, is_name=True),)
    assert search(CORPUS, Type(ResultKind.FILE_NAME, FOO))[0].spans == (Span(0, 10, is_name=True),)


def test_only_what_is_true_and_not_denied_adds_matches() -> None:
    assert spans(Or((Substring("bar"), And((FOO, Language("Go"))))), PYTHON) == [(22, 25)]
    assert spans(And((Substring("bar"), Not(Substring("func")))), PYTHON) == [(22, 25)]
    assert names(Not(FOO)) == [b"latin.txt", b"odd.txt"]
    assert spans(Not(Not(FOO)), PYTHON) == [(4, 7)]


def test_conditions_on_the_repository_have_no_matches_to_show() -> None:
    assert spans(Or((Repo("alpha"), FOO)), PYTHON) == [(0, 10)]
    assert spans(Or((Repo("beta"), FOO)), PYTHON) == [(4, 7)]
    assert spans(Or((Language("Python"), FOO)), PYTHON) == [(4, 7)]
    assert spans(Or((Not(Language(None)), FOO)), PYTHON) == [(0, 10)]
    assert spans(And((Not(Or((FALSE, Not(FOO)))), TRUE)), PYTHON) == [(4, 7)]


def test_anchors_are_those_of_lines_and_a_match_may_span_them() -> None:
    assert spans(Regexp("^//.*$"), GO) == [(14, 27)]
    assert spans(Regexp(r"\}\s+//"), GO) == [(12, 16)]
    assert b"src/one.py" not in names(Regexp("foo.*bar"))
    assert spans(Regexp("(?s)foo.*bar"), PYTHON) == [(4, 25)]


def test_an_empty_line_after_the_last_newline_counts() -> None:
    assert names(Regexp("^$", scope=Scope.CONTENT)) == names(TRUE)
    assert names(Regexp(r"[^\n]\z", scope=Scope.CONTENT)) == []


def test_symbols_are_matched_by_their_names_alone() -> None:
    assert names(Symbol(FOO)) == [b"src/one.py", b"two.go"]
    assert spans(Symbol(Regexp("^f.*$")), GO) == [(5, 8)]
    assert names(Symbol(Substring("return"))) == []


def test_boost_and_type_file_match_change_no_selection() -> None:
    assert search(CORPUS, Boost(FOO, 20.0)) == search(CORPUS, FOO)
    assert search(CORPUS, Type(ResultKind.FILE_MATCH, FOO)) == search(CORPUS, FOO)


def test_type_repo_inside_selects_by_any_document_of_the_repository() -> None:
    has_go = Type(ResultKind.REPO, Language("Go"))
    assert names(And((has_go, Substring("bar")))) == [b"src/one.py"]
    assert names(Not(has_go)) == []
    assert names(Not(Type(ResultKind.REPO, FileNameSet(frozenset({"foo/gone.txt"}))))) == names(TRUE)


@pytest.mark.parametrize(
    "query",
    [
        Repo("^team/"),
        RepoSet(frozenset({"team/alpha", "x"})),
        RepoIds(frozenset({7})),
        Alias("first"),
        Flag("archived", True),
        Flag("fork", False),
        Meta("tier", "^g"),
    ],
)
def test_a_true_fact_about_the_repository_selects_everything(query: Query) -> None:
    assert names(query) == names(TRUE)
    assert names(Not(query)) == []


@pytest.mark.parametrize(
    "query",
    [
        Repo("^alpha"), Repo("TEAM"), RepoSet(frozenset({"alpha"})), RepoIds(frozenset({8})), Alias("team/alpha"),
        Flag("archived", False), Flag("public", True), Meta("tier", "silver"), Meta("owner", ""), Language(None),
    ],
)  # fmt: skip
def test_a_false_fact_about_the_repository_selects_nothing(query: Query) -> None:
    assert names(query) == []


@pytest.mark.parametrize(
    ("query", "paths"),
    [
        (OnBranch("HEAD"), [b"src/one.py", b"two.go", b"latin.txt"]),
        (OnBranch("main"), [b"src/one.py", b"two.go", b"latin.txt"]),
        (OnBranch("next"), [b"two.go"]),
        (OnBranch("main-", is_exact=True), []),
        (OnBranch("HEADLESS", is_exact=True), [b"foo/skipped.bin", b"odd.txt"]),
        (BranchesRepos((("main-next", frozenset({7})), ("HEADLESS", frozenset({8})))), [b"two.go"]),
    ],
)
def test_branches_are_selected_by_name(query: Query, paths: list[bytes]) -> None:
    assert names(query) == paths


def test_columns_count_characters_and_broken_bytes() -> None:
    text = "aé\n😀k".encode() + b"\xff\xe2\x82z"
    assert comparison.location(text, 3) == Location(3, 1, 3)
    assert comparison.location(text, 4) == Location(4, 2, 1)
    assert comparison.location(text, 8) == Location(8, 2, 2)
    assert comparison.location(text, len(text) - 1) == Location(12, 2, 6)


def test_chunks_are_whole_lines_and_join_when_their_context_meets() -> None:
    text = b"0 x\n1\n2\n3\n4 x x\n5 x"
    found = [Span(position, position + 1) for position, byte in enumerate(text) if byte == ord("x")]
    assert [chunk.content for chunk in comparison.chunks(text, found, 0)] == [b"0 x\n", b"4 x x\n5 x"]
    assert [chunk.content for chunk in comparison.chunks(text, found, 1)] == [b"0 x\n1\n", b"3\n4 x x\n5 x"]
    [whole] = comparison.chunks(text, found, 2)
    assert whole.content == text
    assert [(each.start.line, each.start.column) for each in whole.ranges] == [(1, 3), (5, 3), (5, 5), (6, 3)]


def test_a_range_across_lines_is_kept_whole_in_chunks_and_split_in_lines() -> None:
    text = b"ab\n\ncd\nef\n"
    [chunk] = comparison.chunks(text, [Span(1, 6)], 0)
    assert (chunk.content, chunk.ranges[0].end) == (b"ab\n\ncd\n", Location(6, 3, 3))
    first, second = comparison.lines(text, [Span(1, 7)], 1)
    assert (first.number, first.content, first.fragments[0].offset, first.fragments[0].length) == (1, b"ab", 1, 1)
    assert (second.number, second.start, second.end, second.fragments[0].length) == (3, 4, 7, 2)
    assert (first.before, first.after, second.before, second.after) == ((), (b"",), (b"",), (b"ef",))
