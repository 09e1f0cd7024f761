"""The checksum of zoekt's answers: the catalogued value, and bit by bit."""

from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.search.kernels.crc64 import TABLES, crc64
from tests.search.match.search_calls import data_of


def bit_by_bit(data: bytes) -> int:
    rest = (1 << 64) - 1
    for byte in data:
        rest ^= byte
        for _ in range(8):
            rest = rest >> 1 ^ (0xD800000000000000 if rest & 1 else 0)
    return rest ^ (1 << 64) - 1


def test_the_value_every_catalogue_gives() -> None:
    assert crc64(data_of(b"123456789"), 0, 9, TABLES) == 0xB90956C775A41001


@settings(deadline=None)
@given(st.binary(max_size=40), st.integers(0, 9))
def test_eight_bytes_at_a_time_are_eight_bytes_one_by_one(data: bytes, start: int) -> None:
    start = min(start, len(data))
    assert crc64(data_of(data + b"\0"), start, len(data), TABLES) == bit_by_bit(data[start:])
