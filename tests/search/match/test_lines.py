"""Lines around places, with neighbours; blank lines between are free."""

import pytest

from argosy.search.kernels.lines import SEPARATOR, gather, lines_around
from tests.search.match.search_calls import array, data_of

TEXT = b"one\ntwo\n\n \t\nthree\nfour\0five\nsix\0"


def around(place: bytes, reach: int) -> bytes:
    [start], [end] = lines_around(data_of(TEXT), array(TEXT.index(place)), reach)
    return TEXT[start:end]


@pytest.mark.parametrize(
    ("place", "reach", "expected"),
    [
        (b"wo", 0, b"two"),
        (b"wo", 1, b"one\ntwo\n\n \t\nthree"),
        (b"three", 1, b"two\n\n \t\nthree\nfour"),
        (b"three", 2, b"one\ntwo\n\n \t\nthree\nfour"),
        (b"four", 0, b"four"),
        (b"four", 9, b"one\ntwo\n\n \t\nthree\nfour"),
        (b"five", 9, b"five\nsix"),
    ],
)
def test_so_many_lines_that_are_not_blank_on_either_side(place: bytes, reach: int, expected: bytes) -> None:
    assert around(place, reach) == expected


def test_places_on_one_line_and_lines_that_meet_are_one_piece() -> None:
    data = data_of(b"a a a\nb\nc\nd\ne\nf\0")
    starts, ends = lines_around(data, array(0, 2, 4, 6), 0)
    assert (starts.tolist(), ends.tolist()) == ([0, 6], [5, 7])
    starts, ends = lines_around(data, array(0, 8, 14), 1)
    assert (starts.tolist(), ends.tolist()) == ([0, 12], [11, 15])


def test_no_places_no_lines() -> None:
    starts, ends = lines_around(data_of(TEXT), array(), 1)
    assert len(starts) == len(ends) == 0


def test_pieces_are_gathered_with_a_separator_after_each() -> None:
    text, begins = gather(data_of(b"abcdef"), array(1, 4, 4), array(3, 4, 6))
    assert text.tobytes() == b"bc" + SEPARATOR + SEPARATOR + b"ef" + SEPARATOR
    assert begins.tolist() == [0, 5, 8]
