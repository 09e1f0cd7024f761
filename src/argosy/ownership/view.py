"""A local copy of one space, built from watch events: leases, members, open auctions and unowned units.

Reading the view never calls the store. The set of unowned units is updated incrementally, because bidder and reconciler
read it after every event. A node updates its view in its state machine; `FleetWatcher` keeps one current for a process
that takes no part in the space.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain

from sortedcontainers import SortedKeyList  # type: ignore[import-untyped]

from argosy.base import logs
from argosy.base.clock import Clock, Random, SystemClock, system_random
from argosy.base.errors import Unavailable
from argosy.base.retry import Backoff
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
    WatchEvent,
)
from argosy.ownership.model import PRIMARY, SUCCESSOR, Auction, Lease, LeaseState, Member, Unit, UnitSpec
from argosy.ownership.ports import OwnershipStore

# Enough for a stable mean, and few enough that it follows a change within minutes.
CLAIM_WAITS_MAX = 200  # latest waits from unowned to leased that are retained for the autoscale signal


class FleetView:
    """The state of one space. `has_synced` is false until the first snapshot has arrived."""

    def __init__(self, *, has_replicas: bool = True) -> None:
        """With `has_replicas=False` every unit has its primary slot only; its spec's `replicas` is ignored."""
        self._has_replicas = has_replicas
        self.has_synced = False
        self.leases: dict[Unit, Lease] = {}
        self.leases_version = 0  # incremented with every change: routes are computed per version
        self.members: dict[str, Member] = {}
        self.members_version = 0  # incremented when a node joins or leaves: the ring is built per version
        self.auctions: dict[Unit, Auction] = {}
        self.closes_at: dict[Unit, float] = {}  # local time
        self.pushed_max_bids: int | None = None
        self.specs: dict[str, UnitSpec] = {}
        self.specs_version = 0
        self.unowned_since: dict[Unit, float] = {}
        self.fruitless_auctions: dict[Unit, int] = {}  # auctions in a row that found no winner
        self.claim_waits_s: deque[float] = deque(maxlen=CLAIM_WAITS_MAX)
        self.claim_wait_s: dict[Unit, float] = {}  # how long each leased unit had been unowned, where known
        # Sorted incrementally: bidder and reconciler read its beginning after every event.
        self._unowned: SortedKeyList[Unit] = SortedKeyList(key=self._order)

    def apply(self, event: Event | None, now: float) -> None:
        """Applies one watch event or catalog read; other events are ignored."""
        match event:
            case Snapshot():
                self._replace(event, now)
            case LeaseChanged(lease):
                self.leases[lease.unit] = lease
                self.leases_version += 1
                self.fruitless_auctions.pop(lease.unit, None)
                if lease.unit in self.unowned_since:
                    self.claim_wait_s[lease.unit] = now - self.unowned_since[lease.unit]
                    self.claim_waits_s.append(self.claim_wait_s[lease.unit])
                self._review(lease.unit.name, now)
            case LeaseGone(unit, epoch):
                # The delayed end of an earlier lease must not remove the present one.
                if unit in self.leases and self.leases[unit].epoch == epoch:
                    del self.leases[unit]
                    self.claim_wait_s.pop(unit, None)
                    self.leases_version += 1
                    self._review(unit.name, now)
            case MemberChanged(member):
                # Only joins and leaves count: the ring depends on names, and records change with every announcement.
                self.members_version += member.node not in self.members
                self.members[member.node] = member
            case MemberGone(node):
                self.members_version += self.members.pop(node, None) is not None
            case AuctionOpened(auction):
                self._on_auction_opened(auction, now)
            case AuctionClosed(unit, _, winner):
                self._on_auction_closed(unit, winner)
            case MaxBidsChanged(max_bids):
                self.pushed_max_bids = max_bids
            case CatalogRead(specs):
                self._replace_specs(specs, now)

    def unowned_units(self) -> Iterator[Unit]:
        """Units in the catalog without a lease. All nodes see one order, so that they bid in the same auctions."""
        return iter(self._unowned)

    def unowned_units_from(self, index: int) -> Iterator[Unit]:
        """The same units, rotated to begin at `index`."""
        return chain(self._unowned.islice(index), self._unowned.islice(0, index))

    def unowned_count(self) -> int:
        return len(self._unowned)

    def is_unowned(self, unit: Unit) -> bool:
        return unit in self.unowned_since

    def is_in_catalog(self, unit: Unit) -> bool:
        """Whether the catalog has this slot. A successor's slot is in the catalog while its unit is."""
        spec = self.specs.get(unit.name)
        return spec is not None and unit.replica <= spec.replicas

    def spec(self, unit: Unit) -> UnitSpec:
        return self.specs.get(unit.name) or UnitSpec(unit.name)

    def ready_successor(self, unit: Unit) -> Unit | None:
        """A sibling slot whose holder is ready, and can therefore take over the unit."""
        ready = (s for s in unit.siblings() if s in self.leases and self.leases[s].state is LeaseState.READY)
        return next(ready, None)

    def bidding_count(self) -> int:
        return sum(member.is_bidding for member in self.members.values())

    def _order(self, unit: Unit) -> tuple[bool, int, str, int]:
        # Primaries before replicas: a missing primary is an outage, a missing replica only a risk. The largest first,
        # because they are the hardest to place.
        return (unit.replica != PRIMARY, -(self.spec(unit).footprint_bytes or 0), unit.name, unit.replica)

    def _replace(self, snapshot: Snapshot, now: float) -> None:
        # A snapshot after a lost connection is usually equal to what was known; then the ring is not built again.
        if self.members.keys() != {member.node for member in snapshot.members}:
            self.members_version += 1
        self.has_synced = True
        self.leases = {lease.unit: lease for lease in snapshot.leases}
        self.claim_wait_s = {
            unit: claim_wait_s for unit, claim_wait_s in self.claim_wait_s.items() if unit in self.leases
        }
        self.leases_version += 1
        self.members = {member.node: member for member in snapshot.members}
        self.auctions, self.closes_at = {}, {}
        for auction in snapshot.auctions:
            self._on_auction_opened(auction, now)
        self.pushed_max_bids = snapshot.max_bids
        self.fruitless_auctions = {
            unit: count for unit, count in self.fruitless_auctions.items() if unit not in self.leases
        }
        self._review_all(now)

    def _on_auction_opened(self, auction: Auction, now: float) -> None:
        self.auctions[auction.unit] = auction
        self.closes_at[auction.unit] = now + auction.closes_in_s

    def _on_auction_closed(self, unit: Unit, winner: str | None) -> None:
        self.auctions.pop(unit, None)
        self.closes_at.pop(unit, None)
        # Counted for the autoscale signal: a unit that no node can hold needs another node.
        if winner is None and self.is_unowned(unit):
            self.fruitless_auctions[unit] = self.fruitless_auctions.get(unit, 0) + 1

    def _replace_specs(self, specs: Iterable[UnitSpec], now: float) -> None:
        by_name = {spec.name: spec if self._has_replicas else replace(spec, replicas=0) for spec in specs}
        if by_name != self.specs:
            self._unowned.clear()  # it is sorted by the specs, so it must be built again with the new ones
            self.specs = by_name
            self.specs_version += 1
            # Units that were unowned before keep their time: a change of the catalog is not an end of their wait.
            since, self.unowned_since = self.unowned_since, {}
            self._review_all(now)
            self.unowned_since.update((unit, since[unit]) for unit in self.unowned_since if unit in since)

    def _review_all(self, now: float) -> None:
        for name in list(self.specs):
            self._review(name, now)
        for unit in [unit for unit in self._unowned if unit.name not in self.specs]:
            self._remove_unowned(unit)

    def _review(self, name: str, now: float) -> None:
        """Updates the unowned slots of one name."""
        spec = self.specs.get(name)
        if spec is None:
            return
        for slot in spec.slots():
            self._set_unowned(slot, slot not in self.leases, now)
        self._set_unowned(Unit(name, SUCCESSOR), self._needs_successor(name, spec), now)

    def _needs_successor(self, name: str, spec: UnitSpec) -> bool:
        primary = self.leases.get(Unit(name))
        if primary is None or primary.state is not LeaseState.DRAINING:
            return False
        # A replica or an earlier successor can take over already.
        return not any(slot in self.leases for slot in Unit(name).siblings())

    def _set_unowned(self, unit: Unit, is_unowned: bool, now: float) -> None:
        if is_unowned and unit not in self.unowned_since:
            self.unowned_since[unit] = now
            self._unowned.add(unit)
        elif not is_unowned and unit in self.unowned_since:
            self._remove_unowned(unit)

    def _remove_unowned(self, unit: Unit) -> None:
        del self.unowned_since[unit]
        self._unowned.remove(unit)


WATCH_BACKOFF = Backoff(first_s=0.1, ceiling_s=2.0)


async def watch_events(
    store: OwnershipStore, clock: Clock, random: Random, *, on_unreachable: Callable[[Unavailable], None]
) -> AsyncIterator[WatchEvent]:
    """All events of the store's space, without end. A watch that fails is opened again; it then begins with a snapshot,
    which replaces the state so far."""
    failures = 0
    while True:
        try:
            async for event in store.watch():
                # An event shows that the connection works, so the next failure starts with a short pause.
                failures = 0
                yield event
        except Unavailable as error:
            on_unreachable(error)
        failures += 1
        await clock.sleep(WATCH_BACKOFF.delay(failures, random))


class FleetWatcher:
    """Keeps a `FleetView` current without being a member of the space. The gateway routes by it."""

    def __init__(self, store: OwnershipStore, *, clock: Clock | None = None, random: Random | None = None) -> None:
        self.view = FleetView()
        self.observers: list[Callable[[], None]] = []  # called after every event
        self._store = store
        self._clock = clock or SystemClock()
        self._random = random or system_random()
        self._log = logs.get("ownership").bind(space=store.space.name)
        self._synced = asyncio.Event()

    async def run(self) -> None:
        """Follows the watch until this task is cancelled."""
        events = watch_events(self._store, self._clock, self._random, on_unreachable=self._on_unreachable)
        async for event in events:
            self.view.apply(event, self._clock.now())
            self._synced.set()
            for observer in self.observers:
                observer()

    async def wait_synced(self) -> None:
        """Returns once the first snapshot has arrived."""
        await self._synced.wait()

    def _on_unreachable(self, error: Unavailable) -> None:
        self._log.warning("store unreachable", error=str(error))
