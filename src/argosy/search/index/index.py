"""The index of a repository: segments, and for each the branches of its documents.

A document on no branch is deleted: it stays in the arrays of its segment until the next full rebuild, and no search
returns it. So a new version of the repository shares the segments of the old one and adds what changed.
"""

from dataclasses import dataclass

from argosy.search.arrays import U64
from argosy.search.index.segment import Segment
from argosy.search.model import Repository


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A segment and the branches of its documents in one version of the repository."""

    segment: Segment
    branches: U64  # per document: bit i is the i-th branch of the repository; 0: deleted
    checksum: int | None = None  # of `branches`, computed at build time


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """A searchable repository."""

    repository: Repository
    parts: tuple[Part, ...]
    recipe: str = ""  # the build settings: an incremental build reuses only an index with the same recipe
