"""Queries that once had wrong results, each reduced as far as possible."""

import pytest

from argosy.search.model import Branch, Repository
from argosy.search.query.tree import (
    FALSE,
    And,
    Not,
    Or,
    Query,
    Regexp,
    RepoIds,
    ResultKind,
    Scope,
    Substring,
    Symbol,
    Type,
)
from tests.search.oracle.corpora import Checkout, File
from tests.search.oracle.engine import check_query

FOO, BAR = Substring("foo"), Substring("bar")
REPOSITORY = Repository("alpha", id=1, branches=(Branch("main"), Branch("next")))


def exact(pattern: str, scope: Scope = Scope.CONTENT) -> Regexp:
    return Regexp(pattern, is_case_sensitive=True, scope=scope)


@pytest.mark.parametrize(
    ("query", "contents"),
    [
        # Documents stand side by side in the index, with a NUL between them that is part of none.
        (exact("."), [b""]),
        (exact("o.*"), [b"o"]),
        (exact(r"[^\n]*"), [b"a", b"b\nc"]),
        (Regexp("П$", scope=Scope.CONTENT), ["п".encode()]),
        # Lines and names are matched many at a time, with a separator between them that is part of none.
        (exact(r"\s+Fo"), [b"Fo", b"\nFo"]),
        (exact("(?s:.{0,9})y", Scope.ANY), [b"*", b"0"]),
        # An empty match is a match, and has nothing to show.
        (exact("^$"), [b"a\n", b"a", b""]),
        (Not(exact("x*")), [b"a", b""]),
        (Symbol(exact("^")), [b"def foo():\n", b"foo"]),
        # What the repository decides leaves the rest of the query as it is.
        (And((RepoIds(frozenset({1})), Type(ResultKind.REPO, FOO))), [b"foo", b"bar"]),
        (Or((FALSE, Type(ResultKind.REPO, FOO))), [b"foo", b"bar"]),
        (Not(Not(Type(ResultKind.REPO, FOO))), [b"foo", b"bar"]),
        (And((Type(ResultKind.REPO, And((Type(ResultKind.REPO, FOO), BAR))), BAR)), [b"foo", b"bar"]),
        (Type(ResultKind.FILE_NAME, And((Type(ResultKind.REPO, FOO), BAR))), [b"foo", b"bar"]),
        # To a document that is not UTF-8 every byte is a character, also those of a pattern.
        (exact("[éп]"), ["é".encode() + b"\xff", b"\xd0"]),
        (exact(r"\x{e9}"), ["é".encode() + b"\xff", b"\xe9"]),
        (exact(r"\x{212a}|foo"), [b"foo\xff"]),
        # The long s and the Kelvin sign fold to ASCII letters wherever case is ignored.
        (exact(r"(?i)\*s"), ["*i\n*ſ".encode()]),
        (exact(r"(?i)😀\w"), ["😀i\n😀ſ".encode()]),
        (exact("(?i:k)elvin"), ["\u212aelvin".encode(), b"Kelvin"]),
    ],
)
def test_past_failures_stay_fixed(query: Query, contents: list[bytes]) -> None:
    files = [File(b"file%d.py" % number, content, 1 + number % 2) for number, content in enumerate(contents)]
    check_query(Checkout(REPOSITORY, tuple(files)), query)
