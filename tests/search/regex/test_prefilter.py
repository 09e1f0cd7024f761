"""The text that matches must contain: a table, and random patterns and texts."""

import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.search.regex import Literal, Pattern, Prefilter, parse_regex, prefilter, prefilter_of_text
from argosy.search.regex.byte_runs import RUN_BYTES_MAX, RUNS_MAX
from argosy.search.regex.charsets import ByteSets
from argosy.search.regex.prefilter import CLAUSES_MAX, STRINGS_MAX
from tests.search.regex import patterns

ODD = (b"\xe2\x84\xaa", b"\xc5\xbf")  # the Kelvin sign, the long s


def clauses(pattern: str, *, is_case_sensitive: bool = True) -> list[set[bytes]]:
    """Literals of each clause; folded ones with a tilde before them."""
    found = prefilter(parse_regex(pattern), is_case_sensitive=is_case_sensitive).clauses
    return [{b"~" * literal.is_folded + literal.text for literal in clause} for clause in found]


def runs(pattern: str, *, is_case_sensitive: bool = True) -> list[list[bytes]]:
    found = prefilter(parse_regex(pattern), is_case_sensitive=is_case_sensitive).runs
    return [[bytes(sorted(members)) for members in run] for run in found]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("abc", [{b"abc"}]),
        ("(?i)ABC", [{b"~abc"}]),
        ("(?i)1.2", [{b"1"}, {b"2"}]),
        ("foo.*bar", [{b"foo"}, {b"bar"}]),
        ("foo(bar|baz)", [{b"foobar", b"foobaz"}, {b"fooba"}]),
        (r"(todo|fixme)\b", [{b"todo", b"fixme"}]),
        (r"(a\d+xyz|b\d+uvw)", [{b"xyz", b"uvw"}, {b"a", b"b"}]),
        (r"foo(bar\w*|qux)", [{b"foobar", b"fooqux"}, {b"foo"}]),
        (r"(\w*bar|qux)foo", [{b"barfoo", b"quxfoo"}, {b"foo"}]),
        ("colou?r", [{b"color", b"colour"}, {b"colo"}]),
        ("gr[ae]y", [{b"gray", b"grey"}]),
        ("[Ff]oo", [{b"~foo"}]),
        ("x{3,5}y", [{b"xxxy"}]),
        ("(ab)+c", [{b"abc"}]),
        ("(ab)+", [{b"ab"}]),
        ("foo|foobar", [{b"foo"}]),
        ("(?i:foobar)|foo", [{b"~foobar", b"foo"}]),
        ("foobar|(?i:foo)", [{b"~foo"}]),
        (r"foo\s+\w+foobar", [{b"foobar"}]),
        ("(?i:a)BC", [{b"~abc"}]),
        (r"^\s*#define\s+FOO", [{b"#define"}, {b"FOO"}]),
        ("abc|", []),
        ("(abc)?", []),
        ("(abc)*", []),
        ("a{0}", []),
        (r"\w+", []),
        ("(", []),
        ("中文", [{"中文".encode()}]),
        ("(?i)x中", [{b"~x\xe4\xb8\xad"}]),
        ("(?i)abжcd", [{b"~ab"}, {b"~cd"}]),
        ("[ж中]x", [{"жx".encode(), "中x".encode()}]),
        (r"a\x{d800}", [{b"a\xed\xa0\x80"}]),
    ],
)
def test_literals(pattern: str, expected: list[set[bytes]]) -> None:
    assert clauses(pattern) == expected


def test_case_that_is_ignored_by_the_search_is_ignored_in_the_needs_but_where_the_pattern_keeps_it() -> None:
    assert clauses("Foo", is_case_sensitive=False) == [{b"~foo"}]
    assert clauses("(?-i)Foo", is_case_sensitive=False) == [{b"Foo"}]
    assert clauses("(?-i:Foo).bar", is_case_sensitive=False) == [{b"Foo"}, {b"~bar"}]


DIGIT = b"0123456789"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("[0-9]{4}-", [[DIGIT] * 4 + [b"-"]]),
        (r"\d+\.\d+x", [[DIGIT, b".", DIGIT]]),
        (r"0x[01]{2}\b", [[b"0", b"x", b"01", b"01"]]),
        ("(ab|cd)e", [[b"ac", b"bd", b"e"]]),
        ("(ab|c)de[01]", [[b"d", b"e", b"01"]]),
        ("abc", []),
        ("[01]a", []),
        ("(?i)abc[01]", [[b"Aa", b"Bb", b"Cc", b"01"]]),
        ("(?i)жи", [[b"\xd0", b"\x96\xb6", b"\xd0", b"\x98\xb8"]]),
        ("(?i)abвcd1", []),  # в has a variant of three bytes
        ("[01](?:ab.)+[01]ab", [[b"01", b"a", b"b"]]),
        ("[01]{3}x?[01]{2}ab", [[b"01", b"01", b"a", b"b"], [b"01"] * 3]),
        ("[01]{0}abc", []),
        ("[01]a(?:b.[01])+ab", [[b"01", b"a", b"b"]]),
        ("[01]a(?:c.[23])+ab", [[b"01", b"a", b"c"], [b"23", b"a", b"b"]]),
    ],
)
def test_runs_of_bytes(pattern: str, expected: list[list[bytes]]) -> None:
    assert runs(pattern) == expected


@pytest.mark.parametrize(
    ("pattern", "holds"),
    [
        ("abc", True),
        ("a.b", True),
        (r"\pL[^a]\W", True),
        ("é", False),
        ("é+", False),
        (r"\x{e9}x+", False),
        (r"[\x80-\xff]a", False),
    ],
)
def test_a_pattern_that_names_characters_beyond_ascii_promises_nothing_of_bytes(pattern: str, holds: bool) -> None:
    assert prefilter(parse_regex(pattern), is_case_sensitive=True).holds_for_bytes is holds


@pytest.mark.parametrize(
    ("pattern", "is_odd"),
    [("back", True), ("sun", True), ("foo", False), (r"\w", True), ("a.b", False), ("[a-j]", False)],
)
def test_odd_folds_are_reported(pattern: str, is_odd: bool) -> None:
    tree = parse_regex(pattern)
    assert prefilter(tree, is_case_sensitive=False).has_odd_folds is is_odd
    assert not prefilter(tree, is_case_sensitive=True).has_odd_folds


def test_plain_text_needs_itself() -> None:
    assert prefilter_of_text("a.B", is_case_sensitive=True).clauses == ((Literal(b"a.B"),),)
    assert prefilter_of_text("a.B", is_case_sensitive=False).clauses == ((Literal(b"a.b", is_folded=True),),)
    assert prefilter_of_text("é", is_case_sensitive=True).holds_for_bytes
    assert not prefilter_of_text("é", is_case_sensitive=False).holds_for_bytes
    assert prefilter_of_text("", is_case_sensitive=True) == Prefilter(can_span_lines=False)


@pytest.mark.parametrize(
    "pattern",
    [
        "x" * 10_000,
        "x." * 5_000,
        "(?:a|b)" * 1_400,
        "[ab]?" * 2_000,
        "|".join(f"word{number}" for number in range(1_200)),
        "(?:" + "|".join(f"[ab]w{number}" for number in range(190)) + ")" * 1 + "[cd]" * 20,
        "(?i)" + "привет" * 800,
        "((((a{10}){10}){10}b)c)" * 400,
        "(" * 40 + "a[0-9]" + ")+" * 40 + "x" * 100,
        r"[0-9]{1000}" * 900,
    ],
    ids=lambda pattern: pattern[:12],
)
def test_the_needs_of_a_huge_pattern_are_bounded(pattern: str) -> None:
    found = prefilter(parse_regex(pattern), is_case_sensitive=False)
    assert len(found.clauses) <= CLAUSES_MAX
    assert all(len(clause) <= STRINGS_MAX for clause in found.clauses)
    assert len(found.runs) <= RUNS_MAX
    assert all(len(run) <= RUN_BYTES_MAX for run in found.runs)


@settings(max_examples=400, deadline=None)
@given(st.data(), patterns.patterns, st.booleans())
def test_every_match_contains_the_required_text(data: st.DataObject, source: str, is_exact: bool) -> None:
    tree = parse_regex(source)
    required = prefilter(tree, is_case_sensitive=is_exact)
    pattern = Pattern.compile(source, is_case_sensitive=is_exact)
    text = data.draw(patterns.texts(tree)).encode()
    for start, end in pattern.find_all(text, with_empty=True):
        assert_contains(required, text[start:end])


@settings(max_examples=200, deadline=None)
@given(st.data(), patterns.patterns, st.booleans())
def test_every_match_of_bytes_contains_the_required_text(data: st.DataObject, source: str, is_exact: bool) -> None:
    tree = parse_regex(source)
    required = prefilter(tree, is_case_sensitive=is_exact)
    if not required.holds_for_bytes:
        return
    pattern = Pattern.compile(source, is_case_sensitive=is_exact)
    text = data.draw(patterns.texts(tree)).encode() + data.draw(st.binary(max_size=6))
    cut = data.draw(st.integers(0, 2))
    for start, end in pattern.find_all(text, min(cut, len(text)), is_utf8=False, with_empty=True):
        assert_contains(required, text[start:end])


# Bytes in rows: what runs are made of, with what breaks them in between.
LINKS = [
    "[01]", "[01]{2}", "a", "k-", "[ab]", "ж", "[жи]", "в", r"\d", "(?:a0|b1)", "(?:ж|и)+", "(?:[01]a)+", "(?:a|bk)",
    "[aж]", "a?", "[ab]+", "b*", "-", "(?i:ж)", "(?-i:a)", "[01]{2,3}", "(?:a.)+", "[K-Z]", "[^a]", "[ж-я]{2}", r"\b",
    "中", "[中-丯]",
]  # fmt: skip


def test_thousands_of_patterns_keep_the_required_text() -> None:
    dice = random.Random(11)
    seen = 0
    for _ in range(4_000):
        source = "".join(dice.choices(LINKS, k=dice.randint(2, 7)))
        tree, is_exact = parse_regex(source), dice.random() < 0.5
        required = prefilter(tree, is_case_sensitive=is_exact)
        text = patterns.text_for(tree, dice.choice).encode()
        for start, end in Pattern.compile(source, is_case_sensitive=is_exact).find_all(text):
            assert_contains(required, text[start:end])
            seen += bool(required.runs)
    assert seen > 1_000


def assert_contains(required: Prefilter, match: bytes) -> None:
    assert required.can_span_lines or b"\n" not in match
    if required.has_odd_folds and any(odd in match for odd in ODD):
        return
    for clause in required.clauses:
        assert any(is_held(literal, match) for literal in clause), (clause, match)
    for run in required.runs:
        assert any(fits(run, match[at:]) for at in range(len(match))), (run, match)


def is_held(literal: Literal, match: bytes) -> bool:
    return literal.text in (match.lower() if literal.is_folded else match)


def fits(run: ByteSets, text: Iterable[int]) -> bool:
    found = list(zip(run, text, strict=False))
    return len(found) == len(run) and all(byte in members for members, byte in found)
