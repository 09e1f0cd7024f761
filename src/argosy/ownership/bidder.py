"""Bidder: takes part in auctions, one bid at a time (OWN-3).

All nodes go through unowned units in the same order and join open auctions before they open new ones. They therefore
bid in the same auction, which fills and closes at once. If each node chose at random, most auctions would stay open
until the end of their window.
"""

from argosy.base.clock import Random
from argosy.base.retry import Backoff
from argosy.base.state_machine import earliest
from argosy.ownership.auction import PENDING_BUFFER_S, minimum_bid
from argosy.ownership.effects import AnnounceMember, Effect, PlaceBid
from argosy.ownership.events import (
    AuctionClosed,
    BidAnswered,
    BidFailed,
    Event,
    MemoryMeasured,
    ReleaseRequested,
    SessionEnded,
    Snapshot,
    UnitWarmed,
    WarmingFailed,
)
from argosy.ownership.lease_keeper import LeaseKeeper
from argosy.ownership.model import PRIMARY, BidOutcome, BidResult, SessionRole, Unit
from argosy.ownership.session_keepalive import SessionKeepAlive
from argosy.ownership.settings import OwnershipSettings
from argosy.ownership.view import FleetView

# Memory must change by this much before it is announced again: placement does not use the announced figures, only
# people and autoscalers do.
ANNOUNCE_STEP_BYTES = 256 << 20


class Bidder:
    """State machine that bids for as many units as fit into this node's memory."""

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
        self._in_flight: Unit | None = None  # a bid has been sent and not answered
        self._has_in_flight_closed = False  # an auction of that unit has ended since the bid was sent
        self._pending: Unit | None = None  # a bid waits for the end of its auction (OWN-3)
        self._pending_until: float | None = None
        self._opens_at: float | None = None  # jitter before opening an auction
        self._backoff_until: float | None = None  # after an unanswered or rejected bid
        self._failures = 0
        self._store_backoff = Backoff(first_s=0.1, ceiling_s=max(0.1, min(10.0, settings.window_s)))
        # Longer than one auction, so that another node wins the unit in the meantime.
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
            case BidFailed():
                self._in_flight = None
                self._back_off(now)
            case AuctionClosed(unit, _, _):
                self._on_auction_closed(unit, now)
            case Snapshot():
                self._has_in_flight_closed = True  # the snapshot may hide its end
                if self._pending not in self._view.auctions:
                    self._clear_pending()
            case SessionEnded(session) if session.role is SessionRole.HOLDER:
                self._clear_pending()
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
        """Without this wait, the first node of a starting fleet would win every auction before the others join."""
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
        if session is None or is_busy or not self._can_bid(now):
            return []
        unit = self._choose(now, is_jitter_over)
        if unit is None:
            return []
        self._in_flight, self._has_in_flight_closed = unit, False
        self._opens_at = None
        min_bytes = minimum_bid(self._view.spec(unit).footprint_bytes)
        return [PlaceBid(session, unit, self._reserved_bytes(), min_bytes, self._threshold(unit))]

    def _clear_expired(self, now: float) -> bool:
        """Clears expired deadlines, so that none lies in the past. Returns True if the jitter has just elapsed."""
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
        running = next((unit for unit in self._view.auctions if self._fits(unit)), None)
        if running is not None:
            return running
        free = next((unit for unit in self._view.unowned_units() if self._fits(unit)), None)
        if free is None or is_jitter_over:
            return free
        if self._opens_at is None:
            self._opens_at = now + self._random.uniform(0, self._settings.claim_jitter_s)
        return None

    def _fits(self, unit: Unit) -> bool:
        if not self._view.is_unowned(unit) or unit.name in self._avoided:
            return False
        if unit.replica != PRIMARY and any(sibling in self._keeper.held_leases for sibling in unit.siblings()):
            return False
        return self._available_bytes() >= max(1, minimum_bid(self._view.spec(unit).footprint_bytes))

    def _can_bid(self, now: float) -> bool:
        is_member = self._member.is_valid(now) and self._keeper.keepalive.is_valid(now) and self._view.has_synced
        return (
            is_member
            and self._has_quorum
            and len(self._keeper.warming) < self._settings.warming_max
            and self._available_bytes() > 0
        )

    def _announce(self, now: float) -> list[Effect]:
        """Announces `is_bidding` only while this node can bid: the live threshold counts it, and an auction would wait
        for a bid that never comes."""
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
                # The watch may deliver the auction's end before the reply to the bid arrives.
                if not self._has_in_flight_closed or unit in self._view.auctions:
                    self._pending = unit
                    self._pending_until = now + self._settings.window_s + PENDING_BUFFER_S
            case BidOutcome.ALREADY_PENDING:
                self._back_off(now)  # a bid whose reply was lost is still pending: wait for the end of its auction
            case BidOutcome.NOT_OPEN | BidOutcome.BELOW_MINIMUM:
                self._avoided[unit.name] = now + self._store_backoff.delay(1, self._random)

    def _on_auction_closed(self, unit: Unit, now: float) -> None:
        self._has_in_flight_closed = self._has_in_flight_closed or unit == self._in_flight
        if unit == self._pending:
            self._clear_pending()
        if self._backoff_until is not None:
            # It may have been the auction of a bid whose reply was lost.
            self._backoff_until = min(self._backoff_until, now + self._store_backoff.delay(1, self._random))

    def _back_off(self, now: float) -> None:
        self._failures += 1
        self._backoff_until = now + self._store_backoff.delay(self._failures, self._random)

    def _clear_pending(self) -> None:
        self._pending = self._pending_until = None
