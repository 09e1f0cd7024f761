"""What ownership measures. The names are those of the design document, with our prefix."""

from argosy.base.metrics import counter, gauge, histogram

_WINDOW_BUCKETS_MS = (10, 50, 100, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000)
_LATENCY_BUCKETS_S = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600)

AUCTIONS_STARTED = counter("argosy_auctions_started", "auctions this node opened with a first bid", ("space",))
AUCTIONS_WON = counter("argosy_auctions_won", "auctions this node closed that found a winner", ("space",))
AUCTIONS_NO_WINNER = counter("argosy_auctions_no_winner", "auctions this node closed without a winner", ("space",))
AUCTIONS_SHORT_CIRCUITED = counter(
    "argosy_auctions_short_circuited", "auctions this node closed early, all bids being in", ("space",)
)
AUCTIONS_TIMED_OUT = counter("argosy_auctions_timed_out", "auctions this node closed at the window's end", ("space",))
BIDS_PLACED = counter("argosy_bids_placed", "bids of this node that the store took", ("space",))
BIDS_REJECTED_ALREADY_PENDING = counter(
    "argosy_bids_rejected_already_pending", "bids refused because another one of this node was pending", ("space",)
)
BIDS_RECEIVED = counter("argosy_bids_received", "bids found in the auctions this node closed", ("space",))
BID_WINDOW_MS = histogram(
    "argosy_bid_window_ms", "how long auctions this node closed had been open", _WINDOW_BUCKETS_MS, ("space",)
)
CONFIGURED_MAX_BIDS = gauge(
    "argosy_configured_max_bids",
    "threshold of the latest auction this node bid in; alert when it strays from argosy_active_bidders",
    ("space",),
)
ACTIVE_BIDDERS = gauge("argosy_active_bidders", "members that would take one more unit", ("space",))
CLAIM_LATENCY = histogram(
    "argosy_claim_latency_seconds", "from a unit's being open to its being held", _LATENCY_BUCKETS_S, ("space",)
)
UNITS_HELD = gauge("argosy_units_held", "units this node has the lease of", ("space",))
UNITS_SERVING = gauge("argosy_units_serving", "units this node may answer for just now", ("space",))
UNITS_OPEN = gauge("argosy_units_open", "wanted units that nobody holds, as this node sees it", ("space",))
PAUSES = counter("argosy_ownership_pauses", "times all units paused because the store could not be reached", ("space",))
SESSIONS_LOST = counter("argosy_sessions_lost", "sessions that ended without this node's wish", ("space", "role"))
WARMINGS_FAILED = counter("argosy_warmings_failed", "units that could not be made ready, and went back", ("space",))
DESIRED_NODES = gauge("argosy_desired_nodes", "nodes the fleet should have: the autoscale signal", ("space",))
STARVED_UNITS = gauge("argosy_starved_units", "units without a winner for too many auction windows", ("space",))
