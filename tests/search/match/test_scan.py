"""Scanning equals the plainest search, for every stride, range and buffer size."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.search.arrays import freeze
from argosy.search.kernels.scan import STRIDE, ranges_of, scan, scan_run, tally_byte
from argosy.search.match.needle import Needle
from argosy.search.match.required_text import RunNeedle
from tests.search.match.search_calls import array, data_of, unbounded

texts = st.lists(st.sampled_from([b"a", b"A", b"b", b"ab", b"aab", b"\n", b".", b"x" * 61]), max_size=60).map(b"".join)
needles = st.text("abAB.", min_size=1, max_size=5).map(str.encode)


def places(text: bytes, needle: bytes, *, is_folded: bool, with_overlaps: bool) -> list[int]:
    """By Python's own `re`; overlaps are seen by looking ahead."""
    pattern = re.escape(needle)
    flags = re.IGNORECASE if is_folded else 0
    return [match.start() for match in re.finditer(b"(?=" + pattern + b")" if with_overlaps else pattern, text, flags)]


@settings(deadline=None, max_examples=300)
@given(texts, needles, st.booleans(), st.booleans())
def test_a_literal_is_found_wherever_it_stands(text: bytes, literal: bytes, is_folded: bool, overlaps: bool) -> None:
    needle = Needle(literal, is_folded=is_folded)
    found = needle.find(data_of(text + b"\0"), array(0), array(len(text)), unbounded(), with_overlaps=overlaps)
    assert found.tolist() == places(text, literal, is_folded=is_folded, with_overlaps=overlaps)


@settings(deadline=None)
@given(texts, needles, st.integers(1, 4))
def test_a_full_buffer_returns_the_position_to_resume_at(text: bytes, literal: bytes, room: int) -> None:
    needle = Needle(literal, is_folded=False)
    found: list[int] = []
    at = position = 0
    while at < 1:
        out = np.empty(room, np.uint32)
        count, at, position = scan(
            data_of(text + b"\0"),
            array(0),
            array(len(text)),
            needle.pattern,
            needle.folds,
            needle.rare,
            len(literal),
            at,
            position,
            out,
        )
        found += out[:count].tolist()
    assert found == places(text, literal, is_folded=False, with_overlaps=False)


def test_a_match_begins_in_its_range_and_may_end_beyond() -> None:
    needle = Needle(b"abc", is_folded=False)
    data = data_of(b"abcabcabcabc")
    assert needle.find(data, array(1, 7), array(4, 12), unbounded()).tolist() == [3, 9]
    assert needle.find(data, array(10), array(12), unbounded()).tolist() == []


runs = st.lists(st.sampled_from(["a", "aA", "b", "ab", "abx"]), min_size=2, max_size=5).map(
    lambda places: tuple(frozenset(place.encode()) for place in places)
)


@settings(deadline=None)
@given(texts, runs.filter(lambda run: any(len(place) == 1 for place in run)))
def test_a_run_is_found_wherever_each_byte_fits(text: bytes, run: tuple[frozenset[int], ...]) -> None:
    found = RunNeedle(run).find(data_of(text + b"\0"), array(0), array(len(text)), unbounded())
    fits = [all(text[at + i] in run[i] for i in range(len(run))) for at in range(len(text) - len(run) + 1)]
    assert found.tolist() == np.flatnonzero(fits).tolist()


def test_a_full_buffer_of_runs_goes_on_at_the_next() -> None:
    data, single = data_of(b"ab" * 100 + b"\0"), array(0)
    table = np.zeros(256, np.uint64)
    table[ord("a")], table[ord("b")] = 1, 2
    pattern, folds = data_of(b"aba"), data_of(b"\0\0\0")
    rare = freeze(np.array([0, 1, 0], np.int64))
    found, at, position = [], 0, 0
    while at < 1:
        out = np.empty(7, np.uint32)
        count, at, position = scan_run(
            data, single, array(200), pattern, folds, rare, 2, freeze(table), at, position, out
        )
        found += out[:count].tolist()
    assert found == list(range(0, 200, 2))


@pytest.mark.parametrize(("byte", "fold", "total"), [(b"a", 0, 300), (b"A", 0, 200), (b"a", 32, 500), (b"z", 0, 0)])
def test_one_byte_is_counted_by_document(byte: bytes, fold: int, total: int) -> None:
    data = data_of(b"a" * 300 + b"\0" + b"A" * 200 + b"\0" + b"-\0")
    seen = np.zeros(3, np.uint8)
    count = tally_byte(data, array(0, 301, 502), array(300, 501, 503), byte[0], fold, array(0, 301, 502, 504), seen)
    assert count == total
    assert int(seen.sum()) == {300: 1, 200: 1, 500: 2, 0: 0}[total]


def test_neighbouring_blocks_of_a_document_are_one_range_without_the_last_nul() -> None:
    starts, owners = array(0, 10, 20, 30, 40), array(0, 0, 1, 1)
    begins, ends = ranges_of(starts, owners, array(0, 1, 2))
    assert (begins.tolist(), ends.tolist()) == ([0, 20], [19, 30])
    begins, ends = ranges_of(starts, owners, array(1, 3))
    assert (begins.tolist(), ends.tolist()) == ([10, 30], [19, 39])


@pytest.mark.parametrize("at", [0, 1, STRIDE - 3, STRIDE - 1, STRIDE, STRIDE + 1, 2 * STRIDE - 1, 3 * STRIDE])
def test_a_literal_is_found_across_the_edges_of_strides(at: int) -> None:
    text = bytearray(b"." * 4 * STRIDE)
    text[at : at + 6] = b"nEEdle"
    needle = Needle(b"needle", is_folded=True)
    for behind in (0, 1, STRIDE, 2 * STRIDE):
        data = data_of(bytes(text) + bytes(behind))
        assert needle.find(data, array(0), array(len(text)), unbounded()).tolist() == [at]
