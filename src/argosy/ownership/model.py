"""Data model of ownership: units, sessions, leases, members and auctions, and the rules of an auction.

A node has two *sessions* with the store, each with a TTL that the node renews. The *holder* session carries all leases
of the node: they are valid while the session is, and end with it. So a renewal costs one call, however many units the
node holds. The *member* session only makes the node eligible for work (ring, bidding), so that a draining node can
leave the fleet first and release its leases afterwards.

A lease therefore expires when its holder session expires. Its **epoch** is its fencing token: every new lease of a unit
has a greater epoch than all earlier ones.

The rules of an auction are pure functions at the end. The memory and etcd stores call them, Redis implements them in
Lua; the contract suite checks that all agree.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from argosy.base.errors import Invalid

UNIT_NAME_MAX = 1024  # characters; long enough for a clone URL with a branch
NODE_ID_MAX = 200  # characters; a host name with a suffix
BIDS_MAX = 100  # bids in one auction: closing deletes them in one etcd transaction of at most 128 operations

PRIMARY = 0  # the slot that serves a unit; replicas are 1, 2, …
SUCCESSOR = -1  # the slot of the node that takes over from a draining primary
REPLICAS_MAX = 8  # replica slots of one unit; a store reads all sibling slots before it grants one


def check_name(what: str, text: str, length_max: int) -> str:
    """An identity is any printable text. Control characters are rejected: they would break log lines and keys."""
    if not text or len(text) > length_max or not text.isprintable():
        raise Invalid(f"{what} must be 1 to {length_max} printable characters, not {text[:60]!r}")
    return text


@dataclass(frozen=True, order=True)
class Unit:
    """What one node at a time can hold: one slot (primary, replica or successor) of a repository or a shard."""

    name: str
    replica: int = PRIMARY

    def __post_init__(self) -> None:
        check_name("a unit's name", self.name, UNIT_NAME_MAX)

    @property
    def key(self) -> str:
        """The unit in store keys. The slot number comes first, so that the name may contain a colon."""
        return f"{self.replica}:{self.name}"

    @classmethod
    def from_key(cls, key: str) -> Self:
        replica, _, name = key.partition(":")
        return cls(name, int(replica))

    def siblings(self) -> "tuple[Unit, ...]":
        """All other slots of the same name. A node holds at most one of them: two on one node would fail together."""
        return tuple(Unit(self.name, r) for r in range(SUCCESSOR, REPLICAS_MAX + 1) if r != self.replica)

    def __str__(self) -> str:
        return self.name if self.replica == PRIMARY else f"{self.name}~{self.replica}"


@dataclass(frozen=True)
class Space:
    """A set of units with one rule for the first lease: won at auction, or claimed by the first node to ask (OWN-2)."""

    name: str
    is_auctioned: bool

    def __post_init__(self) -> None:
        # The name becomes part of a Redis hash tag and of an etcd path.
        if not self.name or not all(c.isalnum() or c in "-_." for c in self.name):
            raise Invalid(f"a space's name has letters, digits, '-', '_' and '.' only, not {self.name!r}")


class SessionRole(StrEnum):
    """What a session stands for."""

    MEMBER = "member"  # the node takes part in ring and bidding
    HOLDER = "holder"  # the node's leases are valid


@dataclass(frozen=True)
class Session:
    """A node's session with the store. The token is unique to one run of the node, so that two processes that run under
    the same node id are distinguished."""

    role: SessionRole
    node: str
    address: str
    token: str
    ttl_s: float


@dataclass(frozen=True)
class SessionInfo:
    """A session as listed to operators, without its token."""

    role: SessionRole
    node: str
    address: str
    expires_in_s: float


@dataclass(frozen=True)
class Member:
    """A node that takes part. `is_bidding` is true while it would accept one more unit."""

    node: str
    address: str
    is_bidding: bool = True
    started_at: float = 0.0
    capabilities: tuple[str, ...] = ()
    held_bytes: int = 0  # memory used by its units, as of its last announcement
    free_bytes: int = 0  # memory available for more units

    def __post_init__(self) -> None:
        check_name("a node id", self.node, NODE_ID_MAX)


class LeaseState(StrEnum):
    """The holder's progress with a unit."""

    WARMING = "warming"  # held, not yet able to serve
    READY = "ready"  # serving
    DRAINING = "draining"  # serving, until a successor is ready


@dataclass(frozen=True)
class Lease:
    """The record that makes a node the holder of a unit."""

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
    """Desired state of one unit, as stored in the catalog."""

    name: str
    footprint_bytes: int | None = None  # memory it used when last held; None while unknown
    max_bids: int | None = None  # overrides the fleet's threshold
    replicas: int = 0  # slots beside the primary

    def __post_init__(self) -> None:
        check_name("a unit's name", self.name, UNIT_NAME_MAX)
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
    """An open auction. Its threshold is fixed when it opens; later changes of the setting do not apply to it."""

    unit: Unit
    id: int
    max_bids: int
    closes_in_s: float


@dataclass(frozen=True)
class Bid:
    """A node's bid: its free bytes, and its place in the order in which the store received the bids."""

    node: str
    address: str
    token: str
    free_bytes: int
    order: int


class BidOutcome(StrEnum):
    """Result of placing a bid."""

    PLACED = "placed"
    ALREADY_PENDING = "already_pending"  # OWN-3: this node has a bid in another open auction
    BELOW_MINIMUM = "below_minimum"  # the free bytes do not suffice for the unit
    NOT_OPEN = "not_open"  # the unit has a holder, or this node holds a sibling slot


@dataclass(frozen=True)
class BidResult:
    outcome: BidOutcome
    has_opened: bool = False  # this was the first bid: it opened the auction and started its window
    is_full: bool = False  # max_bids is reached: the auction can be closed now
    max_bids: int = 0


class CloseOutcome(StrEnum):
    """Result of closing an auction. Exactly one caller gets WON or NO_WINNER for one auction (OWN-6)."""

    WON = "won"
    NO_WINNER = "no_winner"
    NOT_DUE = "not_due"  # the window is open and bids are missing, or the store is in its grace period
    ALREADY_CLOSED = "already_closed"


@dataclass(frozen=True)
class CloseResult:
    outcome: CloseOutcome
    lease: Lease | None = None
    bids: int = 0
    is_short_circuit: bool = False
    open_for_s: float = 0.0
    wait_s: float = 0.0  # for NOT_DUE: remaining time, as far as the store knows


# -- rules of an auction ----------------------------------------------------------------------------------------------


# The footprint is the size at the last indexing. Repositories grow, and building an index needs more memory than
# holding it.
MINIMUM_BID_FACTOR = 1.2

# If an auction is still open this long after its window, the pending marks of its bidders expire. Without that, a node
# whose auction is never closed could never bid again.
PENDING_BUFFER_S = 10.0


def rank(bids: Iterable[Bid]) -> list[Bid]:
    """Best bid first: most free memory, then earliest, then node name, so that all closers compute the same order."""
    return sorted(bids, key=lambda bid: (-bid.free_bytes, bid.order, bid.node))


def threshold(max_bids: int | None, bidding_now: int) -> int:
    """How many bids close an auction early; fixed when it opens. With None: the number of members bidding now."""
    if max_bids is not None and max_bids < 1:
        raise Invalid(f"max_bids must be at least 1, not {max_bids}")
    return min(BIDS_MAX, max(1, bidding_now if max_bids is None else max_bids))


def minimum_bid(footprint_bytes: int | None) -> int:
    """Free bytes a bidder must have; 0 for a unit that was never held, whose footprint is unknown."""
    return 0 if footprint_bytes is None else int(footprint_bytes * MINIMUM_BID_FACTOR)


def rivals(unit: Unit) -> tuple[Unit, ...]:
    """Slots whose holder may not acquire this one: two slots on one node would fail together. The primary has none. A
    replica's holder may win it, because it has the index already; its replica slot then becomes unowned."""
    return () if unit.replica == PRIMARY else unit.siblings()
