"""The closer: every node watches every auction's clock, and whoever comes first closes it.

The store lets one caller through (OWN-6), so there is no evaluator to elect and none to lose. A random delay spreads
the callers, and most of them learn from the watch that the work is done; a bucket bounds how often one node asks.
"""

from argosy.base.clock import Random
from argosy.base.retry import Backoff
from argosy.ownership.effects import CloseAuction, Effect
from argosy.ownership.events import (
    AuctionClosed,
    AuctionOpened,
    BidAnswered,
    ClosingAnswered,
    ClosingMissed,
    Event,
    Snapshot,
)
from argosy.ownership.model import BidOutcome, CloseOutcome, Unit
from argosy.ownership.settings import OwnershipSettings
from argosy.ownership.view import FleetView

CLOSING_SPREAD = 0.02  # of the window: how far apart the nodes' attempts lie
BURST_S = 1.0  # how much unused rate a node may save up
TOKEN = 1 - 1e-9  # what one attempt needs: refilling by fractions must not fall short of it by rounding


class Closer:
    """A machine that knows when each auction it has seen is due."""

    def __init__(self, settings: OwnershipSettings, view: FleetView, random: Random) -> None:
        self._view = view
        self._random = random
        self._spread_s = settings.window_s * CLOSING_SPREAD
        self._rate = settings.closings_per_s
        self._burst = max(1.0, self._rate * BURST_S)
        self._tokens = self._burst
        self._filled_at: float | None = None
        self._due_at: dict[Unit, float] = {}
        self._asking: set[Unit] = set()
        self._failures: dict[Unit, int] = {}
        self._backoff = Backoff(first_s=0.2, ceiling_s=max(0.2, min(5.0, settings.window_s)))

    def deadline(self) -> float | None:
        due = min((at for unit, at in self._due_at.items() if unit not in self._asking), default=None)
        if due is None or self._tokens >= TOKEN or self._filled_at is None:
            return due
        return max(due, self._filled_at + (1 - self._tokens) / self._rate)

    def handle(self, event: Event | None, now: float) -> list[Effect]:
        match event:
            case Snapshot():
                self._due_at.clear()
                for unit in self._view.auctions:
                    self._schedule(unit, self._view.closes_at[unit])
            case AuctionOpened(auction):
                self._schedule(auction.unit, now + auction.closes_in_s)
            case AuctionClosed(unit, _, _):
                self._forget(unit)
            case BidAnswered(unit, receipt) if receipt.outcome is BidOutcome.PLACED and receipt.is_full:
                self._due_at[unit] = now
            case ClosingAnswered(unit, closing):
                # What has been scheduled since the question left is a later auction's, or news of this one: it stands.
                self._asking.discard(unit)
                self._failures.pop(unit, None)
                if closing.outcome is CloseOutcome.NOT_DUE and unit not in self._due_at:
                    self._schedule(unit, now + closing.wait_s)
            case ClosingMissed(unit):
                self._asking.discard(unit)
                self._failures[unit] = self._failures.get(unit, 0) + 1
                self._due_at[unit] = now + self._backoff.delay(self._failures[unit], self._random)
        return self._close_due(now)

    def _schedule(self, unit: Unit, at: float) -> None:
        self._due_at[unit] = at + self._random.uniform(0, self._spread_s)

    def _forget(self, unit: Unit) -> None:
        self._due_at.pop(unit, None)
        self._failures.pop(unit, None)

    def _close_due(self, now: float) -> list[Effect]:
        self._refill(now)
        effects: list[Effect] = []
        due = [unit for unit, at in self._due_at.items() if at <= now and unit not in self._asking]
        for unit in sorted(due, key=lambda u: (self._due_at[u], u)):
            if self._tokens < TOKEN:
                break
            self._tokens -= 1
            del self._due_at[unit]
            self._asking.add(unit)
            effects.append(CloseAuction(unit))
        return effects

    def _refill(self, now: float) -> None:
        if self._filled_at is not None:
            self._tokens = min(self._burst, self._tokens + max(0.0, now - self._filled_at) * self._rate)
        self._filled_at = now
