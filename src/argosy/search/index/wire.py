"""The stream format of an index, with which a draining node sends it to its successor.

    magic 8 · format 2 · header length 4 · header checksum 8 · header · the sections of each part, raw, in order

Numbers are little-endian. The header (msgpack) has the repository and, for each section, its shape and the checksum
from build time, so that the receiver detects damage in transit and in the sender's memory. A received index is
validated before it is searched.
"""

import struct
from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

import msgspec
import numpy as np

from argosy.base.errors import Invalid
from argosy.search.arrays import freeze
from argosy.search.index.index import Index, Part, Segment
from argosy.search.index.sections import BRANCHES, SECTIONS, TWO_DIMENSIONAL, Array, checksum, sections, segment_fields
from argosy.search.index.validation import faults
from argosy.search.model import Repository

# Increment on any change of sections, kinds, byte classes or their meaning. A node that reads another format builds the
# index itself, so no node needs to read an old one.
FORMAT = 1
# Bounds for what a damaged or foreign stream can make this process allocate before a checksum is compared.
HEADER_BYTES_MAX = 8 << 20  # an entry of a part takes about 1 KiB
SECTION_BYTES_MAX = 1 << 30  # the largest section is the text, 128 MiB
CHUNK_BYTES = 1 << 20  # maximal size of a chunk after the header

_MAGIC = b"argosyix"
_PREFIX = struct.Struct("<8sHIQ")
_BRANCHES_TYPE = np.dtype("<u8")


class _Section(msgspec.Struct, frozen=True, array_like=True):
    shape: tuple[int, ...]
    checksum: int


class _Part(msgspec.Struct, frozen=True, array_like=True):
    languages: tuple[str, ...]
    sections: tuple[_Section, ...]  # of the segment, in the order of SECTIONS
    branches: _Section


class _Header(msgspec.Struct, frozen=True, array_like=True):
    repository: Repository
    recipe: str
    parts: tuple[_Part, ...]


def dump(index: Index) -> Iterator[bytes]:
    """Encodes the index in chunks of at most CHUNK_BYTES, except the first, which has the header."""
    header = _Header(index.repository, index.recipe, tuple(_part_header(each) for each in index.parts))
    encoded = msgspec.msgpack.encode(_encode_names(msgspec.to_builtins(header)))
    yield _PREFIX.pack(_MAGIC, FORMAT, len(encoded), checksum(np.frombuffer(encoded, np.uint8))) + encoded
    for part in index.parts:
        for _, array in [*sections(part.segment), (BRANCHES, part.branches)]:
            raw = array.reshape(-1).view(np.uint8)
            for start in range(0, len(raw), CHUNK_BYTES):
                yield raw[start : start + CHUNK_BYTES].tobytes()


def load(chunks: Iterable[bytes]) -> Index:
    """Decodes an index from chunks of any size. Raises Invalid unless they are exactly one valid index."""
    stream = _Stream(chunks)
    header = _header(stream)
    parts = tuple(_part(stream, number, each) for number, each in enumerate(header.parts))
    stream.finish()
    return Index(header.repository, parts, header.recipe)


def _part_header(part: Part) -> _Part:
    segment = part.segment
    arrays = list(sections(segment))
    sums = segment.checksums or [checksum(array) for _, array in arrays]
    described = tuple(_Section(array.shape, each) for (_, array), each in zip(arrays, sums, strict=True))
    branches = checksum(part.branches) if part.checksum is None else part.checksum
    return _Part(segment.languages, described, _Section(part.branches.shape, branches))


def _header(stream: "_Stream") -> _Header:
    magic, version, length, expected = _PREFIX.unpack(bytes(stream.read(_PREFIX.size)))
    if magic != _MAGIC:
        raise Invalid(f"not an index: it starts with {magic!r}")
    if version != FORMAT:
        raise Invalid(f"the index has format {version} and this node reads format {FORMAT}: build the index here")
    if length > HEADER_BYTES_MAX:
        raise Invalid(f"the index's header of {length} bytes is longer than {HEADER_BYTES_MAX}")
    encoded = stream.read(length)
    if checksum(encoded) != expected:
        raise Invalid("the index's header is damaged: request it again")
    try:
        return msgspec.convert(_decode_names(msgspec.msgpack.decode(encoded.tobytes())), _Header)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Invalid(f"invalid index header ({error}): build the index here") from None


def _part(stream: "_Stream", number: int, header: _Part) -> Part:
    if len(header.sections) != len(SECTIONS):
        raise Invalid(f"part {number} has {len(header.sections)} sections, not {len(SECTIONS)}: build the index here")
    arrays: dict[str, Array] = {}
    for (name, kind), section in zip(SECTIONS.items(), header.sections, strict=True):
        arrays[name] = _section(stream, f"{name} of part {number}", kind, section, 2 if name == TWO_DIMENSIONAL else 1)
    branches = _section(stream, f"{BRANCHES} of part {number}", _BRANCHES_TYPE, header.branches, 1)
    sums = tuple(section.checksum for section in header.sections)
    segment = Segment(**segment_fields(arrays), languages=header.languages, checksums=sums)
    for fault in faults(segment):
        raise Invalid(f"part {number} of the index does not fit together ({fault}): build the index here")
    if len(branches) != segment.names.documents:
        raise Invalid(f"part {number} has branches for {len(branches)} of {segment.names.documents} documents")
    return Part(segment, freeze(branches), header.branches.checksum)


def _section(stream: "_Stream", name: str, kind: np.dtype[Any], section: _Section, dimensions: int) -> Array:
    size = prod(section.shape) * kind.itemsize
    if len(section.shape) != dimensions or min(section.shape) < 0 or size > SECTION_BYTES_MAX:
        raise Invalid(f"{name} has the shape {section.shape}, which no index has")
    array: Array = np.empty(section.shape, kind)
    stream.fill(array)
    if checksum(array) != section.checksum:
        raise Invalid(f"{name} is damaged: request the index again, or build it here")
    return array


class _Stream:
    """Reads arrays from chunks of any size."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._rest = memoryview(b"")
        self._taken = 0

    def read(self, size: int) -> Array:
        """Reads the next `size` bytes."""
        array = np.empty(size, np.uint8)
        self.fill(array)
        return array

    def fill(self, array: Array) -> None:
        """Fills the array with the next bytes."""
        room = array.reshape(-1).view(np.uint8)
        while len(room):
            if not self._rest and not self._refill():
                raise Invalid(f"the index ends after {self._taken} bytes, {len(room)} or more short: ask for it again")
            piece = np.frombuffer(self._rest[: len(room)], np.uint8)
            room[: len(piece)] = piece
            room, self._rest = room[len(piece) :], self._rest[len(piece) :]
            self._taken += len(piece)

    def finish(self) -> None:
        if self._rest or self._refill():
            raise Invalid(f"the index goes on after its end at byte {self._taken}: ask for it again")

    def _refill(self) -> bool:
        for chunk in self._chunks:
            if chunk:
                self._rest = memoryview(chunk)
                return True
        return False


def _encode_names(thing: Any) -> Any:
    """Encodes all strings as bytes, because names can contain bytes that are not Unicode."""
    match thing:
        case str():
            return thing.encode("utf-8", "surrogateescape")
        case dict():
            return {_encode_names(key): _encode_names(value) for key, value in thing.items()}
        case list() | tuple():
            return [_encode_names(each) for each in thing]
    return thing


def _decode_names(thing: Any) -> Any:
    """Decodes all bytes as strings."""
    match thing:
        case bytes():
            return thing.decode("utf-8", "surrogateescape")
        case dict():
            return {_decode_names(key): _decode_names(value) for key, value in thing.items()}
        case list():
            return [_decode_names(each) for each in thing]
    return thing
