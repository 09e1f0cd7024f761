"""What a node knows of its space, folded from the watch: leases, members, running auctions, and what is still open.

No question here ever asks the store. The set of open units is kept up to date change by change, because it is looked at
after every fact.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from sortedcontainers import SortedKeyList  # type: ignore[import-untyped]

from argosy.ownership.events import (
    AuctionClosed,
    AuctionOpened,
    CatalogRead,
    Event,
    LeaseChanged,
    LeaseGone,
    MaxBidsChanged,
    MemberChanged,
    MemberGone,
    Snapshot,
)
from argosy.ownership.model import PRIMARY, SUCCESSOR, Auction, Lease, LeaseState, Member, Unit, UnitSpec

CLAIMS_REMEMBERED = 200  # the latest waits from open to held, for the autoscale signal


class FleetView:
    """The space as last told. `is_current` is false until a first snapshot has come."""

    def __init__(self, *, has_replicas: bool = True) -> None:
        """Without replicas a unit has its primary only, whatever its spec asks for."""
        self._has_replicas = has_replicas
        self.is_current = False
        self.leases: dict[Unit, Lease] = {}
        self.leases_version = 0  # grows with every change: routes are made per version
        self.members: dict[str, Member] = {}
        self.members_version = 0  # grows when a node comes or goes: a ring is built per version
        self.auctions: dict[Unit, Auction] = {}
        self.closes_at: dict[Unit, float] = {}  # local time
        self.pushed_max_bids: int | None = None
        self.specs: dict[str, UnitSpec] = {}
        self.specs_version = 0
        self.open_since: dict[Unit, float] = {}
        self.fruitless: dict[Unit, int] = {}  # auctions in a row that found no winner
        self.claimed_after_s: deque[float] = deque(maxlen=CLAIMS_REMEMBERED)
        self.waited_s: dict[Unit, float] = {}  # how long each leased unit had been open, where that was seen
        self._open: SortedKeyList[Unit] = SortedKeyList(key=self._order)

    def apply(self, event: Event | None, now: float) -> None:
        """Takes in one fact; what is not about the space is ignored."""
        match event:
            case Snapshot():
                self._replace(event, now)
            case LeaseChanged(lease):
                self.leases[lease.unit] = lease
                self.leases_version += 1
                self.fruitless.pop(lease.unit, None)
                if lease.unit in self.open_since:
                    self.waited_s[lease.unit] = now - self.open_since[lease.unit]
                    self.claimed_after_s.append(self.waited_s[lease.unit])
                self._review(lease.unit.name, now)
            case LeaseGone(unit, epoch):
                if unit in self.leases and self.leases[unit].epoch == epoch:
                    del self.leases[unit]
                    self.waited_s.pop(unit, None)
                    self.leases_version += 1
                    self._review(unit.name, now)
            case MemberChanged(member):
                self.members_version += member.node not in self.members
                self.members[member.node] = member
            case MemberGone(node):
                self.members_version += self.members.pop(node, None) is not None
            case AuctionOpened(auction):
                self._auction_opened(auction, now)
            case AuctionClosed(unit, _, winner):
                self._auction_closed(unit, winner)
            case MaxBidsChanged(max_bids):
                self.pushed_max_bids = max_bids
            case CatalogRead(specs):
                self._wish(specs, now)

    def open_units(self) -> Iterator[Unit]:
        """Wanted and held by nobody, in an order that all nodes share, so that they meet in the same auctions."""
        return iter(self._open)

    def open_units_from(self, index: int) -> Iterator[Unit]:
        """The same units, beginning elsewhere in the circle."""
        return chain(self._open.islice(index), self._open.islice(0, index))

    def open_count(self) -> int:
        return len(self._open)

    def is_open(self, unit: Unit) -> bool:
        return unit in self.open_since

    def is_wished(self, unit: Unit) -> bool:
        """Whether the catalog asks for this slot; that of a successor is asked for as long as its unit is."""
        spec = self.specs.get(unit.name)
        return spec is not None and unit.replica <= spec.replicas

    def spec(self, unit: Unit) -> UnitSpec:
        return self.specs.get(unit.name) or UnitSpec(unit.name)

    def heir(self, unit: Unit) -> Unit | None:
        """A sibling slot whose holder is ready to take the unit over."""
        ready = (s for s in unit.siblings() if s in self.leases and self.leases[s].state is LeaseState.READY)
        return next(ready, None)

    def bidding_count(self) -> int:
        return sum(member.is_bidding for member in self.members.values())

    def _order(self, unit: Unit) -> tuple[bool, int, str, int]:
        # Primaries before replicas; the largest first, because they are the hardest to place.
        return (unit.replica != PRIMARY, -(self.spec(unit).footprint_bytes or 0), unit.name, unit.replica)

    def _replace(self, snapshot: Snapshot, now: float) -> None:
        if self.members.keys() != {member.node for member in snapshot.members}:
            self.members_version += 1
        self.is_current = True
        self.leases = {lease.unit: lease for lease in snapshot.leases}
        self.waited_s = {unit: waited_s for unit, waited_s in self.waited_s.items() if unit in self.leases}
        self.leases_version += 1
        self.members = {member.node: member for member in snapshot.members}
        self.auctions, self.closes_at = {}, {}
        for auction in snapshot.auctions:
            self._auction_opened(auction, now)
        self.pushed_max_bids = snapshot.max_bids
        self.fruitless = {unit: count for unit, count in self.fruitless.items() if unit not in self.leases}
        self._review_all(now)

    def _auction_opened(self, auction: Auction, now: float) -> None:
        self.auctions[auction.unit] = auction
        self.closes_at[auction.unit] = now + auction.closes_in_s

    def _auction_closed(self, unit: Unit, winner: str | None) -> None:
        self.auctions.pop(unit, None)
        self.closes_at.pop(unit, None)
        if winner is None and self.is_open(unit):
            self.fruitless[unit] = self.fruitless.get(unit, 0) + 1

    def _wish(self, specs: Iterable[UnitSpec], now: float) -> None:
        wished = {spec.name: spec if self._has_replicas else replace(spec, replicas=0) for spec in specs}
        if wished != self.specs:
            self._open.clear()  # its order depends on the specs
            self.specs = wished
            self.specs_version += 1
            since, self.open_since = self.open_since, {}
            self._review_all(now)
            self.open_since.update((unit, since[unit]) for unit in self.open_since if unit in since)

    def _review_all(self, now: float) -> None:
        for name in list(self.specs):
            self._review(name, now)
        for unit in [unit for unit in self._open if unit.name not in self.specs]:
            self._shut(unit)

    def _review(self, name: str, now: float) -> None:
        """Brings the open slots of one name up to date."""
        spec = self.specs.get(name)
        if spec is None:
            return
        for slot in spec.slots():
            self._set_open(slot, slot not in self.leases, now)
        self._set_open(Unit(name, SUCCESSOR), self._needs_successor(name, spec), now)

    def _needs_successor(self, name: str, spec: UnitSpec) -> bool:
        primary = self.leases.get(Unit(name))
        if primary is None or primary.state is not LeaseState.DRAINING:
            return False
        return not any(slot in self.leases for slot in Unit(name).siblings())

    def _set_open(self, unit: Unit, is_open: bool, now: float) -> None:
        if is_open and unit not in self.open_since:
            self.open_since[unit] = now
            self._open.add(unit)
        elif not is_open and unit in self.open_since:
            self._shut(unit)

    def _shut(self, unit: Unit) -> None:
        del self.open_since[unit]
        self._open.remove(unit)
