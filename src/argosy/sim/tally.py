"""Counts what happens in one auctioned space, from outside: facts as the store tells them, calls as it answers them."""

from collections.abc import Callable

from argosy.ownership.events import AuctionOpened, Fact, LeaseChanged, LeaseGone
from argosy.ownership.model import BidOutcome, BidReceipt, CloseOutcome, Closing, LeaseState, Unit
from argosy.sim.network import Served
from argosy.sim.report import AuctionFigures


class Tally:
    """The running figures of one fleet. Only primaries count as repos; successors' slots are means to an end."""

    def __init__(self, repos: int, true_now: Callable[[], float]) -> None:
        self.first_owned_s: float | None = None
        self.all_owned_s: float | None = None
        self.all_ready_s: float | None = None
        self.moves = 0
        self.failovers_s: list[float] = []
        self.owned: list[tuple[float, int, int]] = [(0.0, 0, 0)]
        self._repos = repos
        self._true_now = true_now
        self._holder: dict[Unit, str] = {}          # now
        self._ready: dict[Unit, None] = {}
        self._last_holder: dict[Unit, str] = {}     # now or before
        self._awaited: dict[Unit, float] = {}       # repos of dead nodes -> when they died
        self._started = self._short = self._timed_out = self._no_winner = self._bids = 0

    @property
    def is_all_ready(self) -> bool:
        return len(self._ready) == self._repos and not self._awaited

    @property
    def ready(self) -> int:
        return len(self._ready) - len(self._awaited)

    def auctions(self) -> AuctionFigures:
        return AuctionFigures(self._started, self._short, self._timed_out, self._no_winner, self._bids)

    def node_died(self, node: str) -> None:
        """Its repos are unserved from this instant, though their leases stand for a while."""
        now = self._true_now()
        for unit, holder in self._holder.items():
            if holder == node and unit in self._ready:
                self._awaited[unit] = now

    def sample(self) -> None:
        """Notes how many repos are owned and ready, if that has changed."""
        figures = (len(self._holder), self.ready)
        if figures != self.owned[-1][1:]:
            self.owned.append((round(self._true_now(), 3), *figures))

    def saw(self, fact: Fact) -> None:
        match fact:
            case LeaseChanged(lease) if not lease.unit.replica:
                self._granted(lease.unit, lease.node, lease.state)
            case LeaseGone(unit, _) if not unit.replica:
                self._holder.pop(unit, None)
                self._ready.pop(unit, None)
            case AuctionOpened():
                self._started += 1

    def tapped(self, served: Served) -> None:
        match served.outcome:
            case BidReceipt(BidOutcome.PLACED):
                self._bids += 1
            case Closing(CloseOutcome.WON | CloseOutcome.NO_WINNER as outcome, is_short_circuit=is_short):
                self._short += is_short
                self._timed_out += not is_short
                self._no_winner += outcome is CloseOutcome.NO_WINNER

    def _granted(self, unit: Unit, node: str, state: LeaseState) -> None:
        now = self._true_now()
        self.moves += self._last_holder.get(unit, node) != node
        self._holder[unit] = self._last_holder[unit] = node
        if self.first_owned_s is None:
            self.first_owned_s = round(now, 3)
        if self.all_owned_s is None and len(self._holder) == self._repos:
            self.all_owned_s = round(now, 3)
        if state is LeaseState.READY:
            self._ready[unit] = None
            if (died_at := self._awaited.pop(unit, None)) is not None:
                self.failovers_s.append(now - died_at)
            if self.all_ready_s is None and self.is_all_ready:
                self.all_ready_s = round(now, 3)
