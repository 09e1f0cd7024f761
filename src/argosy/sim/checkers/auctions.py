"""OWN-2, OWN-3 and OWN-6: how first leases come about in an auctioned space.

The store tells its observers each fact in the instant it becomes true, and the server reports each call when it is
done. So everything between two reports belongs to one call.
"""

from argosy.ownership.backends.memory import MemoryOwnershipStore
from argosy.ownership.events import AuctionClosed, AuctionOpened, LeaseChanged, LeaseGone, WatchEvent
from argosy.ownership.model import BidOutcome, BidResult, CloseOutcome, CloseResult, Lease, Session, Unit
from argosy.sim.checkers.violations import ViolationLog
from argosy.sim.network import Served


class AuctionChecker:
    """Watches one auctioned space, and looks into its store."""

    def __init__(self, findings: ViolationLog, store: MemoryOwnershipStore) -> None:
        assert store.space.is_auctioned
        self._findings = findings
        self._store = store
        self._running: dict[Unit, int] = {}  # unit -> auction's id
        self._closed: set[int] = set()
        self._bidders: dict[Unit, set[str]] = {}  # of the running auction
        self._leases: dict[Unit, Lease] = {}
        self._unexplained: dict[Unit, Lease] = {}  # granted by the call under way, and not yet known why
        self._given_up: dict[Unit, str] = {}  # slot -> who held it, of leases that ended in this call
        self._closings = 0  # in the call under way

    def on_event(self, fact: WatchEvent) -> None:
        match fact:
            case LeaseChanged(lease):
                known = self._leases.get(lease.unit)
                self._leases[lease.unit] = lease
                if (known is None or known.epoch != lease.epoch) and not self._is_handed_over(lease):
                    self._unexplained[lease.unit] = lease
            case LeaseGone(unit, _):
                if (gone := self._leases.pop(unit, None)) is not None:
                    self._given_up[unit] = gone.node
            case AuctionOpened(auction):
                if auction.unit in self._running or auction.id in self._closed:
                    self._findings.add("OWN-6", f"auction {auction.id} of {auction.unit} was opened twice")
                self._running[auction.unit] = auction.id
                self._bidders[auction.unit] = set()
            case AuctionClosed(unit, auction_id, winner):
                self._close(unit, auction_id, winner)

    def on_call(self, served: Served) -> None:
        """One call is over."""
        for unit, lease in self._unexplained.items():
            self._findings.add("OWN-2", f"{lease.node} got the lease of {unit} without an auction, by {served.call}")
        match served:
            case Served(call="place_bid", args=(Session(node=node), unit, *_), outcome=BidResult(BidOutcome.PLACED)):
                self._bidders.setdefault(unit, set()).add(node)
                self._count_bids(node)
            case Served(
                call="close_auction", args=(unit,), outcome=CloseResult(CloseOutcome.WON | CloseOutcome.NO_WINNER)
            ):
                if self._closings != 1:
                    self._findings.add("OWN-6", f"{served.node} was told that it closed {unit}, which was not open")
        self._check_marks()
        self._unexplained.clear()
        self._given_up.clear()
        self._closings = 0

    def on_data_loss(self) -> None:
        self._running.clear()
        self._closed.clear()
        self._bidders.clear()
        self._leases.clear()

    def _is_handed_over(self, lease: Lease) -> bool:
        """In one step the old holder lets go, and the heir leaves the slot it had been waiting in."""
        return lease.unit in self._given_up and any(
            (waiting := self._leases.get(slot)) is not None and waiting.node == lease.node
            for slot in lease.unit.siblings()
        )

    def _close(self, unit: Unit, auction_id: int, winner: str | None) -> None:
        self._closings += 1
        if auction_id in self._closed:
            self._findings.add("OWN-6", f"auction {auction_id} of {unit} was closed twice")
        elif self._running.pop(unit, None) != auction_id:
            self._findings.add("OWN-6", f"auction {auction_id} of {unit} was closed without having been opened")
        self._closed.add(auction_id)
        bidders = self._bidders.pop(unit, set())
        if winner is not None and winner not in bidders:
            self._findings.add("OWN-2", f"{winner} won {unit} without a bid; bidders were {sorted(bidders)}")
        lease = self._unexplained.pop(unit, None)
        if winner is not None and (lease is None or lease.node != winner):
            self._findings.add("OWN-2", f"{winner} won {unit}, but the lease went to {lease and lease.node}")
        if left := [node for node, waits_for in self._store.pending_marks().items() if waits_for == unit]:
            self._findings.add("OWN-6", f"auction {auction_id} of {unit} is closed, and pending marks of {left} remain")

    def _count_bids(self, node: str) -> None:
        # The true bids, not the marks: a node is refused by its mark, so marks alone would prove nothing.
        waits_for = [str(unit) for unit, sale in self._store._auctions.items() if node in sale.bids]
        if len(waits_for) > 1:
            self._findings.add("OWN-3", f"{node} has bids pending for {waits_for}")

    def _check_marks(self) -> None:
        sales = self._store._auctions
        for node, unit in self._store.pending_marks().items():
            if unit not in sales or node not in sales[unit].bids:
                self._findings.add("OWN-6", f"{node} is marked as pending for {unit}, where it has no bid")
