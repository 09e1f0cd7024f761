"""The stream format of an index, with which a draining node sends it to its successor.

    magic 8 · format 2 · header length 4 · header checksum 8 · header · the sections of each part, raw, in order

Numbers are little-endian. The header (msgpack) has the repository and, for each section, its shape and the checksum
from build time, so that the receiver detects damage in transit and in the sender's memory.

A received segment is validated once, before it is searched: kernels are compiled without bounds checks, so an offset
past the end would read foreign memory. Segments built by this process are consistent by construction.
"""

import struct
from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

import msgspec
import numpy as np

from argosy.base.errors import Invalid
from argosy.search.arrays import freeze
from argosy.search.documents import SkipReason
from argosy.search.index.index import (
    SEGMENT_BLOCKS_MAX,
    DocTable,
    Index,
    Part,
    Postings,
    Segment,
    Symbols,
    Text,
    bitmap_length,
)
from argosy.search.index.sections import BRANCHES, SECTIONS, TWO_DIMENSIONAL, Array, checksum, sections, segment_fields
from argosy.search.kernels.trigrams import KEYS
from argosy.search.model import Repository
from argosy.search.symbols import KINDS

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
                # Copied by chunk, so that a transfer needs a megabyte of its own, whatever the size of the index.
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
    # Format and length are checked before the header is read, because they decide how to read it and how much to
    # allocate.
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
    # A checksum proves no more than that the bytes are those sent; a foreign sender can nest lists deeper than the
    # stack.
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
    # Checksums cannot tell this: a sender with a bug computes them over inconsistent arrays.
    for fault in faults(segment):
        raise Invalid(f"part {number} of the index does not fit together ({fault}): build the index here")
    if len(branches) != segment.names.documents:
        raise Invalid(f"part {number} has branches for {len(branches)} of {segment.names.documents} documents")
    return Part(segment, freeze(branches), header.branches.checksum)


def _section(stream: "_Stream", name: str, kind: np.dtype[Any], section: _Section, dimensions: int) -> Array:
    # In Python integers, which a foreign shape cannot overflow.
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


def faults(segment: Segment) -> Iterator[str]:
    """Describes each inconsistency. Later checks rely on earlier ones, so the caller must stop at the first."""
    # In the order in which kernels follow the arrays: from the text to its blocks to what refers to blocks.
    yield from _text_faults("content", segment.content)
    if segment.content.blocks > SEGMENT_BLOCKS_MAX:
        yield f"{segment.content.blocks} blocks, more than {SEGMENT_BLOCKS_MAX}"
    yield from _text_faults("names", segment.names)
    if segment.names.documents != segment.content.documents:
        yield f"{segment.names.documents} names for {segment.content.documents} contents"
    yield from _posting_faults(segment.postings, segment.content.blocks)
    yield from _symbol_faults(segment.symbols, len(segment.content.data))
    yield from _table_faults(segment.table, segment.content.documents, len(segment.languages))


def _rises(array: Array, first: int, last: int) -> bool:
    """Whether the array is strictly ascending from `first` to `last`."""
    return bool(len(array) and array[0] == first and array[-1] == last and (array[1:] > array[:-1]).all())


def _text_faults(name: str, text: Text) -> Iterator[str]:
    size = len(text.data)
    if not _rises(text.starts, 0, size):
        yield f"{name}: documents do not cover the text"
    if text.data[text.starts[1:] - 1].any():
        yield f"{name}: a document without its NUL"
    if not _rises(text.block_starts, 0, size):
        yield f"{name}: blocks do not cover the text"
    if not len(text.block_starts) - 1 == len(text.block_docs) == len(text.block_lines):
        yield f"{name}: block tables of different lengths"
    if (text.block_docs >= text.documents).any():
        yield f"{name}: a block of no document"
    begins = text.block_starts[:-1] >= text.starts[text.block_docs]
    ends = text.block_starts[1:] <= text.starts[text.block_docs + 1]
    if not (begins & ends).all():
        yield f"{name}: a block across documents"


def _posting_faults(postings: Postings, blocks: int) -> Iterator[str]:
    if len(postings.present) != KEYS // 64:
        yield "postings: a directory of the wrong size"
    ranks = np.concatenate(([0], np.cumsum(np.bitwise_count(postings.present), dtype=np.int64)))
    if not np.array_equal(ranks, postings.ranks):
        yield "postings: ranks do not count the keys"
    if len(postings.offsets) != ranks[-1] + 1 or not _rises(postings.offsets, 0, len(postings.blocks)):
        yield "postings: offsets do not cover the postings"
    length = bitmap_length(blocks)
    offsets = postings.offsets.astype(np.int64)
    sizes = offsets[1:] - offsets[:-1]
    if (sizes > length).any():
        yield "postings: a posting longer than a bitmap"
    # A posting as long as a bitmap is one; its words are not block numbers.
    is_list = np.repeat(sizes < length, sizes)
    if (postings.blocks[is_list] >= blocks).any():
        yield "postings: a block number out of range"
    bitmaps = postings.offsets[:-1][sizes == length]
    for word in range(blocks // 16, length):
        # The last words of a bitmap are padding, which kernels read as block numbers when it is not zero.
        known = np.uint16((1 << max(0, blocks - 16 * word)) - 1)
        if (postings.blocks[bitmaps + np.uint32(word)] & ~known).any():
            yield "postings: a bitmap with a block number out of range"


def _symbol_faults(symbols: Symbols, text_bytes: int) -> Iterator[str]:
    count = len(symbols.starts)
    if not count == len(symbols.lengths) == len(symbols.kinds) == len(symbols.points) == len(symbols.parents):
        yield "symbols: tables of different lengths"
    if (symbols.starts.astype(np.int64) + symbols.lengths > text_bytes).any():
        yield "symbols: a name outside the text"
    if (symbols.starts[1:] < symbols.starts[:-1]).any():
        yield "symbols: not in text order"
    if (symbols.kinds >= len(KINDS)).any():
        yield "symbols: an unknown kind"
    if (symbols.parents < -1).any() or (symbols.parents >= count).any():
        yield "symbols: a parent out of range"


def _table_faults(table: DocTable, documents: int, languages: int) -> Iterator[str]:
    columns = (table.languages, table.categories, table.skips, table.traits, table.blob_ids)
    if any(len(column) != documents for column in columns):
        yield f"table: not one row for each of {documents} documents"
    if (table.languages >= languages).any():
        yield "table: a language out of range"
    if (table.skips >= len(SkipReason)).any():
        yield "table: an unknown skip reason"
