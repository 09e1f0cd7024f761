"""What a node knows of one repository it holds: what is wished, what is kept, and what is being made.

All slots of a unit are one thing in memory, so there is one volume for a name.
"""

from dataclasses import dataclass
from enum import Enum

from argosy.ownership.model import Unit
from argosy.search.fleet.events import IndexStats
from argosy.search.fleet.model import RepoSpec
from argosy.search.model import Branch


class Stage(Enum):
    """How far the making of an index is."""

    WAITING = "waiting"  # in line
    RESTORING = "restoring"  # from this machine's disk
    RECEIVING = "receiving"  # from another node
    FETCHING = "fetching"
    FETCHED = "fetched"  # in line for a build
    BUILDING = "building"


@dataclass
class IndexJob:
    """An index on its way."""

    number: int
    spec: RepoSpec  # as it was when this began
    since: float  # in line since
    stage: Stage = Stage.WAITING
    can_restore: bool = False  # ways that are tried before the origin
    sibling: str | None = None
    is_anew: bool = False  # shares nothing with the index that is kept
    heads: tuple[Branch, ...] | None = None  # where the branches stood when something new was seen


@dataclass(frozen=True)
class LoadedIndex:
    """An index on the shelf."""

    figures: IndexStats
    spec: RepoSpec  # what it was made for
    at: float
    same_as: tuple[Branch, ...] | None = None  # what the origin calls it, where that is spelled differently


@dataclass
class HeldRepo:
    """One repository of this node."""

    unit: Unit  # the slot gained last
    spec: RepoSpec | None
    claim_latency_s: float = 0.0
    kept: LoadedIndex | None = None
    making: IndexJob | None = None
    look: int | None = None  # the number of the look under way
    check: int | None = None
    is_admitted: bool = False  # ownership knows that it can be served
    is_leaving: bool = False  # given up; the lease is on its way out
    is_told: bool = False  # new commits were announced after the last look began
    is_anew: bool = False  # somebody asked for an index that shares nothing with this one
    ready_at: float = 0.0  # since when there is an index, be it renewed or not
    failures: int = 0  # in a row
    reason: str = ""  # of the last one

    @property
    def name(self) -> str:
        return self.unit.name

    @property
    def memory_bytes(self) -> int:
        return 0 if self.kept is None else self.kept.figures.memory_bytes

    def needs_making(self) -> bool:
        """Whether what is kept is not what is wished for, whatever the origin has."""
        if self.spec is None:
            return False
        return self.kept is None or self.is_anew or not is_same_place(self.kept.spec, self.spec)

    def has(self, heads: tuple[Branch, ...]) -> bool:
        """Whether the index is of these commits."""
        return self.kept is not None and heads in (self.kept.figures.branches, self.kept.same_as)


def is_same_place(one: RepoSpec, other: RepoSpec) -> bool:
    return (one.url, one.branches) == (other.url, other.branches)


def spelled_differently(heads: tuple[Branch, ...] | None, branches: tuple[Branch, ...]) -> bool:
    """A folder has no commits, and the origin's word for its state is not found in the index. Where both name the same
    branches they can be compared, and an index that is newer than the look that led to it is just that."""
    return heads is not None and {each.name for each in heads} != {each.name for each in branches}
