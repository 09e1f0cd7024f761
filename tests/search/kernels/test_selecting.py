"""Blocks and their documents."""

import numpy as np

from argosy.search.kernels.selecting import blocks_within, mark_documents, mark_first_documents
from tests.search.match.asking import array

OWNERS = array(0, 0, 0, 1, 2, 2, 4)     # document 3 has no block


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
