"""The nouns of ownership: units, sessions, leases, members, auctions.

A node keeps two *sessions* with the store, each a promise with a time to live that it renews. The *holder* session
carries all its leases: they stand as long as it does, and fall together. The *member* session says "give me work" and
nothing more, so a node can leave the ring or the bidding first and let go of its leases afterwards.

A lease's expiry is therefore its holder session's expiry, and its **epoch** is its fencing token: each new lease of a
unit has a greater epoch than any before it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from argosy.base.errors import Invalid

UNIT_NAME_MAX = 1024  # characters; long enough for a clone URL with a branch
NODE_ID_MAX = 200  # characters; a host name with a suffix
BIDS_MAX = 100  # bids one auction takes before it closes; an etcd transaction carries 128 operations

PRIMARY = 0  # the slot that answers for a unit; replicas are 1, 2, …
SUCCESSOR = -1  # the slot of the node that will take over from a draining primary
REPLICAS_MAX = 8  # replica slots of one unit; stores look at all siblings when they grant one


def checked_name(what: str, text: str, length_max: int) -> str:
    """Any printable text will do as an identity; control characters would break logs and keys."""
    if not text or len(text) > length_max or not text.isprintable():
        raise Invalid(f"{what} must be 1 to {length_max} printable characters, not {text[:60]!r}")
    return text


@dataclass(frozen=True, order=True)
class Unit:
    """Something one node at a time can hold: a repository, a shard, or one replica slot of it."""

    name: str
    replica: int = PRIMARY

    def __post_init__(self) -> None:
        checked_name("a unit's name", self.name, UNIT_NAME_MAX)

    @property
    def key(self) -> str:
        """How stores spell the unit. The number comes first, so that a name may contain anything."""
        return f"{self.replica}:{self.name}"

    @classmethod
    def from_key(cls, key: str) -> Self:
        replica, _, name = key.partition(":")
        return cls(name, int(replica))

    def siblings(self) -> "tuple[Unit, ...]":
        """All other slots of the same thing. One node holds one of them, else a replica would protect nobody."""
        return tuple(Unit(self.name, r) for r in range(SUCCESSOR, REPLICAS_MAX + 1) if r != self.replica)

    def __str__(self) -> str:
        return self.name if self.replica == PRIMARY else f"{self.name}~{self.replica}"


@dataclass(frozen=True)
class Space:
    """A set of units with one rule for the first lease: won at auction, or claimed by the first who comes (OWN-2)."""

    name: str
    is_auctioned: bool

    def __post_init__(self) -> None:
        # The name becomes part of a Redis hash tag and of an etcd path.
        if not self.name or not all(c.isalnum() or c in "-_." for c in self.name):
            raise Invalid(f"a space's name has letters, digits, '-', '_' and '.' only, not {self.name!r}")


class Role(StrEnum):
    """What a session promises."""

    MEMBER = "member"  # count me in: ring, bidding
    HOLDER = "holder"  # my leases stand


@dataclass(frozen=True)
class Session:
    """A node's living promise to the store. The token is unique to this run of the node, so a namesake is noticed."""

    role: Role
    node: str
    address: str
    token: str
    ttl_s: float


@dataclass(frozen=True)
class SessionInfo:
    """A session as an operator sees it."""

    role: Role
    node: str
    address: str
    expires_in_s: float


@dataclass(frozen=True)
class Member:
    """A node that takes part. `is_bidding` says that it would take one more unit just now."""

    node: str
    address: str
    is_bidding: bool = True
    started_at: float = 0.0
    capabilities: tuple[str, ...] = ()
    held_bytes: int = 0  # memory its units take, as of its last announcement
    free_bytes: int = 0  # memory it could still give

    def __post_init__(self) -> None:
        checked_name("a node id", self.node, NODE_ID_MAX)


class LeaseState(StrEnum):
    """How far the holder is with a unit."""

    WARMING = "warming"  # held, not yet able to answer
    READY = "ready"  # answers
    DRAINING = "draining"  # answers, and looks for a successor


@dataclass(frozen=True)
class Lease:
    """The one fact that makes a node the holder of a unit."""

    unit: Unit
    node: str
    address: str
    token: str
    epoch: int
    state: LeaseState

    def is_of(self, session: Session) -> bool:
        return (self.node, self.token) == (session.node, session.token)


@dataclass(frozen=True)
class UnitSpec:
    """What is wished for a unit: desire, kept by whoever keeps the catalog."""

    name: str
    footprint_bytes: int | None = None  # memory it took when last held; None while unknown
    max_bids: int | None = None  # overrides the fleet's threshold
    replicas: int = 0  # slots beside the primary

    def __post_init__(self) -> None:
        checked_name("a unit's name", self.name, UNIT_NAME_MAX)
        if not 0 <= self.replicas <= REPLICAS_MAX:
            raise Invalid(f"replicas of {self.name!r} must be 0 to {REPLICAS_MAX}, not {self.replicas}")
        if self.footprint_bytes is not None and self.footprint_bytes < 0:
            raise Invalid(f"footprint_bytes of {self.name!r} cannot be negative")
        if self.max_bids is not None and not 1 <= self.max_bids <= BIDS_MAX:
            raise Invalid(f"max_bids of {self.name!r} must be 1 to {BIDS_MAX}, not {self.max_bids}")

    def slots(self) -> tuple[Unit, ...]:
        return tuple(Unit(self.name, replica) for replica in range(self.replicas + 1))


@dataclass(frozen=True)
class Auction:
    """A running auction. The threshold was fixed when it opened: later changes never touch it."""

    unit: Unit
    id: int
    max_bids: int
    closes_in_s: float


@dataclass(frozen=True)
class Bid:
    """One node's offer: its free bytes, in the order in which the store received it."""

    node: str
    address: str
    token: str
    free_bytes: int
    order: int


class BidOutcome(StrEnum):
    """What became of a bid."""

    PLACED = "placed"
    ALREADY_PENDING = "already_pending"  # OWN-3: this node still waits for another auction's end
    BELOW_MINIMUM = "below_minimum"  # it could not hold the unit anyway
    NOT_OPEN = "not_open"  # somebody holds the unit, or this node holds a sibling slot


@dataclass(frozen=True)
class BidReceipt:
    outcome: BidOutcome
    has_opened: bool = False  # this was the first bid: it started the clock
    is_full: bool = False  # max_bids reached: close now
    max_bids: int = 0


class CloseOutcome(StrEnum):
    """What closing an auction led to; only one caller ever sees WON or NO_WINNER for one auction (OWN-6)."""

    WON = "won"
    NO_WINNER = "no_winner"
    NOT_DUE = "not_due"  # the window runs and the bids are not all in, or the store is too young
    ALREADY_CLOSED = "already_closed"


@dataclass(frozen=True)
class Closing:
    outcome: CloseOutcome
    lease: Lease | None = None
    bids: int = 0
    is_short_circuit: bool = False
    open_for_s: float = 0.0
    wait_s: float = 0.0  # for NOT_DUE: how much longer, as far as the store knows
