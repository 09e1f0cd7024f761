"""Events of the index controller: facts, in the past tense.

Every effect that starts work carries a number, and the event that ends it carries the same one, so that the late result
of work that was cancelled meanwhile is recognised. Each such effect is answered by exactly one event.
"""

from dataclasses import dataclass

from argosy.ownership.model import Unit
from argosy.search.fleet.model import RepoSpec
from argosy.search.model import Branch


@dataclass(frozen=True)
class IndexStats:
    """Size and contents of a finished index."""

    memory_bytes: int
    branches: tuple[Branch, ...] = ()
    documents: int = 0
    content_bytes: int = 0
    fetch_time_ms: float = 0.0
    index_time_ms: float = 0.0


@dataclass(frozen=True)
class UnitGained:
    """This node holds the lease of a slot. `sibling` is the address of a node with a ready index, if there is one."""

    unit: Unit
    spec: RepoSpec | None
    sibling: str | None = None
    claim_latency_s: float = 0.0


@dataclass(frozen=True)
class UnitLost:
    """The node no longer serves the repository and holds no slot of this name."""

    name: str


@dataclass(frozen=True)
class SpecChanged:
    """The catalog entry changed; None: it was removed."""

    name: str
    spec: RepoSpec | None


@dataclass(frozen=True)
class PushReceived:
    """A push notification for the repository arrived."""

    name: str


@dataclass(frozen=True)
class OriginChecked:
    """The commits of the branches at the origin."""

    number: int
    branches: tuple[Branch, ...]


@dataclass(frozen=True)
class OriginCheckFailed:
    number: int
    reason: str


@dataclass(frozen=True)
class SourceFetched:
    """The repository is on local disk and can be read."""

    number: int


@dataclass(frozen=True)
class IndexProvisioned:
    """An index was built, received or restored. The provisioner keeps it until it is loaded or discarded."""

    number: int
    stats: IndexStats


@dataclass(frozen=True)
class ProvisionFailed:
    number: int
    reason: str


@dataclass(frozen=True)
class ProvisionStopped:
    """Cancelled work has ended and no longer occupies a slot."""

    number: int


@dataclass(frozen=True)
class IndexVerified:
    """The checksums of an index were verified."""

    number: int
    is_sound: bool


Event = (
    UnitGained
    | UnitLost
    | SpecChanged
    | PushReceived
    | OriginChecked
    | OriginCheckFailed
    | SourceFetched
    | IndexProvisioned
    | ProvisionFailed
    | ProvisionStopped
    | IndexVerified
)
