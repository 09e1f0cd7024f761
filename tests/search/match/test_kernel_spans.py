"""Owners, overlaps, and the points of one match, figure by figure."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.search.arrays import freeze
from argosy.search.kernels.spans import (
    best_points,
    documents_of,
    score_matches,
    score_names,
    terms_of,
    without_overlaps,
)
from tests.search.match.search_calls import array, data_of


@settings(deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=40), st.data())
def test_a_place_belongs_to_the_document_it_is_in(sizes: list[int], data: st.DataObject) -> None:
    starts = np.cumsum([0, *sizes])
    positions = sorted(data.draw(st.lists(st.integers(0, int(starts[-1]) - 1))))
    found = documents_of(array(*starts), array(*positions))
    assert found.tolist() == (np.searchsorted(starts, positions, "right") - 1).tolist()


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9))))
def test_retained_spans_overlap_nothing_and_dropped_ones_overlap_them(pairs: list[tuple[int, int]]) -> None:
    spans = sorted(((start, start + size) for start, size in pairs), key=lambda span: (span[0], -span[1]))
    keep = without_overlaps(array(*(start for start, _ in spans)), array(*(end for _, end in spans)))
    kept = [span for span, is_kept in zip(spans, keep, strict=True) if is_kept]
    assert all(before[1] <= after[0] for before, after in pairwise(kept))
    for start, end in set(spans) - set(kept):
        assert any(start < other_end and other < end for other, other_end in kept)


def points(text: bytes, part: bytes, symbols: list[tuple[bytes, int]] | None = None) -> tuple[int, int]:
    """The points of the part's first place in the text, and the symbol it is in."""
    start = text.index(part)
    known = sorted((text.index(name), len(name), worth) for name, worth in symbols or [])
    columns = [[row[i] for row in known] for i in range(3)]
    found, inside = score_matches(
        data_of(text),
        array(start),
        array(start + len(part)),
        array(*columns[0]),
        freeze(np.array(columns[1], np.uint16)),
        freeze(np.array(columns[2], np.uint16)),
    )
    return int(found[0]), int(inside[0])


@pytest.mark.parametrize(
    ("text", "part", "expected"),
    [
        (b"x foo y\0", b"foo", 500),
        (b"x foo1 y\0", b"foo", 500),
        (b"x fooBar y\0", b"foo", 500),
        (b"(foo)\0", b"foo", 500),
        (b"foo\0", b"foo", 500),
        (b"x food y\0", b"foo", 50),
        (b"x afoo y\0", b"foo", 50),
        (b"x afood y\0", b"foo", 0),
        (b"a.,;b\0", b"a.", 50),
        (b"a  b\0", b" ", 50),
        (b"a-+b\0", b"-", 50),
        (b"a-.b\0", b"-", 500),
    ],
)
def test_a_match_gets_points_where_the_kind_of_character_changes(text: bytes, part: bytes, expected: int) -> None:
    assert points(text, part) == (expected, -1)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (b"Fleet", 500 + 7000 + 1000),
        (b"Flee", 50 + 5500 + 1000),
        (b"leet", 500 + 5500 + 1000),
        (b"lee", 50 + 4000 + 1000),
        (b"class Fleet", 500 + 5500 + 1000),
        (b"class Fleet:", 50 + 4000 + 1000),
        (b"class", 500),
    ],
)
def test_a_match_in_a_symbol_gets_more_the_more_of_it_it_is(part: bytes, expected: int) -> None:
    found, inside = points(b"class Fleet::\0", part, [(b"Fleet", 1000)])
    assert found == expected
    assert inside == (-1 if part == b"class" else 0)


def test_the_symbol_is_the_right_one_among_many() -> None:
    names = [b"n%03d" % i for i in range(200)]
    text = b" ".join(names) + b"\0"
    symbols = [(name, 10 * i) for i, name in enumerate(names)]
    for chosen in (0, 1, 7, 64, 198, 199):
        assert points(text, names[chosen], symbols) == (7500 + 10 * chosen, chosen)
    assert points(text, b"7 n008 n", symbols) == (4000 + 50 + 70, 7)


@pytest.mark.parametrize(
    ("path", "part", "expected"),
    [
        (b"src/core.py", b"core.py", 500 + 7000),
        (b"src/core.py", b"core", 500 + 5500),
        (b"src/core.py", b".py", 500 + 5500),
        (b"src/core.py", b"cor", 50 + 5500),
        (b"src/core.py", b"or", 4000),
        (b"src/core.py", b"src", 500),
        (b"src/core.py", b"c/c", 0),
        (b"core.py", b"core.py", 500 + 7000),
    ],
)
def test_a_match_in_a_name_counts_by_the_base_name(path: bytes, part: bytes, expected: int) -> None:
    data, start = data_of(path + b"\0"), path.index(part)
    found = score_names(data, array(0, len(path) + 1), array(0), array(start), array(start + len(part)))
    assert found.tolist() == [expected]


def test_terms_are_alike_up_to_ascii_case() -> None:
    text = "foo FOO Foo bar ä Ä".encode()
    words, at = text.split(b" "), 0
    spans = []
    for word in words:
        spans.append((at, at + len(word)))
        at += len(word) + 1
    terms = terms_of(data_of(text), array(*(s for s, _ in spans)), array(*(e for _, e in spans))).tolist()
    assert len(set(terms[:3])) == 1
    assert len(set(terms)) == 4


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_the_best_of_a_document_is_the_most_that_any_of_its_spans_has(data: st.DataObject) -> None:
    text = data.draw(st.text("aB1_ .", min_size=20, max_size=60)).encode() + b"\0"
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text) - 1), min_size=2, max_size=16)))
    starts, ends = array(*cuts[: len(cuts) // 2 * 2 : 2]), array(*cuts[1::2])
    known = sorted(data.draw(st.sets(st.integers(0, len(text) - 5), max_size=8)))
    symbols = (
        array(*known),
        freeze(np.array([data.draw(st.integers(1, 4)) for _ in known], np.uint16)),
        freeze(np.array([data.draw(st.integers(0, 900)) for _ in known], np.uint16)),
    )
    points, _ = score_matches(data_of(text), starts, ends, *symbols)
    inner = data.draw(st.sets(st.integers(1, max(1, len(starts) - 1)), max_size=3)) - {len(starts)}
    firsts = np.array([0, *sorted(inner), len(starts)])
    best = best_points(data_of(text), starts, ends, freeze(firsts), *symbols)
    assert best.tolist() == [int(points[low:high].max()) for low, high in pairwise(firsts.tolist())]
