"""Reconciler: moves the units a node holds towards the units it should hold, in spaces without auctions.

There are two placements. On the *ring* each unit has one owner by hash. A ring change moves units with little downtime:
new owners try to claim at once, old owners release after `handoff_wait_s`, when the new ones are waiting, and a unit
that returns to its old owner in time is not moved at all. With *claim*, any node may claim an unowned unit that fits
into its memory. In both cases the store grants a lease only if there is none, so nodes that see different members
cannot make two holders."""

from argosy.base.clock import Random
from argosy.base.retry import Backoff
from argosy.base.state_machine import earliest
from argosy.ownership.effects import ClaimLease, Effect
from argosy.ownership.events import (
    ClaimAnswered,
    Event,
    LeaseChanged,
    LeaseGone,
    MemoryMeasured,
    ReleaseRequested,
    WarmingFailed,
)
from argosy.ownership.lease_keeper import LeaseKeeper
from argosy.ownership.model import Unit, rivals
from argosy.ownership.ring import Ring
from argosy.ownership.session_keepalive import SessionKeepAlive
from argosy.ownership.settings import OwnershipSettings
from argosy.ownership.view import FleetView

CLAIMS_MAX = 16  # concurrent claims of one node: after a change of the ring it may have thousands to make


class Reconciler:
    """State machine that claims the target units, and names the units to release."""

    def __init__(
        self,
        settings: OwnershipSettings,
        node: str,
        view: FleetView,
        keeper: LeaseKeeper,
        member: SessionKeepAlive,
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
        self._ring_units: dict[Unit, None] = {}
        self._claim_picks: dict[Unit, None] = {}
        self._in_flight: set[Unit] = set()
        # Attempts per unit, for the back-off: an old owner may take `handoff_wait_s` and longer to release.
        self._tries: dict[Unit, int] = {}
        self._claim_at: dict[Unit, float] = {}
        self._release_at: dict[Unit, float] = {}
        self._avoided_until: dict[Unit, float] = {}  # unit -> time of the next claim after warming failed
        self._backoff = Backoff(first_s=min(0.05, settings.claim_retry_s), ceiling_s=settings.claim_retry_s)

    def deadline(self) -> float | None:
        # With all claims in flight a due one could not be sent; a reply wakes the machine instead.
        claim_at = min(self._claim_at.values(), default=None) if len(self._in_flight) < CLAIMS_MAX else None
        return earliest(claim_at, min(self._release_at.values(), default=None))

    def handle(self, event: Event | None, now: float) -> list[Effect]:
        match event:
            case ClaimAnswered(unit, retry_after_s):
                self._in_flight.discard(unit)
                self._claim_again(unit, now, retry_after_s)
            # One window, in which another node with more memory can claim the unit.
            case WarmingFailed(unit, _) | ReleaseRequested(unit):
                self._avoided_until[unit] = now + self._settings.window_s
            # The owner is waiting for this: the old one has released, or its session has expired.
            case LeaseGone(unit, _) if unit in self._claim_at:
                self._claim_soon(unit, now)
            case MemoryMeasured(free_bytes):
                self._free_bytes = free_bytes
        if self._affects_targets(event):
            self._update_targets(now)
        return self._claim(now)

    def due_releases(self, now: float) -> list[Unit]:
        """Held units that have not been targets for `handoff_wait_s`; the node releases them."""
        due = [unit for unit, at in self._release_at.items() if at <= now]
        for unit in due:
            del self._release_at[unit]
        return due

    def _affects_targets(self, event: Event | None) -> bool:
        """Whether the event can change the targets. Most events are leases of other nodes, and time changes nothing."""
        match event:
            case None:
                return False
            case LeaseChanged(lease) if self._settings.placement == "ring":
                return lease.node == self._node
            case LeaseGone(unit, _) if self._settings.placement == "ring":
                return unit in self._ring_units or unit in self._release_at
        return True

    def _update_targets(self, now: float) -> None:
        # Targets computed without valid sessions would be of a fleet that this node may not be part of.
        if not self._may_acquire(now):
            return
        self._avoided_until = {unit: until for unit, until in self._avoided_until.items() if until > now}
        # On the ring the targets are all units of this node; with claims, only those to claim next.
        targets = self._ring_targets() if self._settings.placement == "ring" else self._claim_targets()
        for unit in [unit for unit in self._claim_at if unit not in targets or unit in self._keeper.held_leases]:
            del self._claim_at[unit]
            self._tries.pop(unit, None)
        for unit in targets:
            if unit not in self._keeper.held_leases and unit not in self._claim_at and unit not in self._in_flight:
                self._claim_soon(unit, now)
        if self._settings.placement == "ring":
            self._plan_releases(targets, now)

    def _plan_releases(self, targets: dict[Unit, None], now: float) -> None:
        for unit, held in self._keeper.held_leases.items():
            if unit in targets:
                self._release_at.pop(unit, None)  # a target again in time: not moved
            # Not at once: the new owner should be waiting, and a ring that changes back within this time moves nothing.
            elif unit not in self._release_at and not held.is_leaving:
                self._release_at[unit] = now + self._settings.handoff_wait_s
        for unit in [unit for unit in self._release_at if unit not in self._keeper.held_leases]:
            del self._release_at[unit]

    def _ring_targets(self) -> dict[Unit, None]:
        """Computed again only after nodes or units were added or removed: a ring of many nodes takes milliseconds."""
        versions = (self._view.members_version, self._view.specs_version)
        if versions != (self._ring_version, self._specs_version):
            self._ring_version, self._specs_version = versions
            ring = Ring(self._view.members, vnodes=self._settings.vnodes)
            mine = sorted(ring.keys_of(self._node, self._view.specs))
            self._ring_units = {Unit(name): None for name in mine}
        return self._ring_units

    def _claim_targets(self) -> dict[Unit, None]:
        """Unowned units, as many as fit beside the units being warmed. Each node begins at a random one, to avoid
        conflicting claims."""
        # Earlier picks stay while they are possible, so that a claim in progress is not abandoned for another unit.
        picks = {
            unit: None for unit in self._claim_picks if self._view.is_unowned(unit) and unit not in self._avoided_until
        }
        capacity = self._settings.warming_max - len(self._keeper.warming)
        if len(picks) < capacity and (count := self._view.unowned_count()) > len(picks):
            free_bytes = self._free_bytes - sum(map(self._size, [*self._keeper.warming, *picks]))
            for unit in self._view.unowned_units_from(self._random.randrange(0, count)):
                if len(picks) >= capacity:
                    break
                # A unit that does not fit is skipped, not waited for: smaller ones behind it may fit.
                if unit not in picks and self._size(unit) <= free_bytes and not self._is_excluded(unit):
                    picks[unit] = None
                    free_bytes -= self._size(unit)
        self._claim_picks = picks
        return picks

    def _size(self, unit: Unit) -> int:
        return self._view.spec(unit).footprint_bytes or self._settings.default_footprint_bytes

    def _is_excluded(self, unit: Unit) -> bool:
        return unit in self._avoided_until or any(rival in self._keeper.held_leases for rival in rivals(unit))

    def _may_acquire(self, now: float) -> bool:
        """Nothing is acquired without a valid member session and a valid holder session."""
        return self._view.has_synced and self._member.is_valid(now) and self._keeper.keepalive.is_valid(now)

    def _claim(self, now: float) -> list[Effect]:
        session = self._keeper.keepalive.session
        if session is None or not self._may_acquire(now):
            # Without sessions nothing may be claimed, and deadlines that stay would wake the driver forever.
            self._claim_at.clear()
            return []
        effects: list[Effect] = []
        for unit in [unit for unit, at in self._claim_at.items() if at <= now]:
            if len(self._in_flight) >= CLAIMS_MAX:
                break
            del self._claim_at[unit]
            # The unit has a holder again: a claim would be rejected, so only the next attempt is scheduled.
            if unit in self._view.leases:
                self._claim_again(unit, now)
            else:
                self._in_flight.add(unit)
                effects.append(ClaimLease(session, unit))
        return effects

    def _claim_soon(self, unit: Unit, now: float) -> None:
        """Claims after the jitter. A unit that failed to warm waits longer, so that another node can claim it first."""
        jitter_s = self._random.uniform(0, self._settings.claim_jitter_s)
        self._claim_at[unit] = max(now + jitter_s, self._avoided_until.get(unit, now))

    def _claim_again(self, unit: Unit, now: float, retry_after_s: float | None = None) -> None:
        tries = self._tries[unit] = self._tries.get(unit, 0) + 1
        self._claim_at[unit] = now + max(retry_after_s or 0.0, self._backoff.delay(tries, self._random))
