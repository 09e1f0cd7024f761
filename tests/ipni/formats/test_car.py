"""CAR files of version 1."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.ipni.formats import car, cid, dag_cbor, varint
from argosy.ipni.formats.node import Node
from tests.ipni.formats import samples

BLOCKS = [samples.block(name) for name in (samples.AD, samples.CHUNK_HEAD, samples.CHUNK_TAIL)]
CAR = car.encode([BLOCKS[0][0]], BLOCKS)


def test_an_advertisement_and_its_chunks_are_read_back() -> None:
    assert car.decode(CAR) == ((BLOCKS[0][0],), BLOCKS)


def test_the_header_is_that_of_the_format() -> None:
    root = cid.parse("QmSPbSLo26Lt3SZ5r9ccqtoM6zjuxobLxc7JM4VivCMCmB")
    expected = "38a265726f6f747381d82a582300" + root.bytes.hex() + "6776657273696f6e01"
    assert car.header([root]).hex() == expected


@settings(deadline=None)
@given(st.lists(st.binary(max_size=50), max_size=6), st.integers(1, 7))
def test_any_blocks_are_read_back_in_pieces(contents: list[bytes], size: int) -> None:
    blocks = [(cid.of(data), data) for data in contents]
    waiting = memoryview(car.encode([name for name, _ in blocks], blocks))

    def read(size_max: int) -> bytes:
        nonlocal waiting
        part, waiting = waiting[: min(size, size_max)], waiting[min(size, size_max) :]
        return bytes(part)

    reader = car.Reader(read)
    assert reader.roots == tuple(name for name, _ in blocks)
    assert list(reader) == blocks


@settings(deadline=None)
@given(st.integers(0, len(CAR) - 1))
def test_a_truncated_car_is_rejected_or_ends_with_a_complete_block(size: int) -> None:
    whole = [len(car.encode([BLOCKS[0][0]], BLOCKS[:count])) for count in range(4)]
    if size in whole:
        assert car.decode(CAR[:size])[1] == BLOCKS[: whole.index(size)]
    else:
        with pytest.raises(Invalid):
            car.decode(CAR[:size])


def test_a_changed_block_is_refused() -> None:
    with pytest.raises(Invalid, match="have another hash"):
        car.decode(CAR[:-1] + b" ")


@pytest.mark.parametrize(
    "node",
    [1, {}, {"version": 2, "roots": []}, {"version": 1}, {"version": 1, "roots": [1]}, {"version": True, "roots": []}],
)
def test_a_wrong_header_is_refused(node: Node) -> None:
    with pytest.raises(Invalid):
        car.decode(varint.encode_bytes(dag_cbor.encode(node)))


@pytest.mark.parametrize("prefix", ["00", "ffffffffffffffffff01", "8180808080808080807f", "ffffff7f"])
def test_a_length_beyond_bounds_is_refused_before_it_is_read(prefix: str) -> None:
    for start in (b"", car.header([])):
        with pytest.raises(Invalid):
            car.decode(start + bytes.fromhex(prefix))
