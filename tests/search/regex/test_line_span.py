"""How many lines a match spans, which patterns are anchored to the ends of the text, which can match nothing."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.search.regex import Pattern, parse_regex
from argosy.search.regex.analysis import LINE_SPAN_MAX, can_be_empty, has_text_anchors, line_span
from tests.search.regex import patterns


@pytest.mark.parametrize(
    ("pattern", "reach"),
    [
        ("foo.*bar", 0),
        ("^foo$", 0),
        (r"a\nb", 1),
        (r"int\s+main", 1),
        (r"int\s*main\s*\(", 2),
        (r"int\smain", 1),
        (r"a\s{3,}b", 1),
        (r"a[ \t\n]*b", 1),
        (r"a(\s+b){2}", 2),
        (r"a(\s+b){0}", 0),
        (r"a(\n|\n\n)b", 2),
        (r"(a\n){8}", 8),
        (r"(a\n){9}", None),
        (r"(a\n)*", None),
        ("(?s)a.b", 1),
        ("(?s)a.*b", None),
        (r"a[^x]*b", None),
        (r"a[^x]b", 1),
        (r"a[^x\n]*b", 0),
        (r"a\W+b", None),
        (r"a\Cb", 1),
        ("a(", None),
    ],
)
def test_how_many_line_ends_a_match_passes(pattern: str, reach: int | None) -> None:
    assert line_span(parse_regex(pattern)) == reach


@settings(max_examples=300, deadline=None)
@given(st.data(), st.lists(patterns.leaves, min_size=1, max_size=4).map("".join))
def test_no_match_passes_more_lines_that_are_not_blank(data: st.DataObject, source: str) -> None:
    tree = parse_regex(source)
    reach = line_span(tree)
    if reach is None:
        return
    assert reach <= LINE_SPAN_MAX
    text = data.draw(patterns.texts(tree)).encode()
    for start, end in Pattern.compile(source).find_all(text):
        inner = text[start:end].split(b"\n")[1:-1]
        passed = sum(1 for line in inner if re.fullmatch(rb"[\t\v\f\r ]*", line) is None)
        assert passed <= max(reach - 1, 0)
        assert reach > 0 or b"\n" not in text[start:end]


@pytest.mark.parametrize(("pattern", "is_tied"), [
    (r"\Afoo", True),
    (r"foo\z", True),
    (r"a|b\z", True),
    ("(?-m)^a", True),
    ("(?-m)a$", True),
    ("^foo$", False),
    (r"\bfoo\B", False),
    (r"(\Aa){0}b", False),
    ("(", True),
])  # fmt: skip
def test_which_patterns_are_tied_to_the_ends_of_the_text(pattern: str, is_tied: bool) -> None:
    assert has_text_anchors(parse_regex(pattern)) is is_tied


@pytest.mark.parametrize("pattern", ["", "a*", "a?", "a{0,3}", "^", r"\b", "a|", "(a|b*)c?", "(^$)+", "a{0}"])
def test_patterns_that_can_match_nothing(pattern: str) -> None:
    assert can_be_empty(parse_regex(pattern))
    assert Pattern.compile(pattern).find_all(b"\nxyz", with_empty=True)


@pytest.mark.parametrize("pattern", ["a", "a+", "[ab]", "a|b", "a{1,3}", "^a", "(a*)b"])
def test_patterns_that_always_take_text(pattern: str) -> None:
    assert not can_be_empty(parse_regex(pattern))
