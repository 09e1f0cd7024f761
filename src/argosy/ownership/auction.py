"""A node's part in auctions: `Bidder` places its bids, `Closer` closes auctions that are due.

All nodes go through unowned units in the same order and join open auctions before they open new ones. They therefore
bid in the same auction, which fills and closes at once. If each node chose at random, bids would spread over many
auctions and most would last their whole window: 500 units, 20 nodes and 60 s would take 25 minutes
(docs/decisions/0004).

Every node tracks the end of every auction and tries to close it. The store lets exactly one caller succeed (OWN-6), so
no evaluator has to be elected and none can fail.
"""

from argosy.base.clock import Random
from argosy.base.retry import Backoff
from argosy.base.state_machine import earliest
from argosy.ownership.effects import AnnounceMember, CloseAuction, Effect, PlaceBid
from argosy.ownership.events import (
    AuctionClosed,
    AuctionOpened,
    BidAnswered,
    BidFailed,
    CloseAnswered,
    CloseFailed,
    Event,
    MemoryMeasured,
    ReleaseRequested,
    SessionEnded,
    Snapshot,
    UnitWarmed,
    WarmingFailed,
)
from argosy.ownership.lease_keeper import LeaseKeeper
from argosy.ownership.model import (
    PENDING_BUFFER_S,
    PRIMARY,
    BidOutcome,
    BidResult,
    CloseOutcome,
    SessionRole,
    Unit,
    minimum_bid,
)
from argosy.ownership.session_keepalive import SessionKeepAlive
from argosy.ownership.settings import OwnershipSettings
from argosy.ownership.view import FleetView

# Memory must change by this much before it is announced again. Every announcement is an event for all watchers, and
# placement does not use the announced figures; only people and autoscalers do.
ANNOUNCE_STEP_BYTES = 256 << 20


class Bidder:
    """State machine that bids for as many units as fit into this node's memory, one bid at a time (OWN-3)."""

    def __init__(
        self,
        settings: OwnershipSettings,
        view: FleetView,
        keeper: LeaseKeeper,
        member: SessionKeepAlive,
        random: Random,
    ) -> None:
        self._settings = settings
        self._view = view
        self._keeper = keeper
        self._member = member
        self._random = random
        self._free_bytes: int | None = None
        self._in_flight: Unit | None = None  # a bid was sent, and its reply has not arrived
        self._has_in_flight_closed = False  # an auction of that unit has ended since the bid was sent
        self._pending: Unit | None = None  # a bid waits for the end of its auction (OWN-3)
        self._pending_until: float | None = None
        self._opens_at: float | None = None  # jitter before opening an auction
        self._backoff_until: float | None = None  # after a bid that failed, or that found another one pending
        self._failures = 0
        # At most a window: after that the auction of a lost reply has ended, and bidding is possible again.
        self._store_backoff = Backoff(first_s=0.1, ceiling_s=max(0.1, min(10.0, settings.window_s)))
        # Longer than one auction, so that another node wins a unit that this one could not warm.
        self._warming_backoff = Backoff(first_s=settings.window_s * 3, ceiling_s=settings.window_s * 24)
        self._warming_failures: dict[str, int] = {}  # unit name -> consecutive failures
        self._avoided: dict[str, float] = {}  # unit name -> time of the earliest next bid
        self._has_quorum = settings.members_min <= 1  # the fleet has once had `members_min` members
        self._quorum_wait_until: float | None = None
        self._memory = (0, 0)  # held and free bytes, as last measured
        self._announced_memory = (0, 0)
        self._announced: object = None  # the member session, and the flag announced under it

    def deadline(self) -> float | None:
        avoided_until = min(self._avoided.values(), default=None)
        return earliest(
            self._opens_at, self._backoff_until, self._pending_until, avoided_until, self._quorum_wait_until
        )

    def handle(self, event: Event | None, now: float) -> list[Effect]:
        match event:
            case MemoryMeasured(free_bytes):
                self._free_bytes = free_bytes
                self._memory = (self._sum_held_bytes(), max(0, self._available_bytes()))
            case BidAnswered(unit, result):
                self._on_bid_result(unit, result, now)
            # The bid may have been placed: the pause gives the watch time to report its auction.
            case BidFailed():
                self._in_flight = None
                self._back_off(now)
            case AuctionClosed(unit, _, _):
                self._on_auction_closed(unit, now)
            case Snapshot():
                self._has_in_flight_closed = True  # its end may be among the events that the snapshot replaces
                if self._pending not in self._view.auctions:
                    self._clear_pending()
            case SessionEnded(session) if session.role is SessionRole.HOLDER:
                self._clear_pending()  # the store deletes bid and mark with the session
            case UnitWarmed(unit, _):
                self._warming_failures.pop(unit.name, None)
            case ReleaseRequested(unit):
                self._avoided[unit.name] = now + self._warming_backoff.delay(1, self._random)
            case WarmingFailed(unit, _):
                failures = self._warming_failures[unit.name] = self._warming_failures.get(unit.name, 0) + 1
                self._avoided[unit.name] = now + self._warming_backoff.delay(failures, self._random)
        self._wait_for_quorum(now)
        return self._announce(now) + self._bid(now)

    def _wait_for_quorum(self, now: float) -> None:
        """Waits once, at the start, for `members_min` members or one window (docs/decisions/0020).

        Without it, the first node of a starting fleet would win every auction before the others join, because its own
        bid reaches the threshold; and units that are held are never moved to balance the load.
        """
        if self._has_quorum or not self._view.has_synced:
            return
        if self._quorum_wait_until is None:
            self._quorum_wait_until = now + self._settings.window_s
        if len(self._view.members) >= self._settings.members_min or now >= self._quorum_wait_until:
            self._has_quorum, self._quorum_wait_until = True, None

    def _bid(self, now: float) -> list[Effect]:
        is_jitter_over = self._clear_expired(now)
        session = self._keeper.keepalive.session
        is_busy = self._in_flight or self._pending or self._backoff_until
        # One bid at a time (OWN-3): in flight, pending, or waiting after a failure.
        if session is None or is_busy or not self._can_bid(now):
            return []
        unit = self._choose(now, is_jitter_over)
        if unit is None:
            return []
        self._in_flight, self._has_in_flight_closed = unit, False
        self._opens_at = None
        # The store checks it again with the memory measured at the time of the call.
        min_bytes = minimum_bid(self._view.spec(unit).footprint_bytes)
        return [PlaceBid(session, unit, self._reserved_bytes(), min_bytes, self._threshold(unit))]

    def _clear_expired(self, now: float) -> bool:
        """Clears expired deadlines: one in the past would wake the driver forever. Returns True if the jitter has just
        elapsed."""
        if self._pending_until is not None and now >= self._pending_until:
            self._clear_pending()
        if self._backoff_until is not None and now >= self._backoff_until:
            self._backoff_until = None
        for name in [name for name, until in self._avoided.items() if now >= until]:
            del self._avoided[name]
        if self._opens_at is None or now < self._opens_at:
            return False
        self._opens_at = None
        return True

    def _choose(self, now: float, is_jitter_over: bool) -> Unit | None:
        """An open auction to join, else an unowned unit whose auction to open after the jitter."""
        # Joining first fills auctions, so that they close early (docs/decisions/0004).
        joinable = next((unit for unit in self._view.auctions if self._fits(unit)), None)
        if joinable is not None:
            return joinable
        unowned = next((unit for unit in self._view.unowned_units() if self._fits(unit)), None)
        # After the jitter the choice is made again: meanwhile another node may have opened an auction, or won the unit.
        if unowned is None or is_jitter_over:
            return unowned
        if self._opens_at is None:
            self._opens_at = now + self._random.uniform(0, self._settings.claim_jitter_s)
        return None

    def _fits(self, unit: Unit) -> bool:
        if not self._view.is_unowned(unit) or unit.name in self._avoided:
            return False
        # The store rejects these bids too (`rivals`); not sending them saves an auction that nothing could win.
        if unit.replica != PRIMARY and any(sibling in self._keeper.held_leases for sibling in unit.siblings()):
            return False
        # At least 1: a node without free memory must not win a unit whose footprint is unknown.
        return self._available_bytes() >= max(1, minimum_bid(self._view.spec(unit).footprint_bytes))

    def _can_bid(self, now: float) -> bool:
        is_member = self._member.is_valid(now) and self._keeper.keepalive.is_valid(now) and self._view.has_synced
        return (
            is_member
            and self._has_quorum
            # Document 000: limit concurrent reindexes per node, so that an outage is not followed by an overload.
            and len(self._keeper.warming) < self._settings.warming_max
            and self._available_bytes() > 0
        )

    def _announce(self, now: float) -> list[Effect]:
        """Announces `is_bidding` only while this node can bid. The live threshold counts it, and an auction would wait
        its whole window for a bid that never comes."""
        session = self._member.session
        can_bid = self._can_bid(now)
        held_bytes, free_bytes = self._memory
        is_same = self._announced == (session, can_bid)
        changes = (abs(new - old) for new, old in zip(self._memory, self._announced_memory, strict=True))
        if session is None or (is_same and max(changes) < ANNOUNCE_STEP_BYTES):
            return []
        self._announced, self._announced_memory = (session, can_bid), self._memory
        return [AnnounceMember(session, can_bid, held_bytes, free_bytes)]

    def _available_bytes(self) -> int:
        return 0 if self._free_bytes is None else self._free_bytes - self._reserved_bytes()

    def _reserved_bytes(self) -> int:
        """Memory of units that were won and are still warming, which the memory probe does not see yet."""
        # The default for units that were never measured: without it several could be won into the same free memory.
        default = self._settings.default_footprint_bytes
        sizes = (self._view.spec(unit).footprint_bytes for unit in self._keeper.warming)
        return sum(default if size is None else size for size in sizes)

    def _sum_held_bytes(self) -> int:
        return sum(self._view.spec(unit).footprint_bytes or 0 for unit in self._keeper.held_leases)

    def _threshold(self, unit: Unit) -> int | None:
        """The unit's own threshold, else the setting; with None the store counts the members bidding now."""
        if (own := self._view.spec(unit).max_bids) is not None:
            return own
        match self._settings.max_bids:
            case "live":
                return None
            case "pushed":
                return self._view.pushed_max_bids
            case number:
                return int(number)

    def _on_bid_result(self, unit: Unit, result: BidResult, now: float) -> None:
        self._in_flight = None
        match result.outcome:
            case BidOutcome.PLACED:
                self._failures = 0
                # The watch may deliver the auction's end before the reply to the bid arrives. Such a bid is not pending
                # any more, and to wait for its end would block this node until the mark expires.
                if not self._has_in_flight_closed or unit in self._view.auctions:
                    self._pending = unit
                    self._pending_until = now + self._settings.window_s + PENDING_BUFFER_S
            case BidOutcome.ALREADY_PENDING:
                self._back_off(now)  # the bid of a lost reply is pending: wait for the end of its auction
            case BidOutcome.NOT_OPEN | BidOutcome.BELOW_MINIMUM:
                self._avoided[unit.name] = now + self._store_backoff.delay(1, self._random)

    def _on_auction_closed(self, unit: Unit, now: float) -> None:
        self._has_in_flight_closed = self._has_in_flight_closed or unit == self._in_flight
        if unit == self._pending:
            self._clear_pending()
        if self._backoff_until is not None:
            # It may have been the auction of the bid whose reply was lost.
            self._backoff_until = min(self._backoff_until, now + self._store_backoff.delay(1, self._random))

    def _back_off(self, now: float) -> None:
        self._failures += 1
        # Jittered, so that nodes that met the same failure do not bid again at one instant.
        self._backoff_until = now + self._store_backoff.delay(self._failures, self._random)

    def _clear_pending(self) -> None:
        self._pending = self._pending_until = None


# 1.2 s of the default window: time for the event of the first close to reach the other nodes.
CLOSING_SPREAD = 0.02  # fraction of the window over which the nodes' attempts are spread
BURST_S = 1.0  # the bucket holds this many seconds of unused rate
TOKEN = 1 - 1e-9  # tokens needed for one attempt; below 1, because refilling by fractions rounds


class Closer:
    """State machine that closes each open auction when it is due.

    A random delay spreads the attempts of the nodes; most nodes learn from the watch that the auction is closed before
    their own attempt is due. A token bucket bounds the attempts of one node.
    """

    def __init__(self, settings: OwnershipSettings, view: FleetView, random: Random) -> None:
        self._view = view
        self._random = random
        self._spread_s = settings.window_s * CLOSING_SPREAD
        self._rate = settings.closings_per_s
        self._burst = max(1.0, self._rate * BURST_S)
        self._tokens = self._burst
        self._filled_at: float | None = None
        self._due_at: dict[Unit, float] = {}
        self._in_flight: set[Unit] = set()
        self._failures: dict[Unit, int] = {}
        self._backoff = Backoff(first_s=0.2, ceiling_s=max(0.2, min(5.0, settings.window_s)))

    def deadline(self) -> float | None:
        # An auction whose close is in flight is due again only after the reply.
        due = min((at for unit, at in self._due_at.items() if unit not in self._in_flight), default=None)
        if due is None or self._tokens >= TOKEN or self._filled_at is None:
            return due
        return max(due, self._filled_at + (1 - self._tokens) / self._rate)

    def handle(self, event: Event | None, now: float) -> list[Effect]:
        match event:
            case Snapshot():
                # The snapshot lists every open auction; what is not in it has ended.
                self._due_at.clear()
                for unit in self._view.auctions:
                    self._schedule(unit, self._view.closes_at[unit])
            case AuctionOpened(auction):
                self._schedule(auction.unit, now + auction.closes_in_s)
            case AuctionClosed(unit, _, _):
                self._remove(unit)
            case BidAnswered(unit, result) if result.outcome is BidOutcome.PLACED and result.is_full:
                self._due_at[unit] = now  # the bidder that filled the auction closes it without delay
            case CloseAnswered(unit, result):
                # An entry scheduled since the request was sent is newer, or belongs to the unit's next auction: it
                # stays.
                self._in_flight.discard(unit)
                self._failures.pop(unit, None)
                if result.outcome is CloseOutcome.NOT_DUE and unit not in self._due_at:
                    self._schedule(unit, now + result.wait_s)
            case CloseFailed(unit):
                self._in_flight.discard(unit)
                self._failures[unit] = self._failures.get(unit, 0) + 1
                self._due_at[unit] = now + self._backoff.delay(self._failures[unit], self._random)
        return self._close_due(now)

    def _schedule(self, unit: Unit, at: float) -> None:
        self._due_at[unit] = at + self._random.uniform(0, self._spread_s)

    def _remove(self, unit: Unit) -> None:
        self._due_at.pop(unit, None)
        self._failures.pop(unit, None)

    def _close_due(self, now: float) -> list[Effect]:
        self._refill(now)
        effects: list[Effect] = []
        due = [unit for unit, at in self._due_at.items() if at <= now and unit not in self._in_flight]
        # The longest overdue first, because the tokens may not suffice for all.
        for unit in sorted(due, key=lambda u: (self._due_at[u], u)):
            if self._tokens < TOKEN:
                break
            self._tokens -= 1
            del self._due_at[unit]
            self._in_flight.add(unit)
            effects.append(CloseAuction(unit))
        return effects

    def _refill(self, now: float) -> None:
        if self._filled_at is not None:
            # `max(0.0, …)`: time passed by the caller never makes the bucket lose tokens.
            self._tokens = min(self._burst, self._tokens + max(0.0, now - self._filled_at) * self._rate)
        self._filled_at = now
