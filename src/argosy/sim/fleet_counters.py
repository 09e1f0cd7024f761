"""Counts what happens in one auctioned space, from outside: events and calls of the store, and indexes that nodes
load."""

import math
from collections.abc import Callable

from argosy.ownership.events import AuctionOpened, LeaseChanged, LeaseGone, WatchEvent
from argosy.ownership.model import PRIMARY, BidOutcome, BidResult, CloseOutcome, CloseResult, Lease, LeaseState, Unit
from argosy.sim.index_executor import SimIndex
from argosy.sim.network import StoreCall
from argosy.sim.report import AuctionFigures, DrainFigures, EvictionFigures, RefreshFigures, spread_of


class FleetCounters:
    """The running figures of one fleet. Only primaries count as repositories, and no replica or successor slots."""

    def __init__(self, repos: int, true_now: Callable[[], float]) -> None:
        self.first_owned_s: float | None = None
        self.all_owned_s: float | None = None
        self.all_ready_s: float | None = None
        self.moves = 0
        self.failovers_s: list[float] = []
        self.owned: list[tuple[float, int, int]] = [(0.0, 0, 0)]
        self._repos = repos
        self._true_now = true_now
        self._holder: dict[Unit, str] = {}  # now
        self._ready: dict[Unit, str] = {}  # ready slots -> node
        self._ready_repos = 0
        self._last_holder: dict[Unit, str] = {}  # now or before
        self._awaited: dict[Unit, float] = {}  # of crashed nodes -> since when; inf: a replica goes on serving
        self._started = self._short = self._timed_out = self._no_winner = self._bids = 0
        self._unserved_commits: dict[
            str, tuple[str, float]
        ] = {}  # repo -> a commit that is not yet served, and since when
        self._lags_s: list[float] = []
        self._evictions = 0
        self._evicted: dict[Unit, float] = {}  # not yet served again -> since when
        self._reclaims_s: list[float] = []
        self._drains_s: list[float] = []
        self._leaving: set[Unit] = set()  # of the node that is being drained
        self._handed_off = 0
        self._unserved: set[Unit] = set()
        self._gone: list[Unit] = []  # by the current call

    @property
    def is_all_ready(self) -> bool:
        return self._ready_repos == self._repos and not self._awaited and not self._evicted

    @property
    def is_all_fresh(self) -> bool:
        return not self._unserved_commits

    @property
    def ready(self) -> int:
        return self._ready_repos - len(self._awaited)

    @property
    def fresh(self) -> int:
        return len(self._lags_s)

    def auctions(self) -> AuctionFigures:
        return AuctionFigures(self._started, self._short, self._timed_out, self._no_winner, self._bids)

    def refresh(self) -> RefreshFigures:
        return RefreshFigures(len(self._lags_s) + len(self._unserved_commits), *spread_of(self._lags_s))

    def evictions(self) -> EvictionFigures:
        return EvictionFigures(self._evictions, len(self._reclaims_s), *spread_of(self._reclaims_s))

    def drain(self) -> DrainFigures:
        longest = spread_of(self._drains_s)[2]
        return DrainFigures(len(self._drains_s), longest, self._handed_off, len(self._unserved))

    def repos_of(self, node: str) -> list[str]:
        return [unit.name for unit, holder in self._holder.items() if holder == node]

    # -- world ------------------------------------------------------------------------------------------------------

    def on_node_death(self, node: str) -> None:
        """Its repositories are unserved from this instant, although their leases are valid for a while; those with a
        ready replica elsewhere go on being served."""
        now = self._true_now()
        elsewhere = {unit.name for unit, at in self._ready.items() if at != node}
        for unit, holder in self._holder.items():
            if holder == node and unit in self._ready:
                self._awaited[unit] = math.inf if unit.name in elsewhere else now

    def on_drain_started(self, node: str) -> None:
        self._leaving = {unit for unit, holder in self._holder.items() if holder == node}
        self._handed_off += len(self._leaving)

    def on_drain_ended(self, took_s: float) -> None:
        self._leaving = set()
        self._drains_s.append(took_s)

    def on_commit(self, name: str, commit: str) -> None:
        self._unserved_commits.setdefault(name, (commit, self._true_now()))

    def on_put(self, node: str, index: SimIndex) -> None:
        commit, since = self._unserved_commits.get(index.repository.name, ("", 0.0))
        if commit == index.commit:
            del self._unserved_commits[index.repository.name]
            self._lags_s.append(self._true_now() - since)

    def on_evicted(self, node: str, name: str) -> None:
        self._evictions += 1
        # Without a replica's index the repository is still served.
        if self._holder.get(Unit(name)) == node:
            self._evicted[Unit(name)] = self._true_now()

    def sample(self) -> None:
        """Record how many repositories are owned and ready, if that has changed."""
        figures = (len(self._holder), self.ready)
        if figures != self.owned[-1][1:]:
            self.owned.append((round(self._true_now(), 3), *figures))

    # -- store ------------------------------------------------------------------------------------------------------

    def on_event(self, event: WatchEvent) -> None:
        match event:
            case LeaseChanged(lease) if lease.unit.replica >= PRIMARY:
                self._on_lease(lease)
            case LeaseGone(unit, _) if unit.replica >= PRIMARY:
                self._ready_repos -= unit.replica == PRIMARY and unit in self._ready
                self._holder.pop(unit, None)
                self._ready.pop(unit, None)
                self._gone.append(unit)
            case AuctionOpened():
                self._started += 1

    def on_call(self, served: StoreCall) -> None:
        """A call is done: a unit that it took from a node and did not give to a ready one is unserved."""
        self._unserved.update(unit for unit in self._gone if unit in self._leaving and unit not in self._ready)
        self._gone.clear()
        match served.outcome:
            case BidResult(BidOutcome.PLACED):
                self._bids += 1
            case CloseResult(CloseOutcome.WON | CloseOutcome.NO_WINNER as outcome, is_short_circuit=is_short):
                self._short += is_short
                self._timed_out += not is_short
                self._no_winner += outcome is CloseOutcome.NO_WINNER

    def _on_lease(self, lease: Lease) -> None:
        unit, is_ready = lease.unit, lease.state is LeaseState.READY
        if is_ready:
            self._ready_repos += unit.replica == PRIMARY and unit not in self._ready
            self._ready[unit] = lease.node
        if unit.replica != PRIMARY:
            return
        now = self._true_now()
        self.moves += self._last_holder.get(unit, lease.node) != lease.node
        self._holder[unit] = self._last_holder[unit] = lease.node
        if self.first_owned_s is None:
            self.first_owned_s = round(now, 3)
        if self.all_owned_s is None and len(self._holder) == self._repos:
            self.all_owned_s = round(now, 3)
        if is_ready:
            self._on_served_again(unit, now)
            if self.all_ready_s is None and self.is_all_ready:
                self.all_ready_s = round(now, 3)

    def _on_served_again(self, unit: Unit, now: float) -> None:
        if (evicted_at := self._evicted.pop(unit, None)) is not None:
            self._reclaims_s.append(now - evicted_at)
        if (died_at := self._awaited.pop(unit, None)) is not None:
            self.failovers_s.append(max(0.0, now - died_at))
