"""The arrays of a segment by name and type: the list that verifying, measuring and sending share.

Checksums are computed at build time, stored with the index, and compared periodically and after a transfer: an index
stays in memory for weeks and is sent between nodes, and a flipped bit would silently lose or invent matches. Each
section has a checksum of its own (XXH3, 64 bits), so that damage can be located.

Bids and evictions are based on the memory usage. It is exact by construction: an index consists of arrays, each of
which owns its memory, and a few small objects. The sum of their sizes is the growth of the process, except for rounding
by the allocator.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import xxhash

from argosy.search.arrays import U64, freeze
from argosy.search.index.index import DocTable, Index, Part, Postings, Segment, Symbols, Text

Array: TypeAlias = npt.NDArray[Any]

_TEXT = {"data": "u1", "starts": "<u4", "block_starts": "<u4", "block_docs": "<u4", "block_lines": "<u4"}
_GROUPS: Mapping[str, Mapping[str, str]] = {
    "content": _TEXT,
    "postings": {"present": "<u8", "ranks": "<u4", "offsets": "<u4", "blocks": "<u2"},
    "names": _TEXT,
    "symbols": {"starts": "<u4", "lengths": "<u2", "kinds": "u1", "points": "<u2", "parents": "<i4"},
    "table": {"languages": "<u2", "categories": "u1", "skips": "u1", "traits": "u1", "blob_ids": "u1"},
}

# Little-endian types of the sections, in the order of checksums and of the stream. A change of names, types or order is
# a change of the stream format (`wire.FORMAT`).
SECTIONS: Mapping[str, np.dtype[Any]] = {
    f"{group}.{field}": np.dtype(code) for group, fields in _GROUPS.items() for field, code in fields.items()
}
TWO_DIMENSIONAL = "table.blob_ids"  # the only one: documents by width


def sections(segment: Segment) -> Iterator[tuple[str, Array]]:
    """Each section's name and array."""
    for name in SECTIONS:
        group, field = name.split(".")
        yield name, getattr(getattr(segment, group), field)


def segment_fields(arrays: Mapping[str, Array]) -> dict[str, Any]:
    """The array fields of a segment with these sections, read-only."""

    def group(name: str) -> dict[str, Array]:
        return {field: freeze(arrays[f"{name}.{field}"]) for field in _GROUPS[name]}

    return {
        "content": Text(**group("content")),
        "postings": Postings(**group("postings")),
        "names": Text(**group("names")),
        "symbols": Symbols(**group("symbols")),
        "table": DocTable(**group("table")),
    }


BRANCHES = "branches"  # the section of a part outside its segment


@dataclass(frozen=True, slots=True)
class Damage:
    """A section whose checksum does not match."""

    part: int
    section: str


def checksum(array: Array) -> int:
    # It detects damage and need not resist an attacker: `wire.load` validates what it receives.
    return xxhash.xxh3_64_intdigest(array.data)


def with_checksums(segment: Segment) -> Segment:
    """The segment with checksums of its current arrays."""
    return replace(segment, checksums=tuple(checksum(array) for _, array in sections(segment)))


def part_with_checksum(segment: Segment, branches: U64) -> Part:
    """A part with the checksum of its branches."""
    return Part(segment, branches, checksum(branches))


def verify(index: Index) -> list[Damage]:
    """The damaged sections. A section without a checksum counts as damaged."""
    return [Damage(number, section) for number, part in enumerate(index.parts) for section in _damaged_sections(part)]


def _damaged_sections(part: Part) -> list[str]:
    expected = part.segment.checksums or (None,) * len(SECTIONS)
    found = zip(sections(part.segment), expected, strict=True)
    damaged = [name for (name, array), known in found if checksum(array) != known]
    return damaged if checksum(part.branches) == part.checksum else [*damaged, BRANCHES]


OBJECTS = "objects"  # everything but arrays
_TRACKING_BYTES = 16  # the garbage collector's header of a container, which __sizeof__ does not count


def memory_bytes(index: Index) -> int:
    """The memory freed by dropping this index if no other index shares a segment with it."""
    return sum(section_bytes(index).values())


def text_bytes(index: Index) -> int:
    """The size of the indexed text, including deleted documents."""
    return sum(part.segment.content.data.nbytes for part in index.parts)


def section_bytes(index: Index) -> dict[str, int]:
    """Memory by section, over all segments."""
    table = dict.fromkeys([*SECTIONS, BRANCHES, OBJECTS], 0)
    seen: set[int] = set()
    for part in index.parts:
        for name, array in [*sections(part.segment), (BRANCHES, part.branches)]:
            # One array can be two sections: for names, `starts` and `block_starts` are the same.
            if id(array) not in seen:
                seen.add(id(array))
                table[name] += _array_bytes(array)
    table[OBJECTS] = sum(_own_bytes(each) for each in _objects(index, seen))
    return table


def _array_bytes(array: Array) -> int:
    # A view would keep its whole base array alive.
    assert array.base is None, "an array of an index owns its memory"
    return array.__sizeof__()


def _own_bytes(thing: object) -> int:
    is_container = not isinstance(thing, str | bytes | int | float)
    return thing.__sizeof__() + (_TRACKING_BYTES if is_container else 0)


def _objects(thing: Any, seen: set[int]) -> Iterator[object]:
    """The object and all objects it refers to except arrays, each once."""
    if thing is None or isinstance(thing, np.ndarray | bool) or id(thing) in seen:
        return
    seen.add(id(thing))
    yield thing
    # Every type that an index consists of, and no others: an index holds no foreign objects.
    if is_dataclass(thing):
        inner = [getattr(thing, field.name) for field in fields(thing)]
    elif isinstance(thing, msgspec.Struct):
        inner = [getattr(thing, name) for name in thing.__struct_fields__]
    elif isinstance(thing, dict):
        inner = [*thing.keys(), *thing.values()]
    else:
        inner = list(thing) if isinstance(thing, tuple) else []
    for each in inner:
        yield from _objects(each, seen)
