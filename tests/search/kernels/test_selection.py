"""Blocks and their documents; the best scores."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.search.kernels.selection import best_of, blocks_within, mark_documents, mark_first_documents, shares
from tests.search.match.search_calls import array

OWNERS = array(0, 0, 0, 1, 2, 2, 4)  # document 3 has no block


def test_documents_of_blocks() -> None:
    mask = np.zeros(5, np.bool_)
    mark_documents(array(1, 3, 6), OWNERS, mask)
    assert np.flatnonzero(mask).tolist() == [0, 1, 4]


def test_only_a_documents_first_block_stands_for_its_name() -> None:
    mask = np.zeros(5, np.bool_)
    mark_first_documents(array(0, 1, 3, 5), OWNERS, mask)
    assert np.flatnonzero(mask).tolist() == [0, 1]


def test_blocks_of_documents() -> None:
    mask = np.array([True, False, True, True, False])
    assert blocks_within(array(1, 3, 4, 6), OWNERS, mask).tolist() == [1, 4]
    assert blocks_within(array(), OWNERS, mask).tolist() == []


STARTS = array(0, 10, 20, 30, 45, 55, 65, 70)


def test_shares_are_of_whole_documents_and_within_their_bounds() -> None:
    blocks = array(0, 1, 3, 4, 5, 6)  # 20 bytes of the first document, 15, 20 and 5 of others
    assert shares(blocks, STARTS, OWNERS, 100, 100).tolist() == [[6, 4, 60]]
    assert shares(blocks, STARTS, OWNERS, 35, 100).tolist() == [[3, 2, 35], [6, 2, 25]]
    assert shares(blocks, STARTS, OWNERS, 34, 100).tolist() == [[2, 1, 20], [3, 1, 15], [6, 2, 25]]
    assert shares(blocks, STARTS, OWNERS, 100, 3).tolist() == [[5, 3, 55], [6, 1, 5]]
    assert shares(blocks, STARTS, OWNERS, 1, 100)[:, 1].tolist() == [1, 1, 1, 1]
    assert shares(array(), STARTS, OWNERS, 1, 1).tolist() == []


@settings(deadline=None)
@given(st.lists(st.sampled_from([0.0, 1.0, 1.5, 2.0, 7.25, float("nan")])), st.integers(0, 12))
def test_the_best_come_first_and_of_equals_the_earliest(scores: list[float], size: int) -> None:
    places = sorted((i for i, score in enumerate(scores) if score == score), key=lambda i: (-scores[i], i))
    assert best_of(np.array(scores, np.float64), size).tolist() == (places[:size] if size else places)
