"""Effects of the index controller; `service.SearchNode` performs them."""

from dataclasses import dataclass

from argosy.search.fleet.model import RepoSpec


@dataclass(frozen=True)
class CheckOrigin:
    """List the branches at the origin (`git ls-remote`)."""

    number: int
    spec: RepoSpec


@dataclass(frozen=True)
class Restore:
    """Load the index from a snapshot on local disk, if it is of the commits the origin has now."""

    number: int
    spec: RepoSpec


@dataclass(frozen=True)
class Receive:
    """Stream the finished index from another node."""

    number: int
    spec: RepoSpec
    address: str


@dataclass(frozen=True)
class Fetch:
    """Fetch the repository and keep it readable until its index is built."""

    number: int
    spec: RepoSpec


@dataclass(frozen=True)
class Build:
    """Build the index of the source fetched under this number. An incremental build reuses unchanged segments of the
    loaded index."""

    number: int
    is_incremental: bool


@dataclass(frozen=True)
class Stop:
    """Cancel the work with this number."""

    number: int


@dataclass(frozen=True)
class LoadIndex:
    """Serve the index provisioned under this number, in place of the loaded one."""

    number: int
    name: str


@dataclass(frozen=True)
class DiscardIndex:
    """Drop the index provisioned under this number."""

    number: int


@dataclass(frozen=True)
class UnloadIndex:
    """Stop serving the index at once. `is_removed`: the repository was removed from the catalog, so its snapshot is
    deleted, too."""

    name: str
    is_removed: bool = False


@dataclass(frozen=True)
class Forget:
    """Stop serving the index and drop all state of the repository: this node no longer holds it."""

    name: str


@dataclass(frozen=True)
class Admit:
    """The repository can be served: complete the pending `warm` calls."""

    name: str
    memory_bytes: int


@dataclass(frozen=True)
class Refuse:
    """The repository cannot be served: fail the pending `warm` calls."""

    name: str
    reason: str


@dataclass(frozen=True)
class Release:
    """Release the lease, so that another node can take the unit."""

    name: str
    reason: str
    is_eviction: bool


@dataclass(frozen=True)
class VerifyIndex:
    """Verify the checksums of the loaded index."""

    number: int
    name: str


@dataclass(frozen=True)
class Save:
    """Write a snapshot of the index to local disk."""

    name: str


@dataclass(frozen=True)
class RecordIndexed:
    """Record commit and size of the index in the catalog, and after that the failure, if there was one."""

    name: str
    commit: str
    footprint_bytes: int
    failure: str | None = None


@dataclass(frozen=True)
class RecordFailure:
    name: str
    reason: str


Effect = (
    CheckOrigin
    | Restore
    | Receive
    | Fetch
    | Build
    | Stop
    | LoadIndex
    | DiscardIndex
    | UnloadIndex
    | Forget
    | Admit
    | Refuse
    | Release
    | VerifyIndex
    | Save
    | RecordIndexed
    | RecordFailure
)
