"""RE2 as the engine uses it."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.search.regex import Pattern, RegexError
from argosy.search.regex.engine import PATTERN_BYTES_MAX

TEXT = b"one two\ntwo three\n"


def test_matches_are_found_from_left_to_right() -> None:
    assert Pattern.compile("t[a-z]+").find_all(TEXT) == [(4, 7), (8, 11), (12, 17)]
    assert Pattern.compile("t[a-z]+").find_all(TEXT, limit=2) == [(4, 7), (8, 11)]
    assert Pattern.compile("aa").find_all(b"aaaaa") == [(0, 2), (2, 4)]
    assert Pattern.compile("four").find_all(TEXT) == []


def test_anchors_are_those_of_lines_and_see_past_the_range() -> None:
    assert Pattern.compile("^two$").find_all(b"two\ntwo\ntwo\n") == [(0, 3), (4, 7), (8, 11)]
    assert Pattern.compile("^two").find_all(TEXT, 4) == [(8, 11)]
    assert Pattern.compile("thr$").find_all(TEXT, 0, 15) == []
    assert Pattern.compile(r"\bhree").find_all(TEXT, 13) == []
    assert Pattern.compile(r"\Athree").find_all(TEXT, 12) == []


def test_a_match_lies_within_the_range() -> None:
    assert Pattern.compile("[a-z]+").find_all(TEXT, 5, 9) == [(5, 7), (8, 9)]
    assert not Pattern.compile("three").matches(TEXT, 0, 16)
    assert Pattern.compile("three").matches(TEXT, 0, 17)


def test_a_range_outside_the_text_is_a_mistake() -> None:
    with pytest.raises(AssertionError):
        Pattern.compile("a").find_all(TEXT, 0, len(TEXT) + 1)
    with pytest.raises(AssertionError):
        Pattern.compile("a").matches(TEXT, 5, 4)


def test_empty_matches_are_omitted_unless_requested() -> None:
    pattern = Pattern.compile("x*")
    assert pattern.find_all("axxжx".encode()) == [(1, 3), (5, 6)]
    assert pattern.find_all("axxжx".encode(), with_empty=True) == [(0, 0), (1, 3), (5, 6)]
    assert pattern.find_all("ж中".encode(), with_empty=True) == [(0, 0), (2, 2), (5, 5)]
    assert pattern.find_all("ж".encode(), with_empty=True, is_utf8=False) == [(0, 0), (1, 1), (2, 2)]
    assert Pattern.compile("^").find_all(b"a\nb", with_empty=True) == [(0, 0), (2, 2)]
    assert Pattern.compile("").find_all(b"", with_empty=True) == [(0, 0)]
    assert Pattern.compile("").matches(b"")


@given(st.sampled_from(["a*", "a*?", "b|", "a??b*", r"\b", "(?:ab)*", "[^a]*"]), st.text("abж\n", max_size=12))
def test_leaving_out_empty_matches_loses_no_other(source: str, text: str) -> None:
    pattern = Pattern.compile(source)
    everything = pattern.find_all(text.encode(), with_empty=True)
    assert pattern.find_all(text.encode()) == [(start, end) for start, end in everything if start < end]
    for (_, previous), (start, end) in pairwise(everything):
        assert previous <= start
        assert (start, end) != (previous, previous)


def test_case() -> None:
    assert Pattern.compile("ONE", is_case_sensitive=False).matches(TEXT)
    assert not Pattern.compile("ONE").matches(TEXT)
    assert Pattern.compile("(?i)ONE").matches(TEXT)
    assert not Pattern.compile("(?-i)ONE", is_case_sensitive=False).matches(TEXT)
    assert Pattern.compile("ЖК", is_case_sensitive=False).matches("жк".encode())
    assert Pattern.compile("k", is_case_sensitive=False).matches("\u212a".encode())


def test_bytes_are_characters_where_text_is_not_utf8() -> None:
    text = b"caf\xe9 \xc3\xa9"
    assert Pattern.compile("caf.").find_all(text, is_utf8=False) == [(0, 4)]
    assert Pattern.compile("caf. ").find_all(text) == []
    assert Pattern.compile("é").find_all(text, is_utf8=False) == [(5, 7)]
    assert Pattern.compile(r"\xe9").find_all(text, is_utf8=False) == [(3, 4)]
    assert Pattern.compile(r"\xe9").find_all(text) == [(5, 7)]


def test_no_byte_is_a_character_beyond_a_byte() -> None:
    pattern = Pattern.compile(r"\x{436}|a")
    assert pattern.find_all("жa".encode()) == [(0, 2), (2, 3)]
    assert pattern.find_all("жa".encode(), is_utf8=False) == []
    assert not pattern.matches("жa".encode(), is_utf8=False)


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda text: np.frombuffer(text, np.uint8)])
def test_any_buffer_of_bytes_will_do(wrap: type[bytes]) -> None:
    assert Pattern.compile("x*t").find_all(wrap("жtxt".encode()), with_empty=True) == [(2, 3), (3, 5)]


def test_a_part_of_a_read_only_array_will_do() -> None:
    array = np.frombuffer(TEXT, np.uint8)[4:12]
    assert not array.flags.writeable
    assert Pattern.compile("^two").find_all(array) == [(0, 3), (4, 7)]


@pytest.mark.parametrize("buffer", [np.frombuffer(TEXT, np.uint8)[::2], np.zeros(4, np.uint16), memoryview(TEXT)[::-1]])
def test_a_buffer_that_is_not_bytes_in_a_row_is_a_mistake(buffer: memoryview) -> None:
    with pytest.raises(AssertionError):
        Pattern.compile("a").find_all(buffer)


@pytest.mark.parametrize(
    ("source", "reason", "remedy"),
    [
        ("(", "missing )", "backslash"),
        ("[a", "missing ]", "backslash"),
        ("*", "no argument for repetition operator: *", "backslash"),
        ("x{2}{3}", "bad repetition operator: {2}{3}", "parentheses"),
        ("x{1001}", "invalid repetition size: {1001}", "at most 1000"),
        ("(x{100}){100}", "invalid repetition size: {100}", "at most 1000"),
        (r"(a)\1", r"invalid escape sequence: \1", "back-references"),
        ("(?=a)", "invalid perl operator: (?=", "look-around"),
        (r"\pL{1000}", "pattern too large", "smaller repetitions"),
        ("\udc80", "not valid UTF-8", r"\xHH"),
        ("x" * (PATTERN_BYTES_MAX + 1), f"{PATTERN_BYTES_MAX + 1} bytes", f"at most {PATTERN_BYTES_MAX}"),
    ],
)
def test_a_rejected_pattern_is_explained(source: str, reason: str, remedy: str) -> None:
    with pytest.raises(RegexError) as refused:
        Pattern.compile(source)
    assert isinstance(refused.value, Invalid)
    assert reason in str(refused.value)
    assert remedy in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("source", ["(" * 30_000, "(?P<" + "n" * 30_000, r"\p{" + "x" * 30_000 + "}", "\udc80" * 9000])
def test_a_message_is_short_however_long_the_pattern(source: str) -> None:
    with pytest.raises(RegexError) as refused:
        Pattern.compile(source)
    assert len(str(refused.value)) < 800  # a character that is no text is spelled with six


def test_a_message_does_not_mention_what_was_not_written() -> None:
    with pytest.raises(RegexError) as refused:
        Pattern.compile("(?:a")
    assert "(?m)" not in str(refused.value)


@pytest.mark.parametrize("source", ["(a*)*b", "(a|aa)+b", "(.*)(.*)(.*)(.*)b", "(a?){50}a{50}b"])
def test_a_pattern_made_to_backtrack_is_answered(source: str) -> None:
    text = b"a" * 50_000  # an engine that tries one way after the other would not come back
    assert not Pattern.compile(source).matches(text)


def test_threads_may_share_a_pattern() -> None:
    pattern = Pattern.compile(r"\bt\w+")
    text = TEXT * 500
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda is_utf8: pattern.find_all(text, is_utf8=is_utf8), [True, False] * 8))
    assert all(answer == answers[0] for answer in answers)
    assert len(answers[0]) == 1_500
