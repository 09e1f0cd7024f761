"""What a node's library learns: facts, in the past tense.

Work that was ordered is answered under the number it was ordered with, so that a late answer about work that was given
up meanwhile is recognised. Every order is answered exactly once.
"""

from dataclasses import dataclass

from argosy.ownership.model import Unit
from argosy.search.fleet.model import RepoSpec
from argosy.search.model import Branch


@dataclass(frozen=True)
class IndexStats:
    """What a finished index weighs and holds."""

    memory_bytes: int
    branches: tuple[Branch, ...] = ()
    documents: int = 0
    content_bytes: int = 0
    fetch_time_ms: float = 0.0
    index_time_ms: float = 0.0


@dataclass(frozen=True)
class UnitGained:
    """This node has the lease of a slot; `sibling` is the address of a node that has the finished index, if any."""

    unit: Unit
    spec: RepoSpec | None
    sibling: str | None = None
    claim_latency_s: float = 0.0


@dataclass(frozen=True)
class UnitLost:
    """Serving has stopped and no slot of this name is held any more."""

    name: str


@dataclass(frozen=True)
class SpecChanged:
    """The catalog now says this of a repository; None: it is wished for no more."""

    name: str
    spec: RepoSpec | None


@dataclass(frozen=True)
class PushReceived:
    """Somebody said that a repository has new commits."""

    name: str


@dataclass(frozen=True)
class OriginChecked:
    """Where the branches stand at the origin."""

    number: int
    branches: tuple[Branch, ...]


@dataclass(frozen=True)
class OriginCheckFailed:
    number: int
    reason: str


@dataclass(frozen=True)
class Fetched:
    """The repository is on this machine and can be read."""

    number: int


@dataclass(frozen=True)
class IndexProvisioned:
    """An index is finished: built, received or restored. It waits to be put on the shelf or to be thrown away."""

    number: int
    figures: IndexStats


@dataclass(frozen=True)
class ProvisionFailed:
    number: int
    reason: str


@dataclass(frozen=True)
class ProvisionStopped:
    """What was given up has come to its end, and takes nobody's place any more."""

    number: int


@dataclass(frozen=True)
class IndexVerified:
    """An index was compared with its checksums."""

    number: int
    is_sound: bool


Event = (
    UnitGained
    | UnitLost
    | SpecChanged
    | PushReceived
    | OriginChecked
    | OriginCheckFailed
    | Fetched
    | IndexProvisioned
    | ProvisionFailed
    | ProvisionStopped
    | IndexVerified
)
