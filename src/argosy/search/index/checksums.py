"""Checksums of an index: computed at build time, stored with it, and compared periodically and after a transfer.

An index stays in memory for weeks and is sent between nodes; a flipped bit would silently lose or invent matches. Each
section has a checksum of its own (XXH3, 64 bits), so that damage can be located.
"""

from dataclasses import dataclass, replace

import xxhash

from argosy.search.arrays import U64
from argosy.search.index.index import Index, Part
from argosy.search.index.sections import SECTIONS, Array, sections
from argosy.search.index.segment import Segment

BRANCHES = "branches"  # the section of a part outside its segment


@dataclass(frozen=True, slots=True)
class Damage:
    """A section whose checksum does not match."""

    part: int
    section: str


def checksum(array: Array) -> int:
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
