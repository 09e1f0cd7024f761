"""Settings of ownership."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from argosy.base.settings import setting
from argosy.ownership.model import BIDS_MAX

MIB = 1 << 20


@dataclass(frozen=True)
class OwnershipSettings:
    """Leases, auctions, ring and drain."""

    SECTION: ClassVar[str] = "ownership"

    store: str = setting(
        "memory://",
        doc="where leases live: memory:// (one process), redis[s]:// or valkey[s]:// (also +sentinel or +cluster), "
        "etcd[s]://",
    )
    namespace: str = setting("argosy", doc="first part of every key, so that several fleets can share one store")
    space: str = setting("repos", doc="set of units that this node takes part in")
    placement: str = setting(
        "auction",
        choices=("auction", "ring", "claim"),
        doc="who gets an unowned unit: the best bidder, its owner on the hash ring, or the first node to claim it",
    )
    units: tuple[str, ...] = setting((), doc="units to hold when no catalog is configured")

    ttl_s: float = setting(30.0, min=0.5, max=3600, doc="session TTL: the units of a crashed node are unowned after it")
    renew_s: float = setting(8.0, min=0.1, doc="interval of session renewals; three attempts fit into one TTL")
    stop_margin: float = setting(
        0.1,
        min=0.01,
        max=0.5,
        doc="fraction of the TTL by which a node that cannot renew stops serving early; covers clock drift",
    )
    grace_s: float | None = setting(
        None,
        min=0,
        doc="time after its start for which a store that may have lost leases grants none; default: one TTL",
    )

    window_s: float = setting(60.0, min=0.1, max=3600, doc="time from an auction's first bid to its end")
    max_bids: str = setting(
        "live",
        doc="bids that end an auction early: a number, 'live' (members bidding now) or 'pushed' (set by an operator)",
    )
    claim_jitter_s: float = setting(
        0.2, min=0, max=60, doc="maximum random delay before an opening bid or a claim, so that nodes do not collide"
    )
    members_min: int = setting(
        1, min=1, doc="no bids until this many nodes have joined, or one window has passed; for fleets started at once"
    )
    warming_max: int = setting(
        4, min=1, max=1000, doc="units that one node warms at a time; it acquires no more until one is ready"
    )
    default_footprint_bytes: int = setting(
        64 * MIB, min=0, doc="memory reserved for a unit that was won and has never been measured"
    )
    closings_per_s: float = setting(
        200.0, min=0.1, doc="auctions per second that one node tries to close; bounds the load on the store"
    )
    epochs_max: int = setting(
        5, min=1, doc="auction windows a unit may stay without a winner before the fleet asks for more nodes"
    )

    vnodes: int = setting(160, min=1, max=10_000, doc="points of one node on the hash ring")
    handoff_wait_s: float = setting(
        1.0, min=0, max=60, doc="time after a ring change before old owners release, so that new owners are waiting"
    )
    claim_retry_s: float = setting(0.5, min=0.01, max=60, doc="longest pause between two claims of a unit that is held")
    quiesce_s: float = setting(
        1.0, min=0, max=60, doc="time for requests in flight before the leases of a leaving ring node end"
    )
    drain_timeout_s: float = setting(
        300.0, min=0, doc="time that a draining node waits for ready successors before it releases its units anyway"
    )

    catalog_s: float = setting(5.0, min=0.1, doc="interval of catalog reads")
    sweep_s: float = setting(1.0, min=0.05, doc="interval of expired-session sweeps and free-memory measurements")

    def check(self) -> Iterable[str]:
        if self.renew_s * 2 > self.ttl_s * (1 - self.stop_margin):
            yield f"renew_s ({self.renew_s}) must allow two attempts within ttl_s ({self.ttl_s}) minus its margin"
        if self.max_bids not in ("live", "pushed") and not self._is_count(self.max_bids):
            yield f"max_bids must be 'live', 'pushed' or a number from 1 to {BIDS_MAX}, not {self.max_bids!r}"

    @property
    def grace(self) -> float:
        return self.ttl_s if self.grace_s is None else self.grace_s

    @staticmethod
    def _is_count(text: str) -> bool:
        return text.isdecimal() and 1 <= int(text) <= BIDS_MAX
