"""Checksums of an index: made when it is built, kept with it, compared whenever memory is doubted.

An index lives in memory for weeks and travels between nodes; a flipped bit would silently lose or invent matches. Each
section has its own checksum (XXH3, 64 bits), so that damage is named by its place.
"""

from dataclasses import dataclass, replace

import xxhash

from argosy.search.index.index import Index, Part
from argosy.search.index.sections import SECTIONS, Array, sections
from argosy.search.index.segment import U64, Segment

BRANCHES = "branches"  # the section of a part that is not its segment's


@dataclass(frozen=True, slots=True)
class Damage:
    """A section that is not what was built."""

    part: int
    section: str


def checksum(array: Array) -> int:
    return xxhash.xxh3_64_intdigest(array.data)


def sealed(segment: Segment) -> Segment:
    """The segment with the checksums of what it holds now."""
    return replace(segment, checksums=tuple(checksum(array) for _, array in sections(segment)))


def sealed_part(segment: Segment, branches: U64) -> Part:
    """A part with the checksum of the branches it has now."""
    return Part(segment, branches, checksum(branches))


def verify(index: Index) -> list[Damage]:
    """Every section that is damaged; none is what one hopes for. What never had checksums counts as damaged."""
    return [Damage(number, section) for number, part in enumerate(index.parts) for section in _damaged(part)]


def _damaged(part: Part) -> list[str]:
    expected = part.segment.checksums or (None,) * len(SECTIONS)
    found = zip(sections(part.segment), expected, strict=True)
    damaged = [name for (name, array), known in found if checksum(array) != known]
    return damaged if checksum(part.branches) == part.checksum else [*damaged, BRANCHES]
