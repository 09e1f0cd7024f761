"""Traits: well-formed UTF-8 by the standard, and the letters that fold to ASCII."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.search.arrays import freeze
from argosy.search.index.index import Trait
from argosy.search.kernels.text_blocks import mark_traits

fragments = st.one_of(
    st.text().map(str.encode), st.binary(max_size=5), st.sampled_from([b"a" * 70, b"\xe2\x84", b"K", b"\xf4"])
)


def traits(*contents: bytes) -> list[int]:
    data = freeze(np.frombuffer(b"".join(each + b"\0" for each in contents), np.uint8).copy())
    starts = freeze(np.cumsum([0] + [len(each) + 1 for each in contents]).astype(np.uint32))
    found = np.zeros(len(contents), np.uint8)
    mark_traits(data, starts, found)
    return [int(each) for each in found]


def expected(content: bytes) -> int:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return Trait.INVALID_UTF8
    return Trait.ODD_FOLD if {"\u017f", "\u212a"} & set(text) else 0


@settings(deadline=None)
@given(contents=st.lists(st.lists(fragments, max_size=6).map(b"".join), min_size=1, max_size=4))
def test_traits_are_those_that_python_finds_by_decoding(contents: list[bytes]) -> None:
    contents = [each.replace(b"\0", b"0") for each in contents]
    assert traits(*contents) == [expected(each) for each in contents]


@pytest.mark.parametrize(
    "content",
    [b"\x80", b"\xc0\x80", b"\xc1\xbf", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80",
     b"\xf5\x80\x80\x80", b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"a" * 200 + b"\xe9" + b"b" * 200],
)  # fmt: skip
def test_invalid_utf8_is_detected(content: bytes) -> None:
    assert traits(content) == [Trait.INVALID_UTF8]


@pytest.mark.parametrize("text", ["", "plain", "é", "\ud7ff\ue000", "\U0010ffff", "🦊" * 40, "κ ſimple"])
def test_well_formed_text_is_not_invalid(text: str) -> None:
    assert not traits(text.encode())[0] & Trait.INVALID_UTF8


def test_an_odd_letter_is_seen_where_strides_meet() -> None:
    for length in range(130):
        assert traits(b"a" * length + "\u212a".encode() + b"z" * 100) == [Trait.ODD_FOLD]
