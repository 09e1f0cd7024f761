"""Checksums of an index: made when it is built, kept with it, compared whenever memory is doubted.

An index lives in memory for weeks and travels between nodes; a flipped bit would silently lose or invent matches. Each
section has its own checksum (XXH3, 64 bits), so that damage is named by its place.
"""

from dataclasses import dataclass, fields

import xxhash

from argosy.search.index.index import Index, Part
from argosy.search.index.sections import Array, sections
from argosy.search.index.segment import U64, Segment

BRANCHES = "branches"                   # the section of a part that is not its segment's


@dataclass(frozen=True, slots=True, eq=False)
class SealedSegment(Segment):
    """A segment with its sections' checksums, in the order of SECTIONS."""

    checksums: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class SealedPart(Part):
    """A part with the checksum of its branches."""

    checksum: int


@dataclass(frozen=True, slots=True)
class Damage:
    """A section that is not what was built."""

    part: int
    section: str


def checksum(array: Array) -> int:
    return xxhash.xxh3_64_intdigest(array.data)


def sealed(segment: Segment) -> SealedSegment:
    """The segment with the checksums of what it holds now."""
    values = {field.name: getattr(segment, field.name) for field in fields(Segment)}
    return SealedSegment(**values, checksums=tuple(checksum(array) for _, array in sections(segment)))


def sealed_part(segment: Segment, branches: U64) -> SealedPart:
    """A part with the checksum of the branches it has now."""
    return SealedPart(segment, branches, checksum(branches))


def verify(index: Index) -> list[Damage]:
    """Every section that is damaged; none is what one hopes for. An index that was not built or loaded here has no
    checksums, and all of it counts as damaged."""
    return [Damage(number, section) for number, part in enumerate(index.parts) for section in _damaged(part)]


def _damaged(part: Part) -> list[str]:
    segment = part.segment
    expected = segment.checksums if isinstance(segment, SealedSegment) else ()
    found = dict(sections(segment))
    names = list(found)
    damaged = [
        name
        for number, name in enumerate(names)
        if number >= len(expected) or checksum(found[name]) != expected[number]
    ]
    if not isinstance(part, SealedPart) or checksum(part.branches) != part.checksum:
        damaged.append(BRANCHES)
    return damaged
