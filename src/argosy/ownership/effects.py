"""The orders a node's machines give; `service` carries them out."""

from dataclasses import dataclass

from argosy.ownership.model import LeaseState, Role, Session, Unit


@dataclass(frozen=True)
class OpenSession:
    role: Role


@dataclass(frozen=True)
class RenewSession:
    session: Session


@dataclass(frozen=True)
class EndSession:
    session: Session


@dataclass(frozen=True)
class Announce:
    """Tell the fleet whether this node would take one more unit, and how full it is."""

    session: Session
    is_bidding: bool
    held_bytes: int
    free_bytes: int


@dataclass(frozen=True)
class PlaceBid:
    session: Session
    unit: Unit
    reserved_bytes: int  # won and not yet in memory: taken off what is measured as free
    min_bytes: int
    max_bids: int | None


@dataclass(frozen=True)
class CloseAuction:
    unit: Unit


@dataclass(frozen=True)
class Claim:
    session: Session
    unit: Unit


@dataclass(frozen=True)
class Warm:
    unit: Unit
    epoch: int


@dataclass(frozen=True)
class Drop:
    unit: Unit


@dataclass(frozen=True)
class SetState:
    session: Session
    unit: Unit
    epoch: int
    state: LeaseState


@dataclass(frozen=True)
class Release:
    session: Session
    unit: Unit
    epoch: int


@dataclass(frozen=True)
class HandOver:
    session: Session
    unit: Unit
    epoch: int
    to: Unit


@dataclass(frozen=True)
class Sweep:
    """End what has expired, and measure the memory that is free."""


@dataclass(frozen=True)
class ReadCatalog:
    """Ask what should be held."""


@dataclass(frozen=True)
class ServingStarted:
    """From now until `until` (local time, growing with each renewal) this node alone may answer for the unit."""

    unit: Unit
    epoch: int
    until: float


@dataclass(frozen=True)
class ServingExtended:
    """Every unit being served may be served until this later time."""

    until: float


@dataclass(frozen=True)
class ServingStopped:
    unit: Unit
    epoch: int


@dataclass(frozen=True)
class Left:
    """This node has drained and has no session left to end: it may go."""


@dataclass(frozen=True)
class GiveUp:
    """This node cannot take part: its id is in use elsewhere."""

    why: str


ServingChange = ServingStarted | ServingExtended | ServingStopped

Effect = (
    OpenSession
    | RenewSession
    | EndSession
    | Announce
    | PlaceBid
    | CloseAuction
    | Claim
    | Warm
    | Drop
    | SetState
    | Release
    | HandOver
    | Sweep
    | ReadCatalog
    | ServingStarted
    | ServingExtended
    | ServingStopped
    | Left
    | GiveUp
)
