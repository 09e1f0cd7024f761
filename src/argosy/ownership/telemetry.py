"""What a node says of itself: metrics and log lines, in one place, so that no other module is about them."""

from argosy.base import logs
from argosy.base.metrics import Metrics
from argosy.ownership import effects as do
from argosy.ownership import metrics as m
from argosy.ownership.autoscale import ScaleSignal
from argosy.ownership.events import Fact, LeaseChanged
from argosy.ownership.lease_keeper import Keeper
from argosy.ownership.model import BidOutcome, BidReceipt, CloseOutcome, Closing, Role, Unit
from argosy.ownership.view import FleetView


class Teller:
    """Speaks for one node in one space."""

    def __init__(self, metrics: Metrics, *, node: str, space: str) -> None:
        self.log = logs.get("ownership").bind(node=node, space=space)
        self._metrics = metrics
        self._space = space
        self._pauses = 0

    def serving(self, change: do.ServingChange, *, wall: float, now: float) -> None:
        """`wall` is read first: if the process is stopped before `now` is read, the logged end is early, never late."""
        match change:
            case do.ServingStarted(unit, epoch, until):
                self.log.info("serving", unit=str(unit), epoch=epoch, until=round(wall + until - now, 3))
            case do.ServingStopped(unit, epoch):
                self.log.info("stopped", unit=str(unit), epoch=epoch)
            case do.ServingExtended(until):
                self.log.debug("extended", until=round(wall + until - now, 3))

    def session_opened(self, role: Role) -> None:
        self.log.info("session opened", role=role)

    def session_lost(self, role: Role) -> None:
        self._metrics.inc(m.SESSIONS_LOST, space=self._space, role=role)
        self.log.warning("session lost", role=role)

    def store_away(self, why: Exception) -> None:
        self.log.warning("store away", why=str(why))

    def warming_failed(self, unit: Unit, epoch: int, why: Exception) -> None:
        self._metrics.inc(m.WARMINGS_FAILED, space=self._space)
        self.log.error("warming failed", unit=str(unit), epoch=epoch, why=str(why))

    def bid(self, receipt: BidReceipt) -> None:
        if receipt.outcome is BidOutcome.PLACED:
            self._metrics.inc(m.BIDS_PLACED, space=self._space)
            self._metrics.set(m.CONFIGURED_MAX_BIDS, receipt.max_bids, space=self._space)
            self._metrics.inc(m.AUCTIONS_STARTED, by=float(receipt.has_opened), space=self._space)
        elif receipt.outcome is BidOutcome.ALREADY_PENDING:
            self._metrics.inc(m.BIDS_REJECTED_ALREADY_PENDING, space=self._space)

    def closing(self, unit: Unit, closing: Closing) -> None:
        """Only the one caller who closed an auction counts it, so the fleet's sum is right."""
        if closing.outcome not in (CloseOutcome.WON, CloseOutcome.NO_WINNER):
            return
        space, lease = self._space, closing.lease
        self._metrics.inc(m.AUCTIONS_NO_WINNER if lease is None else m.AUCTIONS_WON, space=space)
        self._metrics.inc(m.AUCTIONS_SHORT_CIRCUITED if closing.is_short_circuit else m.AUCTIONS_TIMED_OUT, space=space)
        self._metrics.inc(m.BIDS_RECEIVED, by=closing.bids, space=space)
        self._metrics.observe(m.BID_WINDOW_MS, closing.open_for_s * 1000, space=space)
        winner = None if lease is None else lease.node
        self.log.info("auction closed", unit=str(unit), bids=closing.bids, winner=winner)

    def fact(self, fact: Fact, view: FleetView, now: float) -> None:
        """Called before the view takes the fact in, while it still knows since when the unit was open."""
        if isinstance(fact, LeaseChanged) and fact.lease.unit in view.open_since:
            self._metrics.observe(m.CLAIM_LATENCY, now - view.open_since[fact.lease.unit], space=self._space)

    def figures(self, view: FleetView, keeper: Keeper, signal: ScaleSignal, now: float) -> None:
        space = self._space
        self._metrics.inc(m.PAUSES, by=keeper.pauses - self._pauses, space=space)
        self._pauses = keeper.pauses
        self._metrics.set(m.UNITS_HELD, len(keeper.holdings), space=space)
        self._metrics.set(m.UNITS_SERVING, keeper.serving_count(now), space=space)
        self._metrics.set(m.UNITS_OPEN, view.open_count(), space=space)
        self._metrics.set(m.ACTIVE_BIDDERS, view.bidding_count(), space=space)
        self._metrics.set(m.DESIRED_NODES, signal.desired_nodes, space=space)
        self._metrics.set(m.STARVED_UNITS, signal.starved_units, space=space)
