"""One repository's index: segments, and for each the branches its documents are on.

A document on no branch is dead: it stays in the segment's arrays until the next full build and is never seen. So a new
version of the repository shares every segment with the old one and adds what changed.
"""

from dataclasses import dataclass

from argosy.search.index.segment import U64, Segment
from argosy.search.model import Repository


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A segment as one version of the repository sees it."""

    segment: Segment
    branches: U64  # per document: bit i is the i-th branch of the repository; 0 is dead
    checksum: int | None = None  # of the branches when they were made


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """A repository, searchable."""

    repository: Repository
    parts: tuple[Part, ...]
    recipe: str = ""  # how it was made: only an index of the same recipe can be renewed from it
