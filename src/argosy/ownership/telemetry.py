"""Metrics and log lines of one node in one space.

The names of the auction metrics, without their prefix, are those of design document 000.
"""

from argosy.base import logs
from argosy.base.metrics import Metrics, counter, gauge, histogram
from argosy.ownership import effects
from argosy.ownership.autoscale import ScaleSignal
from argosy.ownership.events import LeaseChanged, WatchEvent
from argosy.ownership.lease_keeper import LeaseKeeper
from argosy.ownership.model import BidOutcome, BidResult, CloseOutcome, CloseResult, SessionRole, Unit
from argosy.ownership.view import FleetView

# From an auction that fills at once to one of five minutes; the default window is 60 s.
_WINDOW_BUCKETS_MS = (10, 50, 100, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000)
_LATENCY_BUCKETS_S = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600)

AUCTIONS_STARTED = counter("argosy_auctions_started", "Auctions opened by a first bid of this node", ("space",))
AUCTIONS_WON = counter("argosy_auctions_won", "Auctions closed by this node with a winner", ("space",))
AUCTIONS_NO_WINNER = counter("argosy_auctions_no_winner", "Auctions closed by this node without a winner", ("space",))
AUCTIONS_SHORT_CIRCUITED = counter(
    "argosy_auctions_short_circuited", "Auctions closed by this node early, because all bids were in", ("space",)
)
AUCTIONS_TIMED_OUT = counter(
    "argosy_auctions_timed_out", "Auctions closed by this node at the end of their window", ("space",)
)
BIDS_PLACED = counter("argosy_bids_placed", "Bids of this node accepted by the store", ("space",))
BIDS_REJECTED_ALREADY_PENDING = counter(
    "argosy_bids_rejected_already_pending",
    "Bids of this node rejected because another bid of it was pending",
    ("space",),
)
BIDS_RECEIVED = counter("argosy_bids_received", "Bids in the auctions closed by this node", ("space",))
BID_WINDOW_MS = histogram(
    "argosy_bid_window_ms", "Duration of auctions closed by this node", _WINDOW_BUCKETS_MS, ("space",)
)
CONFIGURED_MAX_BIDS = gauge(
    "argosy_configured_max_bids",
    "Threshold of the latest auction this node bid in; alert when it diverges from argosy_active_bidders",
    ("space",),
)
ACTIVE_BIDDERS = gauge("argosy_active_bidders", "Members that would accept one more unit", ("space",))
CLAIM_LATENCY = histogram(
    "argosy_claim_latency_seconds", "Time from a unit becoming unowned to its lease", _LATENCY_BUCKETS_S, ("space",)
)
UNITS_HELD = gauge("argosy_units_held", "Units leased by this node", ("space",))
UNITS_SERVING = gauge("argosy_units_serving", "Units this node may serve now", ("space",))
UNITS_UNOWNED = gauge("argosy_units_unowned", "Units in the catalog without a lease, as seen by this node", ("space",))
PAUSES = counter("argosy_ownership_pauses", "Pauses of serving because the store was unreachable", ("space",))
SESSIONS_LOST = counter(
    "argosy_sessions_lost", "Sessions of this node lost unexpectedly: expired or replaced", ("space", "role")
)
WARMINGS_FAILED = counter("argosy_warmings_failed", "Units released because warming failed", ("space",))
DESIRED_NODES = gauge("argosy_desired_nodes", "Nodes the fleet should have: the autoscale signal", ("space",))
STARVED_UNITS = gauge("argosy_starved_units", "Units without a winner for too many auction windows", ("space",))


class OwnershipTelemetry:
    """Counts and logs for one node in one space."""

    def __init__(self, metrics: Metrics, *, node: str, space: str) -> None:
        self.log = logs.get("ownership").bind(node=node, space=space)
        self._metrics = metrics
        self._space = space
        self._pauses = 0

    def record_serving_change(self, change: effects.ServingChange, *, wall: float, now: float) -> None:
        """`wall` is read before `now`: if the process is suspended in between, the logged end is too early, never too
        late. The serving logs of all nodes are compared to check OWN-1."""
        match change:
            case effects.ServingStarted(unit, epoch, until):
                self.log.info("serving started", unit=str(unit), epoch=epoch, until=round(wall + until - now, 3))
            case effects.ServingStopped(unit, epoch):
                self.log.info("serving stopped", unit=str(unit), epoch=epoch)
            case effects.ServingExtended(until):
                self.log.debug("serving extended", until=round(wall + until - now, 3))

    def record_session_opened(self, role: SessionRole) -> None:
        self.log.info("session opened", role=role)

    def record_session_lost(self, role: SessionRole) -> None:
        self._metrics.inc(SESSIONS_LOST, space=self._space, role=role)
        self.log.warning("session lost", role=role)

    def record_store_unreachable(self, error: Exception) -> None:
        self.log.warning("store unreachable", error=str(error))

    def record_warming_failure(self, unit: Unit, epoch: int, error: Exception) -> None:
        self._metrics.inc(WARMINGS_FAILED, space=self._space)
        self.log.error("warming failed", unit=str(unit), epoch=epoch, error=str(error))

    def record_bid(self, result: BidResult) -> None:
        if result.outcome is BidOutcome.PLACED:
            self._metrics.inc(BIDS_PLACED, space=self._space)
            self._metrics.set(CONFIGURED_MAX_BIDS, result.max_bids, space=self._space)
            self._metrics.inc(AUCTIONS_STARTED, by=float(result.has_opened), space=self._space)
        elif result.outcome is BidOutcome.ALREADY_PENDING:
            self._metrics.inc(BIDS_REJECTED_ALREADY_PENDING, space=self._space)

    def record_close(self, unit: Unit, result: CloseResult) -> None:
        """Only the one caller that closed an auction counts it, so that the sum over the fleet is right."""
        if result.outcome not in (CloseOutcome.WON, CloseOutcome.NO_WINNER):
            return
        space, lease = self._space, result.lease
        self._metrics.inc(AUCTIONS_NO_WINNER if lease is None else AUCTIONS_WON, space=space)
        self._metrics.inc(AUCTIONS_SHORT_CIRCUITED if result.is_short_circuit else AUCTIONS_TIMED_OUT, space=space)
        self._metrics.inc(BIDS_RECEIVED, by=result.bids, space=space)
        self._metrics.observe(BID_WINDOW_MS, result.open_for_s * 1000, space=space)
        winner = None if lease is None else lease.node
        self.log.info("auction closed", unit=str(unit), bids=result.bids, winner=winner)

    def record_watch_event(self, event: WatchEvent, view: FleetView, now: float) -> None:
        """Called before the view applies the event, while it still has the time at which the unit became unowned."""
        if isinstance(event, LeaseChanged) and event.lease.unit in view.unowned_since:
            self._metrics.observe(CLAIM_LATENCY, now - view.unowned_since[event.lease.unit], space=self._space)

    def set_gauges(self, view: FleetView, keeper: LeaseKeeper, signal: ScaleSignal, now: float) -> None:
        space = self._space
        # The keeper counts by itself and stays pure; here the increase since the last sweep is added.
        self._metrics.inc(PAUSES, by=keeper.pauses - self._pauses, space=space)
        self._pauses = keeper.pauses
        self._metrics.set(UNITS_HELD, len(keeper.held_leases), space=space)
        self._metrics.set(UNITS_SERVING, keeper.serving_count(now), space=space)
        self._metrics.set(UNITS_UNOWNED, view.unowned_count(), space=space)
        self._metrics.set(ACTIVE_BIDDERS, view.bidding_count(), space=space)
        self._metrics.set(DESIRED_NODES, signal.desired_nodes, space=space)
        self._metrics.set(STARVED_UNITS, signal.starved_units, space=space)
