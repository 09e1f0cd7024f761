"""The input of an index: entries of a repository, their content, and reasons to skip content."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, IntFlag
from typing import Protocol, TypeAlias

from argosy.search.model import Repository

DOCUMENT_BYTES_MAX = 128 << 20  # hard limit: the blocks of a file must fit one segment, and positions are 32 bits


class EntryKind(Enum):
    FILE = "file"
    SYMLINK = "symlink"  # never followed; found by name only
    SUBMODULE = "submodule"  # a reference to another repository


# The text is shown to users as the reason, so it completes "not indexed: ".
class SkipReason(Enum):
    """Why only the name of a file is indexed. Append only: indexes store the position."""

    NONE = ""
    TOO_LARGE = "larger than the size limit"
    BINARY = "binary"
    TOO_MANY_TRIGRAMS = "too many distinct trigrams"
    MISSING = "its content is not in this clone"
    UNREADABLE = "it could not be read"
    SYMLINK = "a symbolic link"
    SUBMODULE = "a submodule"


# Flags, because a file can be several, such as a test in vendored code.
class Category(IntFlag):
    """The kind of a file, for ranking."""

    CODE = 0
    TEST = 1
    VENDORED = 2
    GENERATED = 4
    DOCUMENTATION = 8
    CONFIGURATION = 16


@dataclass(frozen=True, slots=True)
class Entry:
    """A path with a content, on all branches where both are the same."""

    path: bytes  # as in git: separated by '/', without NUL
    blob_id: bytes  # identifies the content: equal ids, equal bytes
    size_bytes: int
    branches: int = 1  # bit i: on the i-th branch of the repository
    kind: EntryKind = EntryKind.FILE


@dataclass(frozen=True, slots=True)
class Definition:
    """The position of a symbol's name in a file.

    `parent` is the index of the enclosing symbol in the same list, or -1.
    """

    start: int
    length: int
    kind: str
    parent: int = -1


Content: TypeAlias = bytes | SkipReason


class Source(Protocol):
    """A repository or directory that can be indexed."""

    @property
    def repository(self) -> Repository: ...

    def entries(self) -> Sequence[Entry]:
        """All files on the selected branches except ignored ones, ordered by path."""
        ...

    def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
        """The content of each entry, in order, or the reason why there is none. Reads only FILE entries."""
        ...


# (bytes done, total bytes): called periodically during a build.
Progress: TypeAlias = Callable[[int, int], None]
