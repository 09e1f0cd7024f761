"""The query tree: the output of the parser and the input of every searcher.

A leaf is a condition on one document or on one repository; its case sensitivity is already decided. Nodes are values:
equal queries compare equal, so they can share a cache entry.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Scope(Enum):
    """Where a text is searched."""

    ANY = "any"  # in the content, or in the file name of a file whose content does not match
    CONTENT = "content"
    FILE_NAME = "file"


class ResultKind(Enum):
    """What `type:` selects, from the most to the least detailed result."""

    FILE_MATCH = "filematch"
    FILE_NAME = "filename"
    REPO = "repo"


@dataclass(frozen=True, slots=True)
class Const:
    """Every document (true) or none (false)."""

    value: bool


@dataclass(frozen=True, slots=True)
class Substring:
    """Contains this text, byte for byte or up to Unicode simple case folding."""

    text: str
    is_case_sensitive: bool = False
    scope: Scope = Scope.ANY


@dataclass(frozen=True, slots=True)
class Regexp:
    """Matches this RE2 pattern; `^` and `$` are line anchors, `.` does not match a newline."""

    pattern: str
    is_case_sensitive: bool = False
    scope: Scope = Scope.ANY


@dataclass(frozen=True, slots=True)
class Symbol:
    """The name of a definition in the file matches; `^` and `$` are the ends of the name."""

    name: Substring | Regexp


@dataclass(frozen=True, slots=True)
class Language:
    """The file is written in this language, by its canonical name; None is an unknown language."""

    name: str | None


@dataclass(frozen=True, slots=True)
class Repo:
    """The repository's name matches this RE2 pattern, case-sensitively."""

    pattern: str


@dataclass(frozen=True, slots=True)
class RepoSet:
    """The repository is one of these."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class RepoIds:
    """The repository's number is one of these."""

    ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class Alias:
    """The repository has this alias."""

    name: str


@dataclass(frozen=True, slots=True)
class OnBranch:
    """The file is on a branch whose name contains this text (or equals it); HEAD is the first branch."""

    name: str
    is_exact: bool = False


@dataclass(frozen=True, slots=True)
class BranchesRepos:
    """For one of the pairs, the file is on exactly this branch of one of these repositories."""

    pairs: tuple[tuple[str, frozenset[int]], ...]


@dataclass(frozen=True, slots=True)
class FileNameSet:
    """The file's path is one of these."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Flag:
    """The repository's `archived`, `fork` or `public` has this value; an unknown one counts as false."""

    name: str
    value: bool


@dataclass(frozen=True, slots=True)
class Meta:
    """The value of this name in the repository's metadata matches the RE2 pattern; a missing one does not."""

    name: str
    pattern: str


@dataclass(frozen=True, slots=True)
class And:
    children: "tuple[Query, ...]"


@dataclass(frozen=True, slots=True)
class Or:
    children: "tuple[Query, ...]"


@dataclass(frozen=True, slots=True)
class Not:
    child: "Query"


@dataclass(frozen=True, slots=True)
class Type:
    """The child's matches, shown as `kind`; as part of a larger query, REPO means: in a repository with a match."""

    kind: ResultKind
    child: "Query"


@dataclass(frozen=True, slots=True)
class Boost:
    """The child, with its matches' scores multiplied."""

    child: "Query"
    factor: float


Query: TypeAlias = (
    Const | Substring | Regexp | Symbol | Language | Repo | RepoSet | RepoIds | Alias | OnBranch | BranchesRepos
    | FileNameSet | Flag | Meta | And | Or | Not | Type | Boost
)  # fmt: skip

TRUE = Const(True)
FALSE = Const(False)
