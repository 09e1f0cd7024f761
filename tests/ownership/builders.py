"""Builders that the tests of ownership share: sessions, leases, streams, and a node's parts in a steady state."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from argosy.ownership.effects import Effect
from argosy.ownership.events import CatalogRead, Event, LeaseChanged, MemoryMeasured, SessionOpened, Snapshot
from argosy.ownership.lease_keeper import LeaseKeeper
from argosy.ownership.model import Auction, Lease, LeaseState, Member, Session, SessionRole, Unit, UnitSpec
from argosy.ownership.session_keepalive import KeepAliveTiming, SessionKeepAlive
from argosy.ownership.settings import OwnershipSettings
from argosy.ownership.view import FleetView

T = TypeVar("T")

ME, OTHER = "n1", "n2"
GIB = 1 << 30
TIMING = KeepAliveTiming(ttl_s=30.0, renew_s=8.0, margin_s=3.0)
VALID_S = TIMING.ttl_s - TIMING.margin_s  # how long a session is valid after its keepalive was sent


class FixedRandom:
    """Implements `Random` without chance: every draw lies at the same fraction of its range."""

    def __init__(self, fraction: float = 0.5) -> None:
        self.fraction = fraction

    def random(self) -> float:
        return self.fraction

    def uniform(self, a: float, b: float) -> float:
        return a + (b - a) * self.fraction

    def randrange(self, start: int, stop: int) -> int:
        return start + int((stop - start) * self.fraction)

    def choice(self, seq: Sequence[T]) -> T:
        return seq[self.randrange(0, len(seq))]


def settings(**changes: Any) -> OwnershipSettings:
    return OwnershipSettings(**changes)


def session(role: SessionRole = SessionRole.HOLDER, node: str = ME, token: str = "run-1") -> Session:
    return Session(role, node, f"http://{node}", token, TIMING.ttl_s)


def lease(
    unit: Unit | str = "a",
    *,
    node: str = ME,
    epoch: int = 1,
    state: LeaseState = LeaseState.READY,
    token: str = "run-1",
) -> Lease:
    unit = Unit(unit) if isinstance(unit, str) else unit
    return Lease(unit, node, f"http://{node}", token, epoch, state)


def auction(unit: Unit | str = "a", *, id: int = 1, max_bids: int = 2, closes_in_s: float = 60.0) -> Auction:
    return Auction(Unit(unit) if isinstance(unit, str) else unit, id, max_bids, closes_in_s)


def member(node: str = ME, **changes: Any) -> Member:
    return Member(node, f"http://{node}", **changes)


def catalog(*specs: UnitSpec | str) -> CatalogRead:
    return CatalogRead(tuple(UnitSpec(spec) if isinstance(spec, str) else spec for spec in specs))


def of_kind(effects: Iterable[object], kind: Any) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, kind)]


class Bench:
    """A node's parts with both sessions valid and a first snapshot handled, around one machine under test."""

    def __init__(self, *specs: UnitSpec | str, node: str = ME, **changes: Any) -> None:
        self.settings = settings(**changes)
        self.random = FixedRandom()
        self.view = FleetView()
        self.keeper = LeaseKeeper(TIMING, self.random)
        self.member = SessionKeepAlive(SessionRole.MEMBER, TIMING, self.random)
        self.machine: Any = None
        self._node = node
        self.member.start(0.0)
        self.keeper.keepalive.start(0.0)
        self.confirm(0.0)
        self.handle(Snapshot(members=(member(node),)), 0.0)
        self.handle(catalog(*specs), 0.0)

    def confirm(self, now: float) -> None:
        """Both sessions are as good as renewed at `now`."""
        self.handle(SessionOpened(session(SessionRole.MEMBER, self._node), now), now)
        self.handle(SessionOpened(session(SessionRole.HOLDER, self._node), now), now)

    def handle(self, event: Event | None, now: float) -> list[Effect]:
        """The effects of the machine under test; the other parts handle the event first."""
        self.view.apply(event, now)
        self.member.handle(event, now)
        self.keeper.handle(event, now)
        self.keeper.changes.clear()
        return [] if self.machine is None else list(self.machine.handle(event, now))

    def measure(self, free_bytes: int, now: float) -> list[Effect]:
        return self.handle(MemoryMeasured(free_bytes), now)

    def grant(self, unit: Unit | str, now: float, **changes: Any) -> list[Effect]:
        changes.setdefault("node", self._node)
        return self.handle(LeaseChanged(lease(unit, **changes)), now)

    def wait(self, now: float, *, until: float) -> list[tuple[float, Effect]]:
        """Lets time pass as the driver does, waking the machine at its deadlines; each effect with its instant.

        The machine's effects are not answered."""
        done: list[tuple[float, Effect]] = []
        for _ in range(10_000):
            deadline = self.machine.deadline()
            if deadline is None or deadline > until:
                return done
            now = max(now, deadline)
            done += [(now, effect) for effect in self.machine.handle(None, now)]
        raise AssertionError(f"the machine never rests: deadline {self.machine.deadline()} at {now}")
