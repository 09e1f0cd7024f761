"""Plain text, capitals, and newlines in patterns."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.search.regex import Pattern, as_literal, can_span_lines, has_upper_case, parse_regex
from tests.search.regex import patterns
from tests.search.regex.patterns import CHARS, escaped


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("", ""),
        ("abc", "abc"),
        (r"a\.b", "a.b"),
        ("(abc)(de)", "abcde"),
        ("[a][.]", "a."),
        ("a{3}b{0}", "aaa"),
        (r"\Q(a)\E", "(a)"),
        ("(?i)1.2", None),
        (r"(?i)1\.2", "1.2"),
        ("(?i)abc", None),
        ("(?-i)abc", None),
        ("(?-i)中", "中"),
        ("[ab]", None),
        ("[^a]", None),
        ("a?", None),
        ("a|b", None),
        ("^a", None),
        (r"\x{d800}", None),
        ("(", None),
    ],
)
def test_plain_text(pattern: str, text: str | None) -> None:
    assert as_literal(parse_regex(pattern)) == text


def test_repetition_spells_out_no_more_than_a_bound() -> None:
    assert as_literal(parse_regex("((((a{9}){9}){9}){9}){9}")) is None


@settings(max_examples=200, deadline=None)
@given(st.data(), st.lists(patterns.leaves, min_size=1, max_size=4).map("".join), st.booleans())
def test_plain_text_matches_as_its_pattern_does(data: st.DataObject, source: str, is_exact: bool) -> None:
    tree = parse_regex(source)
    literal = as_literal(tree)
    if literal is None:
        return
    text = data.draw(patterns.texts(tree)).encode()
    plain = Pattern.compile("".join(map(escaped, literal)), is_case_sensitive=is_exact)
    assert Pattern.compile(source, is_case_sensitive=is_exact).find_all(text) == plain.find_all(text)


@given(st.text(st.sampled_from(CHARS)))
def test_escaped_text_is_plain_and_has_the_capitals_of_the_text(text: str) -> None:
    tree = parse_regex("".join(map(escaped, text)))
    assert as_literal(tree) == text
    assert has_upper_case(tree) == (text != text.lower())


@pytest.mark.parametrize(
    "pattern",
    ["Abc", "x.*Y", "[A-Z]", "[^A-Z]", "[xY]", r"\x41", "[[:upper:]]", r"\p{Lu}", "(?:a|B)", "X{2}", "Ж.", "(?i:a)B"],
)
def test_capitals(pattern: str) -> None:
    assert has_upper_case(parse_regex(pattern))


@pytest.mark.parametrize(
    "pattern",
    [
        "abc",
        r"\S\W\D\B",
        r"\w+",
        r"\pL",
        r"\PN",
        r"\A\Qa\E",
        "[a-z]",
        "[ -~]",
        "[[:alpha:]]",
        "(?i)ABC",
        "X{0}",
        "(?-i)A",
    ],
)
def test_no_capitals(pattern: str) -> None:
    assert not has_upper_case(parse_regex(pattern))


@pytest.mark.parametrize(
    "pattern",
    [r"a\nb", r"\s", "[^a]", r"\W", r"\D", "(?s).", r"\PL", r"\pC", r"\x0a", "[\t-\r]", r"\C", r"\x{a}?", "("],
)
def test_patterns_that_can_span_lines(pattern: str) -> None:
    assert can_span_lines(parse_regex(pattern))


@pytest.mark.parametrize(
    "pattern", ["a.b", r"\S", "[^\n]", r"[^\s]", "^$", r"\pL", r"\p{Greek}", r"\n{0}", r"\w\d", r"[^\W]"]
)
def test_patterns_that_stay_within_a_line(pattern: str) -> None:
    assert not can_span_lines(parse_regex(pattern))
