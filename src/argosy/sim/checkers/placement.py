"""OWN-2, OWN-3, OWN-5 and OWN-6: how units get their holders, by auction or on the ring.

The store notifies its observers of each event at the instant at which it becomes true, and the server reports each call
when it is done. So everything between two reports belongs to one call, and a lease that no bid or close explains by
then was granted in a way that it should not have been.
"""

from argosy.ownership.backends.memory import MemoryOwnershipStore
from argosy.ownership.events import (
    AuctionClosed,
    AuctionOpened,
    LeaseChanged,
    LeaseGone,
    MemberChanged,
    MemberGone,
    WatchEvent,
)
from argosy.ownership.model import BidOutcome, BidResult, CloseOutcome, CloseResult, Lease, Session, Unit
from argosy.ownership.ring import Ring
from argosy.sim.network import StoreCall
from argosy.sim.trace import ViolationLog


class AuctionChecker:
    """Observes one auctioned space, and reads the private state of its store."""

    def __init__(self, violations: ViolationLog, store: MemoryOwnershipStore) -> None:
        assert store.space.is_auctioned
        self._violations = violations
        self._store = store
        self._running: dict[Unit, int] = {}  # unit -> id of its auction
        self._closed: set[int] = set()
        self._bidders: dict[Unit, set[str]] = {}  # of the running auction
        self._leases: dict[Unit, Lease] = {}
        self._unexplained: dict[Unit, Lease] = {}  # granted by the current call, and not explained yet
        self._ended_leases: dict[Unit, str] = {}  # slot -> its holder, of leases that the current call ended
        self._closings = 0  # by the current call

    def on_event(self, fact: WatchEvent) -> None:
        match fact:
            case LeaseChanged(lease):
                known = self._leases.get(lease.unit)
                self._leases[lease.unit] = lease
                if (known is None or known.epoch != lease.epoch) and not self._is_handoff(lease):
                    self._unexplained[lease.unit] = lease
            case LeaseGone(unit, _):
                if (ended := self._leases.pop(unit, None)) is not None:
                    self._ended_leases[unit] = ended.node
            case AuctionOpened(auction):
                if auction.unit in self._running or auction.id in self._closed:
                    self._violations.add("OWN-6", f"auction {auction.id} of {auction.unit} was opened twice")
                self._running[auction.unit] = auction.id
                self._bidders[auction.unit] = set()
            case AuctionClosed(unit, auction_id, winner):
                self._close(unit, auction_id, winner)

    def on_call(self, served: StoreCall) -> None:
        """A call is done."""
        for unit, lease in self._unexplained.items():
            self._violations.add("OWN-2", f"{lease.node} got the lease of {unit} without an auction, by {served.call}")
        match served:
            case StoreCall(call="place_bid", args=(Session(node=node), unit, *_), outcome=BidResult(BidOutcome.PLACED)):
                self._bidders.setdefault(unit, set()).add(node)
                self._count_bids(node)
            case StoreCall(
                call="close_auction", args=(unit,), outcome=CloseResult(CloseOutcome.WON | CloseOutcome.NO_WINNER)
            ):
                if self._closings != 1:
                    self._violations.add("OWN-6", f"{served.node} closed {unit}, which was not open, and got a result")
        self._check_marks()
        # What the next call does is explained by that call alone.
        self._unexplained.clear()
        self._ended_leases.clear()
        self._closings = 0

    def on_data_loss(self) -> None:
        self._running.clear()
        self._closed.clear()
        self._bidders.clear()
        self._leases.clear()

    def _is_handoff(self, lease: Lease) -> bool:
        """A handoff: in one step the old holder releases the lease and its successor leaves the slot in which it
        waited."""
        return lease.unit in self._ended_leases and any(
            (waiting := self._leases.get(slot)) is not None and waiting.node == lease.node
            for slot in lease.unit.siblings()
        )

    def _close(self, unit: Unit, auction_id: int, winner: str | None) -> None:
        self._closings += 1
        if auction_id in self._closed:
            self._violations.add("OWN-6", f"auction {auction_id} of {unit} was closed twice")
        elif self._running.pop(unit, None) != auction_id:
            self._violations.add("OWN-6", f"auction {auction_id} of {unit} was closed without having been opened")
        self._closed.add(auction_id)
        bidders = self._bidders.pop(unit, set())
        if winner is not None and winner not in bidders:
            self._violations.add("OWN-2", f"{winner} won {unit} without a bid; bidders were {sorted(bidders)}")
        lease = self._unexplained.pop(unit, None)
        if winner is not None and (lease is None or lease.node != winner):
            self._violations.add("OWN-2", f"{winner} won {unit}, but the lease went to {lease and lease.node}")
        if left := [node for node, waits_for in self._store.pending_marks().items() if waits_for == unit]:
            self._violations.add(
                "OWN-6", f"auction {auction_id} of {unit} is closed, and pending marks of {left} remain"
            )

    def _count_bids(self, node: str) -> None:
        # The bids themselves and not the pending marks: the store rejects a second bid because of the mark, so a store
        # that checks nothing but marks would agree with a checker that reads nothing but marks.
        waits_for = [str(unit) for unit, sale in self._store._auctions.items() if node in sale.bids]
        if len(waits_for) > 1:
            self._violations.add("OWN-3", f"{node} has bids pending for {waits_for}")

    def _check_marks(self) -> None:
        sales = self._store._auctions
        for node, unit in self._store.pending_marks().items():
            if unit not in sales or node not in sales[unit].bids:
                self._violations.add("OWN-6", f"{node} is marked as pending for {unit}, where it has no bid")


# -- ring -------------------------------------------------------------------------------------------------------------

RINGS_MAX = 1_000  # in memory; a world whose members change faster tests nothing


class RingChecker:
    """Observes one ring space: only the units between old and new owner move.

    A node acts on the members that it knows, which may be old ones. So a unit may go to its owner on any ring of the
    last `stale_s` seconds, and to no other node. Which of these rings a node should have known is not checked.
    """

    def __init__(self, violations: ViolationLog, units: tuple[str, ...], *, vnodes: int, stale_s: float) -> None:
        self._violations = violations
        self._units = units
        self._vnodes = vnodes
        self._stale_s = stale_s
        self._members: dict[str, None] = {}
        self._rings: list[tuple[float, Ring]] = [
            (0.0, Ring((), vnodes=vnodes))
        ]  # with the time at which each came into force
        self._holder: dict[Unit, tuple[str, int]] = {}

    def on_event(self, fact: WatchEvent) -> None:
        match fact:
            case MemberChanged(member) if member.node not in self._members:
                self._members[member.node] = None
                self._step(member.node)
            case MemberGone(node) if node in self._members:
                del self._members[node]
                self._step(node)
            case LeaseChanged(lease) if self._holder.get(lease.unit) != (lease.node, lease.epoch):
                self._holder[lease.unit] = (lease.node, lease.epoch)
                if lease.node not in self._allowed_owners(lease.unit):
                    self._violations.add(
                        "OWN-5", f"{lease.unit} went to {lease.node}, which is its owner on no recent ring"
                    )

    def on_data_loss(self) -> None:
        """All members leave at once, and come back one by one."""
        self._members.clear()
        self._add_ring(Ring((), vnodes=self._vnodes))

    def _step(self, node: str) -> None:
        """A node joined or left: no unit may move between two others."""
        old, new = self._rings[-1][1], Ring(self._members, vnodes=self._vnodes)
        for unit in self._units:
            before, after = old.owner(unit), new.owner(unit)
            if before != after and node not in (before, after):
                self._violations.add("OWN-5", f"{unit} moves from {before} to {after} because of {node}")
        self._add_ring(new)

    def _add_ring(self, ring: Ring) -> None:
        now = self._violations.true_now()
        self._rings.append((now, ring))
        # The ring that was in force at the horizon stays: what counts is when it ended, and not when it began.
        while len(self._rings) > RINGS_MAX or (len(self._rings) > 1 and self._rings[1][0] < now - self._stale_s):
            del self._rings[0]

    def _allowed_owners(self, unit: Unit) -> set[str | None]:
        horizon = self._violations.true_now() - self._stale_s
        ends = [since for since, _ in self._rings[1:]] + [float("inf")]
        return {ring.owner(unit.name) for (_, ring), end in zip(self._rings, ends, strict=True) if end >= horizon}
