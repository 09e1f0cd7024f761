"""CAR files, version 1: a header with the roots, then blocks, each with its CID.

A mirror has one file per advertisement: the advertisement, which is the root, then its entries.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from argosy.base.errors import Invalid
from argosy.ipni.formats import cid as cids
from argosy.ipni.formats import dag, dag_cbor, varint
from argosy.ipni.formats.cid import Cid
from argosy.ipni.formats.node import Node, as_map, int_field, list_field

# ROOTS_MAX roots of 40 bytes each fit.
HEADER_BYTES_MAX = 65536
SECTION_BYTES_MAX = 8 << 20  # twice the largest block that the specification advises
ROOTS_MAX = 1024

Read = Callable[[int], bytes]  # reads at most that many bytes; none at the end


def header(roots: Sequence[Cid]) -> bytes:
    links: list[Node] = list(roots)
    return varint.encode_bytes(dag_cbor.encode({"roots": links, "version": 1}))


def section(cid: Cid, data: bytes) -> bytes:
    return varint.encode_bytes(cid.bytes + data)


def encode(roots: Sequence[Cid], blocks: Iterable[tuple[Cid, bytes]]) -> bytes:
    return b"".join((header(roots), *(section(cid, data) for cid, data in blocks)))


class Reader:
    """Reads a CAR section by section, with one section in memory."""

    def __init__(self, read: Read) -> None:
        self._read = read
        data = self._read_prefixed(HEADER_BYTES_MAX, "the header")
        if data is None:
            raise Invalid("the CAR is empty")
        self.roots = _roots(data)

    def __iter__(self) -> Iterator[tuple[Cid, bytes]]:
        """Every block, verified against its CID: a mirror's disk is no more trusted than the network."""
        while (data := self._read_prefixed(SECTION_BYTES_MAX, "a section")) is not None:
            cid, end = cids.decode_at(data, 0)
            block = data[end:]
            dag.check(cid, block)
            yield cid, block

    def _read_prefixed(self, size_max: int, what: str) -> bytes | None:
        prefix = b""
        while True:
            # Byte by byte: reading further would take a part of the section away from the next read.
            byte = self._read(1)
            if not byte and not prefix:
                return None
            if not byte:
                raise Invalid(f"the CAR ends in the middle of the length of {what}")
            prefix += byte
            if byte[0] < 0x80 or len(prefix) > varint.VARINT_BYTES_MAX:
                break
        size, _ = varint.decode(prefix)
        if not 0 < size <= size_max:
            raise Invalid(f"{what} of a CAR has 1 to {size_max} bytes, not {size}")
        return self._exactly(size, what)

    def _exactly(self, size: int, what: str) -> bytes:
        # In a loop, because a read may return less than requested.
        parts: list[bytes] = []
        left = size
        while left:
            part = self._read(left)
            if not part:
                raise Invalid(f"the CAR ends {left} bytes before the end of {what}")
            parts.append(part)
            left -= len(part)
        return b"".join(parts)


def _roots(data: bytes) -> tuple[Cid, ...]:
    node = as_map(dag_cbor.decode(data), "header")
    if (version := int_field(node, "version")) != 1:
        raise Invalid(f"version {version} of CAR is not read here: 1 is")
    roots = list_field(node, "roots")
    if len(roots) > ROOTS_MAX or not all(isinstance(each, Cid) for each in roots):
        raise Invalid(f"the roots of a CAR are links, up to {ROOTS_MAX}")
    return tuple(each for each in roots if isinstance(each, Cid))


def decode(data: bytes) -> tuple[tuple[Cid, ...], list[tuple[Cid, bytes]]]:
    """Decodes a whole CAR in memory to its roots and blocks."""
    at = 0

    def read(size: int) -> bytes:
        nonlocal at
        part = data[at : at + size]
        at += len(part)
        return part

    reader = Reader(read)
    return reader.roots, list(reader)
