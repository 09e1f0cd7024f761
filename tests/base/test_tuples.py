"""Tuple keys: they come back as they were, sort as the tuples do, and their ranges hold exactly what extends them."""

import math
from functools import cmp_to_key

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.base.tuples import DEPTH_MAX, INT_BYTES_MAX, pack, prefix_range, unpack

INT_LIMIT = 256**INT_BYTES_MAX

ints = st.one_of(
    st.integers(-300, 300),
    st.integers(-(2**70), 2**70),
    st.integers(-INT_LIMIT + 1, INT_LIMIT - 1),
    st.builds(lambda n, d: 2**n + d, st.integers(0, 100), st.integers(-1, 1)),
)
# Few letters, zero and 0xFF among them, so that prefixes and escapes are common.
short_bytes = st.one_of(st.lists(st.sampled_from([0, 1, 0x61, 0xFF]), max_size=4).map(bytes), st.binary(max_size=8))
short_text = st.one_of(st.text("\x00a\xff\U0001f600", max_size=4), st.text(max_size=8))
floats = st.floats(allow_nan=False)
leaves = st.one_of(st.none(), st.booleans(), ints, floats, short_bytes, short_text)
items = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)
tuples_ = st.lists(items, max_size=4).map(tuple)

TYPE_ORDER = [type(None), bytes, str, tuple, int, float, bool]


def compare(a: object, b: object) -> int:
    """The documented order, written out plainly."""
    if type(a) is not type(b):
        return -1 if TYPE_ORDER.index(type(a)) < TYPE_ORDER.index(type(b)) else 1
    if isinstance(a, tuple):
        for x, y in zip(a, b, strict=False):  # type: ignore[call-overload]
            if order := compare(x, y):
                return order
        return (len(a) > len(b)) - (len(a) < len(b))  # type: ignore[arg-type]
    return 0 if a is None else (a > b) - (a < b)  # type: ignore[operator]


def same(a: object, b: object) -> bool:
    """Equal in value and in type, all the way down."""
    return compare(a, b) == 0


@given(tuples_)
def test_a_tuple_round_trips(given_tuple: tuple) -> None:
    assert same(unpack(pack(given_tuple)), given_tuple)


@given(tuples_, tuples_)
def test_keys_sort_as_the_tuples_do(a: tuple, b: tuple) -> None:
    packed_order = (pack(a) > pack(b)) - (pack(a) < pack(b))
    assert packed_order == compare(a, b)


@given(tuples_, st.lists(items, min_size=1, max_size=3).map(tuple))
def test_the_range_of_a_tuple_contains_every_extension_of_it(prefix: tuple, more: tuple) -> None:
    start, end = prefix_range(prefix)
    assert start <= pack(prefix + more) < end


@given(tuples_, tuples_)
def test_the_range_of_a_tuple_contains_nothing_else(prefix: tuple, other: tuple) -> None:
    start, end = prefix_range(prefix)
    extends = len(other) > len(prefix) and same(other[: len(prefix)], prefix)
    assert (start <= pack(other) < end) == extends


@pytest.mark.parametrize("prefix", [("a",), (b"a",), ((),), (("a",),), (None,), (1,)])
def test_neighbours_that_share_the_bytes_of_a_prefix_stay_outside(prefix: tuple) -> None:
    start, end = prefix_range(prefix)
    for neighbour in [("a\x00",), (b"a\x00b",), ((None,),), (("a", None),), (256,), prefix]:
        assert not start <= pack(neighbour) < end


def test_the_range_of_the_empty_tuple_contains_every_key() -> None:
    start, end = prefix_range(())
    assert all(start <= pack((item,)) < end for item in [None, b"", "", (), -INT_LIMIT + 1, math.inf, True])


@pytest.mark.parametrize(
    ("key", "packed"),
    [
        (("FÔO\x00bar",), b"\x02F\xc3\x94O\x00\xffbar\x00"),
        ((b"foo\x00bar",), b"\x01foo\x00\xffbar\x00"),
        (((b"foo\x00bar", None, ()),), b"\x05\x01foo\x00\xffbar\x00\x00\xff\x05\x00\x00"),
        ((-5551212,), b"\x11\xabK\x93"),
        ((0, 1, -1, 256), b"\x14\x15\x01\x13\xfe\x16\x01\x00"),
        ((2**64, -(2**64)), b"\x1d\x09\x01" + b"\x00" * 8 + b"\x0b\xf6\xfe" + b"\xff" * 8),
        ((1.0, -1.0), b"\x21\xbf\xf0" + b"\x00" * 6 + b"\x21\x40\x0f" + b"\xff" * 6),
        ((False, True, None), b"\x26\x27\x00"),
    ],
)
def test_the_layout_is_that_of_the_foundationdb_tuple_layer(key: tuple, packed: bytes) -> None:
    assert pack(key) == packed
    assert same(unpack(packed), key)


def test_all_types_sort_in_the_documented_order() -> None:
    numbers = [-(2**80), -1, 0, 1, 2**80, -math.inf, 0.5, math.inf]
    ordered = [None, b"", b"\xff", "", "z", (), (None,), *numbers, False, True]
    keys = [pack((item,)) for item in ordered]
    assert keys == sorted(keys)
    assert sorted(ordered, key=cmp_to_key(compare)) == ordered


def test_minus_zero_is_stored_as_zero() -> None:
    assert pack((-0.0,)) == pack((0.0,))
    assert math.copysign(1, unpack(pack((-0.0,)))[0]) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "item", [math.nan, [1], {"a": 1}, bytearray(b"x"), object(), "\ud800", INT_LIMIT, -INT_LIMIT, (("ok", {1}),)]
)
def test_an_unsupported_key_part_is_rejected(item: object) -> None:
    with pytest.raises(Invalid):
        pack((item,))  # type: ignore[arg-type]


def nested(depth: int) -> tuple:
    inner: tuple = ()
    for _ in range(depth):
        inner = (inner,)
    return inner


def test_nesting_is_bounded_both_ways() -> None:
    deepest = nested(DEPTH_MAX)
    assert unpack(pack(deepest)) == deepest
    with pytest.raises(Invalid, match="deep"):
        pack(nested(DEPTH_MAX + 1))
    with pytest.raises(Invalid, match="deep"):
        unpack(b"\x05" * 10_000)


@pytest.mark.parametrize(
    "corrupt",
    [
        b"\x03",  # no such type
        b"\xff",
        b"\x02abc",  # no end
        b"\x02abc\x00\xff",  # an escaped zero, then no end
        b"\x02\xff\x00",  # not UTF-8
        b"\x05\x02a\x00",  # the tuple has no end
        b"\x05\x00\xff",
        b"\x16\x01",  # two bytes promised, one there
        b"\x16\x00\x01",  # needless leading byte
        b"\x12\xff\xfe",
        b"\x1d",  # the length itself is missing
        b"\x1d\x08" + b"\x01" * 8,  # eight bytes have a short form
        b"\x21\x00",  # half a float
        b"\x21\x7f" + b"\xff" * 7,  # -0.0
        b"\x21\xff\xf8" + b"\x00" * 6,  # NaN
    ],
)
def test_bytes_that_were_never_written_are_refused(corrupt: bytes) -> None:
    with pytest.raises(Invalid):
        unpack(corrupt)


@given(st.one_of(st.binary(max_size=30), st.lists(st.sampled_from([*range(0x28), 0xFF]), max_size=16).map(bytes)))
def test_every_tuple_has_exactly_one_encoding(key: bytes) -> None:
    try:
        unpacked = unpack(key)
    except Invalid:
        return
    assert pack(unpacked) == key
