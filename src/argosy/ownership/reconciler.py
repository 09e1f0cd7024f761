"""The reconciler: brings what a node holds towards what it should hold, for spaces without auctions.

Two wishes are possible. On the *ring* each unit has one owner by hash, and a change moves units safely: new owners
start trying at once, old ones wait a little, then let go, and a wish that returns in time changes nothing. With
*claim*, whoever finds a unit free may take it, as far as its memory goes.
"""

from argosy.base.clock import Random
from argosy.base.retry import Backoff
from argosy.base.state_machine import earliest
from argosy.ownership.auction import rivals
from argosy.ownership.effects import Claim, Effect
from argosy.ownership.events import (
    ClaimAnswered,
    Event,
    LeaseChanged,
    LeaseGone,
    MemoryMeasured,
    ReleaseRequested,
    WarmingFailed,
)
from argosy.ownership.lease_keeper import Keeper
from argosy.ownership.model import Unit
from argosy.ownership.ring import Ring
from argosy.ownership.session_keepalive import Promise
from argosy.ownership.settings import OwnershipSettings
from argosy.ownership.view import FleetView

CLAIMS_MAX = 16  # claims of one node under way at a time


class Reconciler:
    """A machine that claims what is wished for and says what to let go."""

    def __init__(
        self,
        settings: OwnershipSettings,
        node: str,
        view: FleetView,
        keeper: Keeper,
        member: Promise,
        random: Random,
    ) -> None:
        self._settings = settings
        self._node = node
        self._view = view
        self._keeper = keeper
        self._member = member
        self._random = random
        self._free_bytes = 0
        self._ring_version = -1
        self._specs_version = -1
        self._ring_wished: dict[Unit, None] = {}
        self._picked: dict[Unit, None] = {}
        self._asking: set[Unit] = set()
        self._tries: dict[Unit, int] = {}
        self._next_try: dict[Unit, float] = {}
        self._leave_at: dict[Unit, float] = {}
        self._spoilt_until: dict[Unit, float] = {}  # could not be made ready: not before
        self._backoff = Backoff(first_s=min(0.05, settings.claim_retry_s), ceiling_s=settings.claim_retry_s)

    def deadline(self) -> float | None:
        next_try = min(self._next_try.values(), default=None) if len(self._asking) < CLAIMS_MAX else None
        return earliest(next_try, min(self._leave_at.values(), default=None))

    def handle(self, event: Event | None, now: float) -> list[Effect]:
        match event:
            case ClaimAnswered(unit, retry_after_s):
                self._asking.discard(unit)
                self._try_again(unit, now, retry_after_s)
            case WarmingFailed(unit, _) | ReleaseRequested(unit):
                self._spoilt_until[unit] = now + self._settings.window_s
            case LeaseGone(unit, _) if unit in self._next_try:
                self._try_soon(unit, now)
            case MemoryMeasured(free_bytes):
                self._free_bytes = free_bytes
        if self._concerns(event):
            self._wish(now)
        return self._claim(now)

    def due_to_leave(self, now: float) -> list[Unit]:
        """Units held against the wish for long enough; the node lets them go."""
        due = [unit for unit, at in self._leave_at.items() if at <= now]
        for unit in due:
            del self._leave_at[unit]
        return due

    def _concerns(self, event: Event | None) -> bool:
        """Most facts are about others' leases, and passing time changes no wish."""
        match event:
            case None:
                return False
            case LeaseChanged(lease) if self._settings.placement == "ring":
                return lease.node == self._node
            case LeaseGone(unit, _) if self._settings.placement == "ring":
                return unit in self._ring_wished or unit in self._leave_at
        return True

    def _wish(self, now: float) -> None:
        if not self._may_acquire(now):
            return
        self._spoilt_until = {unit: until for unit, until in self._spoilt_until.items() if until > now}
        wished = self._ring_wish() if self._settings.placement == "ring" else self._claim_wish()
        for unit in [unit for unit in self._next_try if unit not in wished or unit in self._keeper.holdings]:
            del self._next_try[unit]
            self._tries.pop(unit, None)
        for unit in wished:
            if unit not in self._keeper.holdings and unit not in self._next_try and unit not in self._asking:
                self._try_soon(unit, now)
        if self._settings.placement == "ring":
            self._plan_leaving(wished, now)

    def _plan_leaving(self, wished: dict[Unit, None], now: float) -> None:
        for unit, holding in self._keeper.holdings.items():
            if unit in wished:
                self._leave_at.pop(unit, None)  # wanted again in time: nothing has happened
            elif unit not in self._leave_at and not holding.is_leaving:
                self._leave_at[unit] = now + self._settings.handover_wait_s
        for unit in [unit for unit in self._leave_at if unit not in self._keeper.holdings]:
            del self._leave_at[unit]

    def _ring_wish(self) -> dict[Unit, None]:
        """Computed anew only when nodes or units came or went."""
        versions = (self._view.members_version, self._view.specs_version)
        if versions != (self._ring_version, self._specs_version):
            self._ring_version, self._specs_version = versions
            ring = Ring(self._view.members, vnodes=self._settings.vnodes)
            mine = sorted(ring.wanted_by(self._node, self._view.specs))
            self._ring_wished = {Unit(name): None for name in mine}
        return self._ring_wished

    def _claim_wish(self) -> dict[Unit, None]:
        """Free units, as many as fit beside what is being warmed; each node begins elsewhere, to spare conflicts."""
        picked = {unit: None for unit in self._picked if self._view.is_open(unit) and unit not in self._spoilt_until}
        room = self._settings.warming_max - len(self._keeper.warming)
        if len(picked) < room and (count := self._view.open_count()) > len(picked):
            free_bytes = self._free_bytes - sum(map(self._size, [*self._keeper.warming, *picked]))
            for unit in self._view.open_units_from(self._random.randrange(0, count)):
                if len(picked) >= room:
                    break
                if unit not in picked and self._size(unit) <= free_bytes and not self._is_barred(unit):
                    picked[unit] = None
                    free_bytes -= self._size(unit)
        self._picked = picked
        return picked

    def _size(self, unit: Unit) -> int:
        return self._view.spec(unit).footprint_bytes or self._settings.default_footprint_bytes

    def _is_barred(self, unit: Unit) -> bool:
        return unit in self._spoilt_until or any(rival in self._keeper.holdings for rival in rivals(unit))

    def _may_acquire(self, now: float) -> bool:
        """Without membership or a valid promise nothing is acquired."""
        return self._view.is_current and self._member.is_valid(now) and self._keeper.promise.is_valid(now)

    def _claim(self, now: float) -> list[Effect]:
        session = self._keeper.promise.session
        if session is None or not self._may_acquire(now):
            self._next_try.clear()
            return []
        effects: list[Effect] = []
        for unit in [unit for unit, at in self._next_try.items() if at <= now]:
            if len(self._asking) >= CLAIMS_MAX:
                break
            del self._next_try[unit]
            if unit in self._view.leases:
                self._try_again(unit, now)
            else:
                self._asking.add(unit)
                effects.append(Claim(session, unit))
        return effects

    def _try_soon(self, unit: Unit, now: float) -> None:
        """After the jitter; what could not be made ready is given time, and to others if they may."""
        jitter_s = self._random.uniform(0, self._settings.claim_jitter_s)
        self._next_try[unit] = max(now + jitter_s, self._spoilt_until.get(unit, now))

    def _try_again(self, unit: Unit, now: float, retry_after_s: float | None = None) -> None:
        tries = self._tries[unit] = self._tries.get(unit, 0) + 1
        self._next_try[unit] = now + max(retry_after_s or 0.0, self._backoff.delay(tries, self._random))
