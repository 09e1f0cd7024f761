"""The bidder: takes part in auctions, one bid at a time.

All nodes look at open units in the same order and join running auctions before opening new ones. So they meet in the
same auction, it fills and closes at once, and the next begins; if each chose at random, every auction would wait for
its window's end.
"""

from argosy.base.clock import Random
from argosy.base.retry import Backoff
from argosy.base.state_machine import earliest
from argosy.ownership.auction import PENDING_BUFFER_S, minimum_bid
from argosy.ownership.effects import Announce, Effect, PlaceBid
from argosy.ownership.events import (
    AuctionClosed,
    BidAnswered,
    BidMissed,
    Event,
    MemoryMeasured,
    ReleaseRequested,
    SessionEnded,
    Snapshot,
    Warmed,
    WarmingFailed,
)
from argosy.ownership.lease_keeper import Keeper
from argosy.ownership.model import PRIMARY, BidOutcome, BidReceipt, Role, Unit
from argosy.ownership.session_keepalive import Promise
from argosy.ownership.settings import OwnershipSettings
from argosy.ownership.view import FleetView

# How much a node's memory must change before the fleet is told: figures for people and autoscalers, not for placement.
ANNOUNCE_STEP_BYTES = 256 << 20


class Bidder:
    """A machine that wants as much as fits into this node's memory, and bids for it."""

    def __init__(
        self, settings: OwnershipSettings, view: FleetView, keeper: Keeper, member: Promise, random: Random
    ) -> None:
        self._settings = settings
        self._view = view
        self._keeper = keeper
        self._member = member
        self._random = random
        self._free_bytes: int | None = None
        self._asking: Unit | None = None  # a bid is on its way to the store
        self._is_asked_over = False  # and an auction of that unit has ended since it left
        self._pending: Unit | None = None  # a bid waits for its auction's end (OWN-3)
        self._forget_at: float | None = None
        self._opens_at: float | None = None  # jitter before opening an auction
        self._held_off_until: float | None = None  # back-off after trouble with the store
        self._failures = 0
        self._trouble = Backoff(first_s=0.1, ceiling_s=max(0.1, min(10.0, settings.window_s)))
        # Longer than one auction, which the others then win without this node.
        self._spoilt = Backoff(first_s=settings.window_s * 3, ceiling_s=settings.window_s * 24)
        self._spoilt_count: dict[str, int] = {}  # unit name -> failures to make it ready, in a row
        self._avoided: dict[str, float] = {}  # unit name -> not before
        self._is_complete = settings.members_min <= 1  # the fleet has once been as large as it should be at least
        self._alone_until: float | None = None  # waits this long for the fleet to be complete
        self._figures = (0, 0)  # held and free bytes, as last measured
        self._announced_figures = (0, 0)
        self._announced: object = None  # the member session, and what was said under it

    def deadline(self) -> float | None:
        avoided_until = min(self._avoided.values(), default=None)
        return earliest(self._opens_at, self._held_off_until, self._forget_at, avoided_until, self._alone_until)

    def handle(self, event: Event | None, now: float) -> list[Effect]:
        match event:
            case MemoryMeasured(free_bytes):
                self._free_bytes = free_bytes
                self._figures = (self._held_bytes(), max(0, self._offer()))
            case BidAnswered(unit, receipt):
                self._answered(unit, receipt, now)
            case BidMissed():
                self._asking = None
                self._hold_off(now)
            case AuctionClosed(unit, _, _):
                self._auction_closed(unit, now)
            case Snapshot():
                self._is_asked_over = True  # it may have ended in the gap that the snapshot bridges
                if self._pending not in self._view.auctions:
                    self._forget_pending()
            case SessionEnded(session) if session.role is Role.HOLDER:
                self._forget_pending()
            case Warmed(unit, _):
                self._spoilt_count.pop(unit.name, None)
            case ReleaseRequested(unit):
                self._avoided[unit.name] = now + self._spoilt.delay(1, self._random)
            case WarmingFailed(unit, _):
                failures = self._spoilt_count[unit.name] = self._spoilt_count.get(unit.name, 0) + 1
                self._avoided[unit.name] = now + self._spoilt.delay(failures, self._random)
        self._wait_for_others(now)
        return self._announce(now) + self._bid(now)

    def _wait_for_others(self, now: float) -> None:
        """Who starts first would win everything before the others are there to bid."""
        if self._is_complete or not self._view.is_current:
            return
        if self._alone_until is None:
            self._alone_until = now + self._settings.window_s
        if len(self._view.members) >= self._settings.members_min or now >= self._alone_until:
            self._is_complete, self._alone_until = True, None

    def _bid(self, now: float) -> list[Effect]:
        is_jitter_over = self._pass_time(now)
        session = self._keeper.promise.session
        is_busy = self._asking or self._pending or self._held_off_until
        if session is None or is_busy or not self._is_willing(now):
            return []
        unit = self._choose(now, is_jitter_over)
        if unit is None:
            return []
        self._asking, self._is_asked_over = unit, False
        self._opens_at = None
        min_bytes = minimum_bid(self._view.spec(unit).footprint_bytes)
        return [PlaceBid(session, unit, self._reserved(), min_bytes, self._threshold(unit))]

    def _pass_time(self, now: float) -> bool:
        """Clears what is over, so that no deadline lies in the past; true if the jitter has just run out."""
        if self._forget_at is not None and now >= self._forget_at:
            self._forget_pending()
        if self._held_off_until is not None and now >= self._held_off_until:
            self._held_off_until = None
        for name in [name for name, until in self._avoided.items() if now >= until]:
            del self._avoided[name]
        if self._opens_at is None or now < self._opens_at:
            return False
        self._opens_at = None
        return True

    def _choose(self, now: float, is_jitter_over: bool) -> Unit | None:
        """A running auction to join now, or a free unit to open one for after the jitter."""
        running = next((unit for unit in self._view.auctions if self._fits(unit)), None)
        if running is not None:
            return running
        free = next((unit for unit in self._view.open_units() if self._fits(unit)), None)
        if free is None or is_jitter_over:
            return free
        if self._opens_at is None:
            self._opens_at = now + self._random.uniform(0, self._settings.claim_jitter_s)
        return None

    def _fits(self, unit: Unit) -> bool:
        if not self._view.is_open(unit) or unit.name in self._avoided:
            return False
        if unit.replica != PRIMARY and any(sibling in self._keeper.holdings for sibling in unit.siblings()):
            return False
        return self._offer() >= max(1, minimum_bid(self._view.spec(unit).footprint_bytes))

    def _is_willing(self, now: float) -> bool:
        is_in = self._member.is_valid(now) and self._keeper.promise.is_valid(now) and self._view.is_current
        is_in = is_in and self._is_complete
        return is_in and len(self._keeper.warming) < self._settings.warming_max and self._offer() > 0

    def _announce(self, now: float) -> list[Effect]:
        """Counted among the bidders only while able to bid, so that nobody waits for a bid that will not come."""
        session = self._member.session
        is_willing = self._is_willing(now)
        held_bytes, free_bytes = self._figures
        is_same = self._announced == (session, is_willing)
        changes = (abs(now_is - was) for now_is, was in zip(self._figures, self._announced_figures, strict=True))
        if session is None or (is_same and max(changes) < ANNOUNCE_STEP_BYTES):
            return []
        self._announced, self._announced_figures = (session, is_willing), self._figures
        return [Announce(session, is_willing, held_bytes, free_bytes)]

    def _offer(self) -> int:
        return 0 if self._free_bytes is None else self._free_bytes - self._reserved()

    def _reserved(self) -> int:
        """Won and not yet in memory: what the probe cannot see."""
        default = self._settings.default_footprint_bytes
        sizes = (self._view.spec(unit).footprint_bytes for unit in self._keeper.warming)
        return sum(default if size is None else size for size in sizes)

    def _held_bytes(self) -> int:
        return sum(self._view.spec(unit).footprint_bytes or 0 for unit in self._keeper.holdings)

    def _threshold(self, unit: Unit) -> int | None:
        """A unit's own number first, then the fleet's; None lets the store count who is bidding now."""
        if (own := self._view.spec(unit).max_bids) is not None:
            return own
        match self._settings.max_bids:
            case "live":
                return None
            case "pushed":
                return self._view.pushed_max_bids
            case number:
                return int(number)

    def _answered(self, unit: Unit, receipt: BidReceipt, now: float) -> None:
        self._asking = None
        match receipt.outcome:
            case BidOutcome.PLACED:
                self._failures = 0
                # The watch may have told of the auction's end before the bid's answer came.
                if not self._is_asked_over or unit in self._view.auctions:
                    self._pending = unit
                    self._forget_at = now + self._settings.window_s + PENDING_BUFFER_S
            case BidOutcome.ALREADY_PENDING:
                self._hold_off(now)  # a bid whose answer was lost still stands: wait for that auction's end
            case BidOutcome.NOT_OPEN | BidOutcome.BELOW_MINIMUM:
                self._avoided[unit.name] = now + self._trouble.delay(1, self._random)

    def _auction_closed(self, unit: Unit, now: float) -> None:
        self._is_asked_over = self._is_asked_over or unit == self._asking
        if unit == self._pending:
            self._forget_pending()
        if self._held_off_until is not None:
            # It may have been the auction that a lost answer hid from us.
            self._held_off_until = min(self._held_off_until, now + self._trouble.delay(1, self._random))

    def _hold_off(self, now: float) -> None:
        self._failures += 1
        self._held_off_until = now + self._trouble.delay(self._failures, self._random)

    def _forget_pending(self) -> None:
        self._pending = self._forget_at = None
