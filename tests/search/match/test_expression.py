"""A compiled expression finds its matches in steps small enough to be stopped."""

from itertools import pairwise

import pytest

from argosy.search.match.expression import STEP_MAX, STEP_MIN, DecodeMode, Expression, quote
from argosy.search.match.limits import Budget
from argosy.search.regex import Pattern
from tests.search.match.search_calls import CountingFlag, cancelled_by, unbounded


def spans(pattern: str, text: bytes, mode: DecodeMode = DecodeMode.UTF8) -> list[tuple[int, int]]:
    rows = Expression(pattern, is_case_sensitive=True).find_all(memoryview(text), mode, unbounded())
    return [(start, end) for start, end in rows.tolist()]


@pytest.mark.parametrize("pattern", ["a", "a*", "a?", "(a|b|)", "[^a]*", "b*?", "$", "ä*", r"\b", "(?s)a.*b|a", "ab"])
@pytest.mark.parametrize("text", [b"", b"a", b"ab" * 3 * STEP_MAX, "aäa\nb".encode() * 40, b"b\n" * (STEP_MIN // 2)])
def test_many_steps_find_the_same_as_one(pattern: str, text: bytes) -> None:
    if pattern == "(?s)a.*b|a":
        text = text[:1000]
    assert spans(pattern, text) == Pattern.compile(pattern).find_all(text)


def test_a_text_that_is_no_utf_8_is_matched_by_bytes() -> None:
    assert spans("x?.", b"\xff\xe4x\xff", DecodeMode.BYTES) == [(0, 1), (1, 2), (2, 4)]


@pytest.mark.parametrize("pattern", ["b", "b*", "[ab]"])
def test_at_most_one_step_is_matched_between_two_checks(pattern: str) -> None:
    text = b"ab" * 10 * STEP_MAX
    expression = Expression(pattern, is_case_sensitive=True)
    whole = len(expression.find_all(memoryview(text), DecodeMode.UTF8, unbounded()))
    counts = [
        len(expression.find_all(memoryview(text), DecodeMode.UTF8, cancelled_by(CountingFlag(at))))
        for at in range(1, 9)
    ]
    assert counts == sorted(counts)
    assert counts[0] <= STEP_MIN
    assert all(after - before <= STEP_MAX for before, after in pairwise(counts))
    assert counts[-1] < whole


def test_a_slow_pattern_checks_the_flag_more_often() -> None:
    class Slow:
        """Every reading of the clock is a hundredth of a second later."""

        at = 0.0

        def __call__(self) -> float:
            self.at += 0.01
            return self.at

    flag = CountingFlag(4)
    expression = Expression("b", is_case_sensitive=True)
    rows = expression.find_all(memoryview(b"ab" * STEP_MAX), DecodeMode.UTF8, Budget(Slow(), is_cancelled=flag))
    assert len(rows) == 4 * STEP_MIN


@pytest.mark.parametrize("text", ["a.b", "tab\there", "x\ny", "Ä*", "[^]\\", "😀+", "it's #1"])
def test_a_quoted_text_is_just_that_text(text: str) -> None:
    pattern = Pattern.compile(quote(text))
    data = f"before{text}after".encode()
    assert [data[start:end].decode() for start, end in pattern.find_all(data)] == [text]
