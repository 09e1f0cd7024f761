"""What an index is made of, before it is one: the entries of a repository, and why some stay without content."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, IntFlag
from typing import Protocol, TypeAlias

from argosy.search.model import Repository

DOCUMENT_BYTES_MAX = 128 << 20  # no rule lets a larger file in: its blocks must fit one segment


class EntryKind(Enum):
    FILE = "file"
    SYMLINK = "symlink"  # never followed; its name can be found
    SUBMODULE = "submodule"  # another repository's place


class SkipReason(Enum):
    """Why a file's name is indexed and its content is not. The order is kept: the number goes into the index."""

    NONE = ""
    TOO_LARGE = "larger than the size limit"
    BINARY = "binary"
    TOO_MANY_TRIGRAMS = "too many distinct trigrams"
    MISSING = "its content is not in this clone"
    UNREADABLE = "it could not be read"
    SYMLINK = "a symbolic link"
    SUBMODULE = "a submodule"


class Category(IntFlag):
    """What kind of file it is, as far as ranking cares."""

    CODE = 0
    TEST = 1
    VENDORED = 2
    GENERATED = 4
    DOCUMENTATION = 8
    CONFIGURATION = 16


@dataclass(frozen=True, slots=True)
class Entry:
    """One path with one content; on several branches if the content is the same there."""

    path: bytes  # as git has it: '/' separated, no NUL
    blob_id: bytes  # names the content: equal ids, equal bytes
    size_bytes: int
    branches: int = 1  # bit i: it is on the i-th branch of the repository
    kind: EntryKind = EntryKind.FILE


@dataclass(frozen=True, slots=True)
class Definition:
    """A symbol's name in a file, by its place; `parent` is the enclosing one's position in the same list, or -1."""

    start: int
    length: int
    kind: str
    parent: int = -1


Content: TypeAlias = bytes | SkipReason


class Source(Protocol):
    """A repository or folder that can be read."""

    @property
    def repository(self) -> Repository: ...

    def entries(self) -> Sequence[Entry]:
        """Everything there is on the chosen branches, ignored files left out, ordered by path."""
        ...

    def read(self, entries: Sequence[Entry]) -> Iterator[Content]:
        """The contents in the order asked for, or why there is none. Reads only FILE entries."""
        ...


# (bytes done, bytes in all): called now and then while an index is built.
Progress: TypeAlias = Callable[[int, int], None]
