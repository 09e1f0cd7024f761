"""Effects that a node's state machines return; `node_service` performs them."""

from dataclasses import dataclass

from argosy.ownership.model import LeaseState, Session, SessionRole, Unit


@dataclass(frozen=True)
class OpenSession:
    role: SessionRole


@dataclass(frozen=True)
class RenewSession:
    session: Session


@dataclass(frozen=True)
class EndSession:
    session: Session


@dataclass(frozen=True)
class AnnounceMember:
    """Announce whether this node would accept one more unit, and its memory use."""

    session: Session
    is_bidding: bool
    held_bytes: int
    free_bytes: int


@dataclass(frozen=True)
class PlaceBid:
    session: Session
    unit: Unit
    reserved_bytes: int  # won and not yet loaded: subtracted from the measured free bytes
    min_bytes: int
    max_bids: int | None


@dataclass(frozen=True)
class CloseAuction:
    unit: Unit


@dataclass(frozen=True)
class ClaimLease:
    session: Session
    unit: Unit


@dataclass(frozen=True)
class WarmUnit:
    unit: Unit
    epoch: int


@dataclass(frozen=True)
class DropUnit:
    unit: Unit


@dataclass(frozen=True)
class SetLeaseState:
    session: Session
    unit: Unit
    epoch: int
    state: LeaseState


@dataclass(frozen=True)
class ReleaseLease:
    session: Session
    unit: Unit
    epoch: int


@dataclass(frozen=True)
class HandOffLease:
    session: Session
    unit: Unit
    epoch: int
    to: Unit


@dataclass(frozen=True)
class SweepSessions:
    """End expired sessions, and measure free memory."""


@dataclass(frozen=True)
class ReadCatalog:
    """Read the desired units."""


# The three serving changes are past tense because they are also published to observers (`OwnershipNode.observers`).


@dataclass(frozen=True)
class ServingStarted:
    """From now until `until` (local time, extended by each renewal) only this node may serve the unit."""

    unit: Unit
    epoch: int
    until: float


@dataclass(frozen=True)
class ServingExtended:
    """All units being served may be served until this later time."""

    until: float


@dataclass(frozen=True)
class ServingStopped:
    unit: Unit
    epoch: int


@dataclass(frozen=True)
class Exit:
    """Stop: the node has drained and has no session left to end."""


@dataclass(frozen=True)
class Abort:
    """Stop with an error: another process uses this node id."""

    reason: str


ServingChange = ServingStarted | ServingExtended | ServingStopped

Effect = (
    OpenSession
    | RenewSession
    | EndSession
    | AnnounceMember
    | PlaceBid
    | CloseAuction
    | ClaimLease
    | WarmUnit
    | DropUnit
    | SetLeaseState
    | ReleaseLease
    | HandOffLease
    | SweepSessions
    | ReadCatalog
    | ServingStarted
    | ServingExtended
    | ServingStopped
    | Exit
    | Abort
)
