"""Patterns that reduce to a few texts, in the order in which RE2 would try them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.search.regex import Pattern, parse_regex
from argosy.search.regex.analysis import TEXTS_MAX, LiteralSet, literal_set
from argosy.search.regex.tree import AssertionKind

WORD, START, END = AssertionKind.WORD_BOUNDARY, AssertionKind.LINE_START, AssertionKind.LINE_END


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("foo", LiteralSet(("foo",))),
        ("todo|fixme", LiteralSet(("todo", "fixme"))),
        (r"\bfoo\b", LiteralSet(("foo",), WORD, WORD)),
        ("^#include", LiteralSet(("#include",), START)),
        ("^foo$", LiteralSet(("foo",), START, END)),
        ("foo$", LiteralSet(("foo",), None, END)),
        (r"\b(get|set)_x\b", LiteralSet(("get_x", "set_x"), WORD, WORD)),
        ("a|ab", LiteralSet(("a", "ab"))),
        ("ab|a", LiteralSet(("ab", "a"))),
        ("colou?r", LiteralSet(("colour", "color"))),
        ("colou??r", LiteralSet(("color", "colour"))),
        ("x[0-2]y", LiteralSet(("x0y", "x1y", "x2y"))),
        ("a{3}", LiteralSet(("aaa",))),
        ("a|b|a", LiteralSet(("a", "b"))),
        ("[a-l]", LiteralSet(tuple("abcdefghijkl"))),
    ],
)
def test_the_texts_and_what_must_hold_at_their_edges(pattern: str, expected: LiteralSet) -> None:
    assert literal_set(parse_regex(pattern)) == expected


@pytest.mark.parametrize(
    "pattern",
    [
        "", "a*", "a+", "a?", "a|", "^", r"\b", "[a-m]", "[^a]", r"\d", "a{2,3}", "[ab]{4}", "^a|b", r"a\bb", r"\Aa",
        r"a\z", r"\Ba", r"a\nb", r"a\x00", "(?i)a", "(?i:a)b", "ä", "[äb]", "ä?b", ".", r"\C", "(",
    ],
)  # fmt: skip
def test_what_is_more_than_a_few_plain_texts(pattern: str) -> None:
    assert literal_set(parse_regex(pattern)) is None


def test_no_more_texts_than_the_bound_are_spelled_out() -> None:
    fits = "|".join(f"t{i:02}" for i in range(TEXTS_MAX))
    assert literal_set(parse_regex(fits)) is not None
    assert literal_set(parse_regex(fits + "|more")) is None


pieces = st.sampled_from(["a", "b", "ab", "[ab]", "a?", "b??", "(a|ab)", "(ab|a)", "a{2}"])
parts = st.lists(pieces, min_size=1, max_size=4)


@settings(max_examples=200, deadline=None)
@given(parts.map("".join), st.text("ab", max_size=12))
def test_the_first_text_that_fits_is_the_match(source: str, text: str) -> None:
    known = literal_set(parse_regex(source))
    if known is None:
        return
    found, at = [], 0
    while at < len(text):
        here = next((one for one in known.texts if text.startswith(one, at)), None)
        if here is not None:
            found.append((at, at + len(here)))
        at += len(here or " ")
    assert Pattern.compile(source).find_all(text.encode()) == found
