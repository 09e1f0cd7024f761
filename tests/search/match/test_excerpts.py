"""Excerpts: adjacent ones are joined, overlong lines are separate; windows and columns are between characters."""

import pytest

from argosy.search.match.chunk_matches import Columns, LocatedMatch, characters, excerpts, window


def match(top: int, bottom: int, *, is_long: bool = False) -> LocatedMatch:
    return LocatedMatch(top, bottom, top=top, bottom=bottom, is_long=int(is_long))


def bounds(*matches: LocatedMatch) -> list[tuple[int, int, int]]:
    return [(each.start, each.end, len(each.matches)) for each in excerpts(matches)]


def test_excerpts_that_meet_are_one() -> None:
    assert bounds(match(0, 10), match(10, 20), match(15, 18), match(21, 30)) == [(0, 20, 3), (21, 30, 1)]
    assert bounds() == []


def test_an_overlong_line_meets_nothing_but_itself() -> None:
    long = match(10, 90, is_long=True)
    assert bounds(match(0, 10), long, long, match(90, 95)) == [(0, 10, 1), (10, 90, 2), (90, 95, 1)]
    assert [each.is_long for each in excerpts([match(0, 10), long, match(90, 95)])] == [False, True, False]


@pytest.mark.parametrize(("focus", "expected"), [(0, "0123456789"), (2, "0123456789"), (10, "89abcdefgh"), (35, "xyz")])
def test_a_window_has_its_focus_in_the_second_quarter(focus: int, expected: str) -> None:
    text = b"0123456789abcdefghijklmnopqrstuvwxyz"
    assert text[slice(*window(text, 0, len(text), focus, 10))].decode() == expected


def test_a_window_begins_and_ends_between_characters() -> None:
    text = "äöüß".encode() * 4
    for focus in range(0, len(text), 2):
        start, end = window(text, 0, len(text), focus, 7)
        assert text[start:end].decode()
        assert end - start <= 7


def test_columns_count_characters_from_the_start_of_their_line() -> None:
    text = "ab\näö foo ü bar".encode()
    columns = Columns(memoryview(text))
    assert [columns.column(3, text.index(word)) for word in (b"foo", b"bar")] == [4, 10]
    assert columns.column(0, 1) == 2


def test_a_column_inside_a_character_does_not_shift_the_next() -> None:
    text = "äöü".encode()
    columns = Columns(memoryview(text))
    assert (columns.column(0, 1), columns.column(0, 4)) == (2, 3)


def test_a_byte_that_is_part_of_no_character_counts_as_one() -> None:
    assert (characters(b"abc"), characters("ä".encode()), characters(b"\xff\xc3")) == (3, 1, 2)
