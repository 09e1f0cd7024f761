"""The controller's record of one repository that this node holds.

All slots of a unit share one index in memory, so there is one record per repository name.
"""

from dataclasses import dataclass
from enum import Enum

from argosy.ownership.model import Unit
from argosy.search.fleet.events import IndexStats
from argosy.search.fleet.model import RepoSpec
from argosy.search.model import Branch


class JobStage(Enum):
    """Progress of an index job."""

    WAITING = "waiting"  # queued
    RESTORING = "restoring"  # from a snapshot on local disk
    RECEIVING = "receiving"  # from another node
    FETCHING = "fetching"
    FETCHED = "fetched"  # queued for a build
    BUILDING = "building"


@dataclass
class IndexJob:
    """An index being obtained."""

    number: int
    spec: RepoSpec  # as of the start of the job
    since: float  # queued since
    stage: JobStage = JobStage.WAITING
    can_restore: bool = False  # tried first; then `sibling`; then the origin
    sibling: str | None = None
    is_full_rebuild: bool = False  # reuses nothing of the loaded index
    heads: tuple[Branch, ...] | None = None  # commits at the origin when the new commit was detected


@dataclass(frozen=True)
class LoadedIndex:
    """An index in memory that is being served."""

    stats: IndexStats
    spec: RepoSpec  # the spec it was built for
    at: float
    origin_heads: tuple[Branch, ...] | None = None  # the origin's version, where the index names branches differently


@dataclass
class HeldRepo:
    """One repository of this node."""

    unit: Unit  # the slot gained last
    spec: RepoSpec | None
    claim_latency_s: float = 0.0
    loaded: LoadedIndex | None = None
    job: IndexJob | None = None
    origin_check: int | None = None  # number of the check under way
    verification: int | None = None  # number of the verification under way
    is_admitted: bool = False  # ownership knows that the repository can be served
    is_leaving: bool = False  # given up; the release of the lease is under way
    has_pending_push: bool = False  # a push arrived after the last origin check began
    is_full_rebuild: bool = False  # an operator requested a reindex that reuses nothing
    ready_at: float = 0.0  # when the first index was loaded
    failures: int = 0  # consecutive
    reason: str = ""  # of the last failure

    @property
    def name(self) -> str:
        return self.unit.name

    @property
    def memory_bytes(self) -> int:
        return 0 if self.loaded is None else self.loaded.stats.memory_bytes

    def needs_index(self) -> bool:
        """Whether a new index is needed whatever commit the origin has."""
        if self.spec is None:
            return False
        return self.loaded is None or self.is_full_rebuild or not is_same_source(self.loaded.spec, self.spec)

    def has(self, heads: tuple[Branch, ...]) -> bool:
        """Whether the loaded index is of these commits."""
        # Either of the two: the index of a directory names its branches differently from its origin.
        return self.loaded is not None and heads in (self.loaded.stats.branches, self.loaded.origin_heads)


def is_same_source(one: RepoSpec, other: RepoSpec) -> bool:
    return (one.url, one.branches) == (other.url, other.branches)


def has_other_branch_names(heads: tuple[Branch, ...] | None, branches: tuple[Branch, ...]) -> bool:
    """Whether the origin's heads cannot be compared with the branches of the index.

    A directory without git has no commits, so its version at the origin does not appear in the index. Where both name
    the same branches they are comparable, and an index of a later commit than the check found is simply newer.
    """
    return heads is not None and {each.name for each in heads} != {each.name for each in branches}
