"""An index as a stream of bytes, so that a node that leaves can hand it over.

    magic 8 · format 2 · header length 4 · header checksum 8 · header · the sections of each part, raw, in order

Numbers are little-endian. The header (msgpack) has the repository and for each section its shape and the checksum that
was made when the index was built: the receiver finds damage on the way and in the sender's memory alike. What arrives
is checked to fit together before anyone searches it.
"""

import struct
from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

import msgspec
import numpy as np

from argosy.base.errors import Invalid
from argosy.search.index.checksums import BRANCHES, checksum
from argosy.search.index.index import Index, Part
from argosy.search.index.sections import SECTIONS, TWO_DIMENSIONAL, Array, sections, segment_fields
from argosy.search.index.segment import Segment, frozen
from argosy.search.index.validation import faults
from argosy.search.model import Repository

FORMAT = 1  # counted up with any change of sections, kinds, classes or what they mean
HEADER_BYTES_MAX = 8 << 20  # a part's entry takes about 1 KiB
SECTION_BYTES_MAX = 1 << 30  # a segment's largest is its text, 128 MiB
CHUNK_BYTES = 1 << 20  # what is yielded at a time, at most

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
    """The stream, in chunks of at most CHUNK_BYTES (the first holds the header, however long)."""
    header = _Header(index.repository, index.recipe, tuple(_described(each) for each in index.parts))
    encoded = msgspec.msgpack.encode(_unspelled(msgspec.to_builtins(header)))
    yield _PREFIX.pack(_MAGIC, FORMAT, len(encoded), checksum(np.frombuffer(encoded, np.uint8))) + encoded
    for part in index.parts:
        for _, array in [*sections(part.segment), (BRANCHES, part.branches)]:
            raw = array.reshape(-1).view(np.uint8)
            for start in range(0, len(raw), CHUNK_BYTES):
                yield raw[start : start + CHUNK_BYTES].tobytes()


def load(chunks: Iterable[bytes]) -> Index:
    """The index that was dumped. Chunks may be cut anywhere; whatever is not one whole sound index is refused."""
    stream = _Stream(chunks)
    header = _header(stream)
    parts = tuple(_part(stream, number, each) for number, each in enumerate(header.parts))
    stream.finish()
    return Index(header.repository, parts, header.recipe)


def _described(part: Part) -> _Part:
    segment = part.segment
    arrays = list(sections(segment))
    sums = segment.checksums or [checksum(array) for _, array in arrays]
    described = tuple(_Section(array.shape, each) for (_, array), each in zip(arrays, sums, strict=True))
    branches = checksum(part.branches) if part.checksum is None else part.checksum
    return _Part(segment.languages, described, _Section(part.branches.shape, branches))


def _header(stream: "_Stream") -> _Header:
    magic, version, length, expected = _PREFIX.unpack(bytes(stream.take(_PREFIX.size)))
    if magic != _MAGIC:
        raise Invalid(f"this is not an index: it begins with {magic!r}")
    if version != FORMAT:
        raise Invalid(f"the index has format {version} and this node reads format {FORMAT}: build the index here")
    if length > HEADER_BYTES_MAX:
        raise Invalid(f"the index's header of {length} bytes is longer than {HEADER_BYTES_MAX}")
    encoded = stream.take(length)
    if checksum(encoded) != expected:
        raise Invalid("the index's header is damaged: ask for it again")
    try:
        return msgspec.convert(_spelled(msgspec.msgpack.decode(encoded.tobytes())), _Header)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Invalid(f"the index's header is not understood ({error}): build the index here") from None


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
    return Part(segment, frozen(branches), header.branches.checksum)


def _section(stream: "_Stream", name: str, kind: np.dtype[Any], section: _Section, dimensions: int) -> Array:
    size = prod(section.shape) * kind.itemsize
    if len(section.shape) != dimensions or min(section.shape) < 0 or size > SECTION_BYTES_MAX:
        raise Invalid(f"{name} has the shape {section.shape}, which no index has")
    array: Array = np.empty(section.shape, kind)
    stream.fill(array)
    if checksum(array) != section.checksum:
        raise Invalid(f"{name} is damaged: ask for the index again, or build it here")
    return array


class _Stream:
    """Chunks of any size, from which arrays are filled."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._rest = memoryview(b"")
        self._taken = 0

    def take(self, size: int) -> Array:
        """The next `size` bytes."""
        array = np.empty(size, np.uint8)
        self.fill(array)
        return array

    def fill(self, array: Array) -> None:
        """The next bytes, as many as the array has room for."""
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


def _unspelled(thing: Any) -> Any:
    """Text as bytes, all the way down: a name may hold what is no Unicode."""
    match thing:
        case str():
            return thing.encode("utf-8", "surrogateescape")
        case dict():
            return {_unspelled(key): _unspelled(value) for key, value in thing.items()}
        case list() | tuple():
            return [_unspelled(each) for each in thing]
    return thing


def _spelled(thing: Any) -> Any:
    """Bytes as text, all the way down."""
    match thing:
        case bytes():
            return thing.decode("utf-8", "surrogateescape")
        case dict():
            return {_spelled(key): _spelled(value) for key, value in thing.items()}
        case list():
            return [_spelled(each) for each in thing]
    return thing
