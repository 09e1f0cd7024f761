"""A prepared literal: rare bytes, keys, and the checks of the flag between two buffers."""

import pytest

from argosy.search.arrays import U32
from argosy.search.match.needle import Needle, collect_positions, find_each, frequency
from tests.search.match.search_calls import CountingFlag, array, cancelled_by, data_of, segment_of, unbounded


@pytest.mark.parametrize(
    ("text", "is_folded", "rare"),
    [(b"eQe$", False, [3, 1, 0, 2]), (b"a Z", False, [2, 0, 1]), (b"the_Quick", True, [4, 8, 3])],
)
def test_the_rarest_bytes_are_compared_first(text: bytes, is_folded: bool, rare: list[int]) -> None:
    found = Needle(text, is_folded=is_folded).rare.tolist()
    assert found[: len(rare)] == rare
    assert sorted(found) == list(range(len(text)))


def test_a_letter_in_both_cases_is_met_as_often_as_both() -> None:
    assert frequency(b"eE") == frequency(b"e") + frequency(b"E")
    assert frequency(b"\x07") == 0


@pytest.mark.parametrize(("text", "count"), [(b"foo", 1), (b"oo", 1), (b"o", 3), (b"zzz", 0), (b"zz", 0), (b"OO", 1)])
def test_blocks_that_may_hold_it_are_those_with_its_trigrams(text: bytes, count: int) -> None:
    segment = segment_of({"a.txt": b"xy foo", "b.txt": b"bar", "c.txt": b"qux"})
    blocks = Needle(text, is_folded=True).blocks(segment.postings, segment.content.blocks)
    assert len(blocks) == count


def test_a_buffer_is_always_filled_before_the_budget_is_checked() -> None:
    def resume(at: int, position: int, out: U32) -> tuple[int, int, int]:
        out[0] = at
        return 1, at + 1, 0

    flag = CountingFlag(3)
    assert collect_positions(resume, 10, cancelled_by(flag)).tolist() == [0, 1, 2]
    assert collect_positions(resume, 3, unbounded()).tolist() == [0, 1, 2]
    whole = CountingFlag()
    collect_positions(resume, 3, cancelled_by(whole))
    assert whole.seen == 2  # not after the last: then there is nothing left to stop


def test_some_of_several_are_never_searched() -> None:
    needles = [Needle(text, is_folded=False) for text in (b"aa", b"bb", b"cc")]
    data = data_of(b"aabbcc\0")
    assert [each.tolist() for each in find_each(needles, data, array(0), array(6), unbounded())] == [[0], [2], [4]]
    cut = find_each(needles, data, array(0), array(6), cancelled_by(CountingFlag(2)))
    assert [each.tolist() for each in cut] == [[0], [2], []]
