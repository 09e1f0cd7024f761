"""The numbers of ownership: declared once, with the reason for each."""

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
        "memory://", doc="where leases live: memory:// (one process), redis[s]://, valkey[s]:// or etcd[s]://"
    )
    namespace: str = setting("argosy", doc="first part of every key, so that several fleets can share one store")
    space: str = setting("repos", doc="the set of units this node takes part in")
    placement: str = setting(
        "auction",
        choices=("auction", "ring", "claim"),
        doc="who gets a free unit: the best bidder, its place on the hash ring, or the first who comes",
    )
    units: tuple[str, ...] = setting((), doc="units that should be held, as long as no catalog tells")

    ttl_s: float = setting(30.0, min=0.5, max=3600, doc="a crashed node's units are free after this long")
    renew_s: float = setting(8.0, min=0.1, doc="how often sessions are renewed: three tries fit into one TTL")
    stop_margin: float = setting(
        0.1, min=0.01, max=0.5, doc="part of the TTL by which a node that cannot renew stops early; covers clock drift"
    )
    grace_s: float | None = setting(
        None, min=0, doc="a store that may have forgotten leases grants none for this long; by default one TTL"
    )

    window_s: float = setting(60.0, min=0.1, max=3600, doc="an auction ends at most this long after its first bid")
    max_bids: str = setting(
        "live", doc="bids that end an auction early: a number, 'live' (members now bidding) or 'pushed' by an operator"
    )
    claim_jitter_s: float = setting(
        0.2, min=0, max=60, doc="an opening bid or claim waits a random part of this, so that nodes do not all rush"
    )
    members_min: int = setting(
        1, min=1, doc="a fleet that starts together: no bids before so many nodes are there, or a window has passed"
    )
    warming_max: int = setting(4, min=1, max=1000, doc="units one node makes ready at a time; it bids for no more")
    default_footprint_bytes: int = setting(
        64 * MIB, min=0, doc="memory set aside for a unit that was won and never measured before"
    )
    closings_per_s: float = setting(200.0, min=0.1, doc="auctions one node tries to close, to spare the store")
    epochs_max: int = setting(5, min=1, doc="windows a unit may stay without a winner before more nodes are asked for")

    vnodes: int = setting(160, min=1, max=10_000, doc="points of one node on the hash ring")
    handover_wait_s: float = setting(
        1.0, min=0, max=60, doc="after a ring change old owners wait this long, so that new ones are already trying"
    )
    claim_retry_s: float = setting(0.5, min=0.01, max=60, doc="longest wait between two tries for a wanted, held unit")
    quiesce_s: float = setting(1.0, min=0, max=60, doc="time for requests in flight before a ring node's leases end")
    drain_timeout_s: float = setting(
        300.0, min=0, doc="a draining node waits this long for ready successors, then lets go all the same"
    )

    catalog_s: float = setting(5.0, min=0.1, doc="how often the catalog is read")
    sweep_s: float = setting(1.0, min=0.05, doc="how often expired sessions are swept and free memory is measured")

    def check(self) -> Iterable[str]:
        if self.renew_s * 2 > self.ttl_s * (1 - self.stop_margin):
            yield f"renew_s ({self.renew_s}) must leave two tries within ttl_s ({self.ttl_s}) less its margin"
        if self.max_bids not in ("live", "pushed") and not self._is_count(self.max_bids):
            yield f"max_bids must be 'live', 'pushed' or a number from 1 to {BIDS_MAX}, not {self.max_bids!r}"

    @property
    def grace(self) -> float:
        return self.ttl_s if self.grace_s is None else self.grace_s

    @staticmethod
    def _is_count(text: str) -> bool:
        return text.isdecimal() and 1 <= int(text) <= BIDS_MAX
