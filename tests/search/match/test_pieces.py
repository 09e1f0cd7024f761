"""Many pieces matched at once: each as if it were alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.search.arrays import U32
from argosy.search.match.expression import DecodeMode, Expression, find_in_pieces, find_one_by_one
from argosy.search.regex import Pattern
from tests.search.match.search_calls import CountingFlag, array, cancelled_by, data_of, unbounded

PATTERNS = [
    "a", "a+", r"\s+a", r"a\s*", "^a", "a$", "^$", "^", r"\ba\b", "[^b]+", "(?s)a.*a", r"\Aa", r"a\z", "x*", ".", r"\W",
]  # fmt: skip
pieces = st.lists(st.text("ab \n", max_size=8).map(str.encode), min_size=1, max_size=6)


def laid_out(several: list[bytes]) -> tuple[bytes, U32, U32]:
    data, starts, ends = b"", [], []
    for piece in several:
        starts.append(len(data))
        ends.append(len(data) + len(piece))
        data += piece + b"\0"
    return data, array(*starts), array(*ends)


@settings(deadline=None, max_examples=300)
@given(pieces, st.sampled_from(PATTERNS))
def test_every_piece_is_matched_as_if_it_stood_alone(several: list[bytes], pattern: str) -> None:
    data, starts, ends = laid_out(several)
    expression = Expression(pattern, is_case_sensitive=True)
    expected = [
        (start + low, start + high)
        for start, piece in zip(starts.tolist(), several, strict=True)
        for low, high in Pattern.compile(pattern).find_all(piece)
    ]
    for search in (find_in_pieces, find_one_by_one):
        begins, stops = search(expression, data_of(data), starts, ends, DecodeMode.UTF8, unbounded())
        assert list(zip(begins.tolist(), stops.tolist(), strict=True)) == expected


@pytest.mark.parametrize("search", [find_in_pieces, find_one_by_one])
def test_no_pieces_have_no_matches(search: object) -> None:
    assert callable(search)
    expression = Expression("a", is_case_sensitive=True)
    begins, stops = search(expression, data_of(b"a\0"), array(), array(), DecodeMode.UTF8, unbounded())
    assert len(begins) == len(stops) == 0


def test_one_by_one_looks_before_each_piece() -> None:
    data, starts, ends = laid_out([b"a"] * 10)
    expression = Expression(r"\Aa", is_case_sensitive=True)
    for at in range(1, 11):
        flag = CountingFlag(at)
        begins, _ = find_in_pieces(expression, data_of(data), starts, ends, DecodeMode.UTF8, cancelled_by(flag))
        assert begins.tolist() == [2 * i for i in range(at - 1)]
