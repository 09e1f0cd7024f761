"""Unsigned LEB128, the number format of multiformats: seven bits a byte, least first, in its shortest form."""

from argosy.base.errors import Invalid

VARINT_BYTES_MAX = 9  # the bound that multiformats set: 63 bits


def encode(number: int) -> bytes:
    assert 0 <= number < 1 << 63, number
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def decode(data: bytes, at: int = 0) -> tuple[int, int]:
    """The number that begins at `at`, and where it ends."""
    number = shift = 0
    for end in range(at, min(len(data), at + VARINT_BYTES_MAX)):
        byte = data[end]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if byte == 0 and end > at:
                raise Invalid(f"the number at byte {at} is not in its shortest form")
            return number, end + 1
        shift += 7
    raise Invalid(f"the number at byte {at} does not end within {VARINT_BYTES_MAX} bytes")


def encode_bytes(data: bytes) -> bytes:
    """The data behind its length."""
    return encode(len(data)) + data


def decode_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """What lies behind a length at `at`, and where it ends."""
    size, start = decode(data, at)
    if start + size > len(data):
        raise Invalid(f"{size} bytes were announced at byte {at}, {len(data) - start} are there")
    return data[start : start + size], start + size
