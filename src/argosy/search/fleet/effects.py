"""The orders a node's library gives; `service` carries them out."""

from dataclasses import dataclass

from argosy.search.fleet.model import RepoSpec


@dataclass(frozen=True)
class CheckOrigin:
    """Ask the origin where the wished branches stand."""

    number: int
    spec: RepoSpec


@dataclass(frozen=True)
class Restore:
    """Take the index from this machine's disk, if it is what the origin has now."""

    number: int
    spec: RepoSpec


@dataclass(frozen=True)
class Receive:
    """Take the finished index from another node."""

    number: int
    spec: RepoSpec
    address: str


@dataclass(frozen=True)
class Fetch:
    """Bring the repository here, and keep it readable until its index is made."""

    number: int
    spec: RepoSpec


@dataclass(frozen=True)
class Build:
    """Make the index of what was fetched under this number; a renewal shares what has not changed with the old one."""

    number: int
    is_renewal: bool


@dataclass(frozen=True)
class Stop:
    """Give up what is being made under this number."""

    number: int


@dataclass(frozen=True)
class Put:
    """On the shelf with the index made under this number, in place of the one there."""

    number: int
    name: str


@dataclass(frozen=True)
class Discard:
    """Throw away the index made under this number."""

    number: int


@dataclass(frozen=True)
class Withdraw:
    """Off the shelf at once. `is_unwanted`: nobody wishes for the repository any more."""

    name: str
    is_unwanted: bool = False


@dataclass(frozen=True)
class Forget:
    """The repository is no longer this node's business: off the shelf, and all that is kept about it."""

    name: str


@dataclass(frozen=True)
class Admit:
    """The repository can be served: tell whoever waits for it."""

    name: str
    memory_bytes: int


@dataclass(frozen=True)
class Refuse:
    """The repository cannot be made ready: tell whoever waits for it."""

    name: str
    reason: str


@dataclass(frozen=True)
class Release:
    """Give up the lease: another node may do better."""

    name: str
    reason: str
    is_eviction: bool


@dataclass(frozen=True)
class VerifyIndex:
    """Compare the index on the shelf with its checksums."""

    number: int
    name: str


@dataclass(frozen=True)
class Save:
    """Keep a copy of the index on this machine's disk."""

    name: str


@dataclass(frozen=True)
class NoteIndexed:
    """Write into the catalog what the index is of and what it takes, and after that why it failed, if it did."""

    name: str
    commit: str
    footprint_bytes: int
    but: str | None = None


@dataclass(frozen=True)
class NoteFailed:
    name: str
    reason: str


Effect = (
    CheckOrigin
    | Restore
    | Receive
    | Fetch
    | Build
    | Stop
    | Put
    | Discard
    | Withdraw
    | Forget
    | Admit
    | Refuse
    | Release
    | VerifyIndex
    | Save
    | NoteIndexed
    | NoteFailed
)
