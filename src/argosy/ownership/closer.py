"""Closer: every node tracks the end of every auction and tries to close it.

The store lets exactly one caller close an auction (OWN-6), so no evaluator has to be elected and none can fail. A
random delay spreads the attempts; most nodes learn from the watch that the auction is closed before their own attempt
is due. A token bucket bounds the attempts of one node."""

from argosy.base.clock import Random
from argosy.base.retry import Backoff
from argosy.ownership.effects import CloseAuction, Effect
from argosy.ownership.events import (
    AuctionClosed,
    AuctionOpened,
    BidAnswered,
    CloseAnswered,
    CloseFailed,
    Event,
    Snapshot,
)
from argosy.ownership.model import BidOutcome, CloseOutcome, Unit
from argosy.ownership.settings import OwnershipSettings
from argosy.ownership.view import FleetView

CLOSING_SPREAD = 0.02  # fraction of the window over which the nodes' attempts are spread
BURST_S = 1.0  # seconds of unused rate that the bucket holds
TOKEN = 1 - 1e-9  # tokens needed for one attempt; below 1, because refilling by fractions rounds


class Closer:
    """State machine that closes each open auction when it is due."""

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
        due = min((at for unit, at in self._due_at.items() if unit not in self._in_flight), default=None)
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
                self._remove(unit)
            case BidAnswered(unit, result) if result.outcome is BidOutcome.PLACED and result.is_full:
                self._due_at[unit] = now
            case CloseAnswered(unit, result):
                # An entry scheduled since the request was sent belongs to a later auction, or is newer: it stays.
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
            self._tokens = min(self._burst, self._tokens + max(0.0, now - self._filled_at) * self._rate)
        self._filled_at = now
