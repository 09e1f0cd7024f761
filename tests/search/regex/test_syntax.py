"""Patterns are parsed as RE2 parses them."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.search.regex import Pattern, RegexError, parse_regex, prefilter
from argosy.search.regex.syntax import DEPTH_MAX
from argosy.search.regex.tree import (
    ANY_CHAR,
    ANY_CHAR_OF_LINE,
    EMPTY,
    Assertion,
    AssertionKind,
    CaseMode,
    Chars,
    Choice,
    Class,
    CodePoints,
    Named,
    Node,
    Opaque,
    Repeat,
    Sequence,
)
from tests.search.regex import patterns

A = Chars("a")


def one(char: str) -> CodePoints:
    return CodePoints(ord(char), ord(char))


@pytest.mark.parametrize(
    ("pattern", "tree"),
    [
        ("", EMPTY),
        ("abc", Chars("abc")),
        (r"a\.b", Chars("a.b")),
        ("(abc)(de)", Chars("abcde")),
        ("(?P<n>a)(?<m>b)", Chars("ab")),
        (r"\x41\x{436}\101\0\n\t\_\-", Chars("Aж" + "A\0\n\t_-")),
        (r"\Qa.b\E*", Sequence((Chars("a."), Repeat(Chars("b"), 0, None)))),
        (r"\Qa\b", Chars(r"a\b")),
        ("ab*", Sequence((A, Repeat(Chars("b"), 0, None)))),
        ("a+?", Repeat(A, 1, None, is_greedy=False)),
        ("(?U)a+a+?", Sequence((Repeat(A, 1, None, is_greedy=False), Repeat(A, 1, None)))),
        ("a{2}b{3,}c{4,5}", Sequence((Repeat(A, 2, 2), Repeat(Chars("b"), 3, None), Repeat(Chars("c"), 4, 5)))),
        ("a{,2}", Chars("a{,2}")),
        ("a{01}", Chars("a{01}")),
        ("a{", Chars("a{")),
        ("a]}", Chars("a]}")),
        ("a|b|", Choice((A, Chars("b"), EMPTY))),
        ("()*", Repeat(EMPTY, 0, None)),
        ("a(?i)*", Repeat(A, 0, None)),
        ("(?i)a(?-i)a", Sequence((Chars("a", CaseMode.FOLDED), Chars("a", CaseMode.EXACT)))),
        ("(?:(?i)a)a", Sequence((Chars("a", CaseMode.FOLDED), A))),
        ("(?i:a|a)a", Sequence((Choice((Chars("a", CaseMode.FOLDED), Chars("a", CaseMode.FOLDED))), A))),
        ("a(?i)|a", Choice((A, Chars("a", CaseMode.FOLDED)))),
        ("(?i-i:a)", Chars("a", CaseMode.EXACT)),
        (".", ANY_CHAR_OF_LINE),
        ("(?s).(?-s).", Sequence((ANY_CHAR, ANY_CHAR_OF_LINE))),
        ("^$", Sequence((Assertion(AssertionKind.LINE_START), Assertion(AssertionKind.LINE_END)))),
        ("(?-m)^$", Sequence((Assertion(AssertionKind.TEXT_START), Assertion(AssertionKind.TEXT_END)))),
        (r"\A\b", Sequence((Assertion(AssertionKind.TEXT_START), Assertion(AssertionKind.WORD_BOUNDARY)))),
        (r"\B\z", Sequence((Assertion(AssertionKind.NO_WORD_BOUNDARY), Assertion(AssertionKind.TEXT_END)))),
        (r"\d", Class((Named(r"\d"),))),
        (r"\W", Class((Named(r"\w", is_negated=True),))),
        (r"\pL", Class((Named("L"),))),
        (r"\P{^Lu}", Class((Named("Lu"),))),
        (r"\p{^Lu}", Class((Named("Lu", is_negated=True),))),
        ("[]a]", Class((one("]"), one("a")))),
        ("[^]a]", Class((one("]"), one("a")), is_negated=True)),
        ("[a-c-e]", Class((CodePoints(97, 99), one("-"), one("e")))),
        ("[a-]", Class((one("a"), one("-")))),
        (r"[\d-z]", Class((Named(r"\d"), one("-"), one("z")))),
        ("[[:alpha:][:^digit:]]", Class((Named("[:alpha:]"), Named("[:digit:]", is_negated=True)))),
        ("[[:alpha]", Class((one("["), one(":"), one("a"), one("l"), one("p"), one("h"), one("a")))),
        ("(?i)[a]", Class((one("a"),), case=CaseMode.FOLDED)),
    ],
)
def test_a_pattern_has_this_tree(pattern: str, tree: Node) -> None:
    Pattern.compile(pattern)
    assert parse_regex(pattern) == tree


@pytest.mark.parametrize(
    "pattern", ["(", ")", "[a", "*", "a{2,1}", "a{1001}", r"\1", "(?=a)", "(?x)a", r"\p{", "[[:a:]]", "\\"]
)
def test_a_pattern_that_re2_rejects_is_opaque(pattern: str) -> None:
    with pytest.raises(RegexError):
        Pattern.compile(pattern)
    assert parse_regex(pattern) == Opaque()


def test_nesting_is_followed_to_a_bound() -> None:
    assert parse_regex("(" * DEPTH_MAX + "a" + ")" * DEPTH_MAX) == A
    assert parse_regex("(" * 900 + "a" + ")" * 900) == Opaque()


@settings(max_examples=250, deadline=None)
@given(st.data(), patterns.patterns, st.booleans())
def test_the_tree_written_out_matches_what_the_pattern_does(data: st.DataObject, source: str, is_exact: bool) -> None:
    tree = parse_regex(source)
    text = data.draw(patterns.texts(tree)).encode()
    original = Pattern.compile(source, is_case_sensitive=is_exact)
    again = Pattern.compile(patterns.written(tree), is_case_sensitive=is_exact)
    assert original.find_all(text, with_empty=True) == again.find_all(text, with_empty=True)


def test_ten_thousand_patterns_that_re2_takes_are_understood() -> None:
    dice = random.Random(4)
    signs = [*")))|||abc[]^-\\{},:0", r"\C", r"\A", r"\z", r"\x{10ffff}"]
    tokens = [*patterns.LEAVES, *patterns.OPENINGS, *patterns.REPEATS, *signs]
    accepted = 0
    while accepted < 10_000:
        pattern = "".join(dice.choices(tokens, k=dice.randint(1, 9)))
        try:
            Pattern.compile(pattern)
        except RegexError:
            continue
        accepted += 1
        tree = parse_regex(pattern)
        assert not isinstance(tree, Opaque), pattern
        assert len(prefilter(tree, is_case_sensitive=accepted % 2 == 0).clauses) < 100, pattern
