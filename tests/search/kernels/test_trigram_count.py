"""Distinct trigrams: counted by key, so that case and line ends do not multiply them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.search.kernels.trigrams import CLASSES, distinct_keys, key_of


def count(content: bytes) -> int:
    return distinct_keys(np.frombuffer(content, np.uint8), CLASSES)


@pytest.mark.parametrize(("content", "distinct"), [(b"", 0), (b"ab", 0), (b"abc", 1), (b"abcABC", 3), (b"a" * 9, 1)])
def test_small_counts(content: bytes, distinct: int) -> None:
    assert count(content) == distinct


@settings(deadline=None)
@given(content=st.binary(max_size=300))
def test_it_is_the_size_of_the_set_of_keys(content: bytes) -> None:
    assert count(content) == len({key_of(*content[i : i + 3]) for i in range(len(content) - 2)})
