"""The whole node as one machine: warming, readiness, slots, leaving; and no needless wakeups."""

from collections.abc import Iterator
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.base.clock import seeded_random
from argosy.ownership.effects import (
    DropUnit,
    Effect,
    EndSession,
    Exit,
    HandOffLease,
    OpenSession,
    PlaceBid,
    ReadCatalog,
    ReleaseLease,
    RenewSession,
    ServingStarted,
    ServingStopped,
    SetLeaseState,
    SweepSessions,
    WarmUnit,
)
from argosy.ownership.events import (
    AuctionClosed,
    AuctionOpened,
    BidAnswered,
    CatalogChanged,
    CloseAnswered,
    DrainRequested,
    Event,
    LeaseChanged,
    LeaseGone,
    MemberChanged,
    MemoryMeasured,
    ReleaseAnswered,
    ReleaseRequested,
    SessionEnded,
    SessionOpened,
    SessionRenewed,
    SetStateFailed,
    Snapshot,
    UnitWarmed,
    WarmingFailed,
)
from argosy.ownership.model import (
    SUCCESSOR,
    BidOutcome,
    BidResult,
    CloseOutcome,
    CloseResult,
    LeaseState,
    SessionRole,
    Unit,
    UnitSpec,
)
from argosy.ownership.node import NodeMachine
from argosy.ownership.ring import Ring
from tests.ownership.builders import GIB, ME, OTHER, FixedRandom, auction, catalog, lease, member, of_kind, session
from tests.ownership.builders import settings as node_settings

A = Unit("a")
SUCCESSOR_SLOT = Unit("a", SUCCESSOR)
WARMING, READY, DRAINING = LeaseState.WARMING, LeaseState.READY, LeaseState.DRAINING


class Node:
    """A machine past its first steps: sessions open, space seen, catalog read."""

    def __init__(self, *specs: UnitSpec | str, **changes: object) -> None:
        self.machine = NodeMachine(node_settings(**changes), ME, FixedRandom())
        first = self.machine.handle(None, 0.0)
        assert {type(effect) for effect in first} == {OpenSession, SweepSessions, ReadCatalog}
        self.handle(SessionOpened(session(SessionRole.MEMBER), 0.0), 0.0)
        self.handle(SessionOpened(session(SessionRole.HOLDER), 0.0), 0.0)
        self.handle(Snapshot(members=(member(ME), member(OTHER))), 0.0)
        self.handle(catalog(*specs or ("a",)), 0.0)

    def handle(self, event: Event | None, now: float) -> list[Effect]:
        return self.machine.handle(event, now)

    def grant(self, unit: Unit | str, now: float, **changes: object) -> list[Effect]:
        return self.handle(LeaseChanged(lease(unit, **changes)), now)  # type: ignore[arg-type]


def test_a_won_unit_is_warmed_and_then_reported_ready() -> None:
    node = Node()
    assert node.grant("a", 1.0, state=WARMING)[-1] == WarmUnit(A, 1)
    assert SetLeaseState(session(), A, 1, READY) in node.handle(UnitWarmed(A, 1), 2.0)


def test_warming_that_ends_after_the_lease_was_lost_is_not_reported() -> None:
    node = Node()
    node.grant("a", 1.0, state=WARMING)
    node.handle(LeaseGone(A, 1), 1.5)
    assert of_kind(node.handle(UnitWarmed(A, 1), 2.0), SetLeaseState) == []


def test_readiness_the_store_did_not_accept_is_sent_again() -> None:
    node = Node()
    node.grant("a", 1.0, state=WARMING)
    node.handle(UnitWarmed(A, 1), 2.0)
    node.handle(SetStateFailed(A, 1), 2.0)
    assert SetLeaseState(session(), A, 1, READY) in node.handle(None, 2.2)


def test_a_unit_that_cannot_be_warmed_is_released() -> None:
    node = Node()
    node.grant("a", 1.0, state=WARMING)
    assert of_kind(node.handle(WarmingFailed(A, 1), 2.0), ServingStopped | ReleaseLease) == [
        ServingStopped(A, 1),
        ReleaseLease(session(), A, 1),
    ]
    assert DropUnit(A) in node.handle(LeaseGone(A, 1), 2.1)


def test_a_lost_lease_is_dropped_from_memory() -> None:
    node = Node()
    node.grant("a", 1.0)
    effects = node.handle(SessionEnded(session()), 2.0)
    assert effects.index(ServingStopped(A, 1)) < effects.index(DropUnit(A))


@pytest.mark.parametrize("specs", [(), ("b",), (UnitSpec("a", replicas=1),)])
def test_a_unit_removed_from_the_catalog_is_released(specs: tuple[UnitSpec | str, ...]) -> None:
    node = Node(UnitSpec("a", replicas=2))
    node.grant(Unit("a", 2), 1.0)
    assert of_kind(node.handle(catalog(*specs), 2.0), ReleaseLease) == [ReleaseLease(session(), Unit("a", 2), 1)]


def test_a_unit_still_in_the_catalog_is_kept() -> None:
    node = Node(UnitSpec("a", replicas=2))
    node.grant(Unit("a", 2), 1.0)
    assert of_kind(node.handle(catalog(UnitSpec("a", replicas=3), "b"), 2.0), ReleaseLease) == []


def test_a_unit_dropped_by_the_plane_is_released() -> None:
    node = Node()
    node.grant("a", 1.0)
    assert of_kind(node.handle(ReleaseRequested(A), 2.0), ServingStopped | ReleaseLease) == [
        ServingStopped(A, 1),
        ReleaseLease(session(), A, 1),
    ]


def test_a_changed_catalog_is_read_at_once() -> None:
    node = Node(catalog_s=60.0)
    assert of_kind(node.handle(None, 1.0), ReadCatalog) == []
    assert of_kind(node.handle(CatalogChanged(), 1.0), ReadCatalog) == [ReadCatalog()]


def test_a_primary_that_does_not_drain_needs_no_successor() -> None:
    node = Node()
    node.grant("a", 1.0, node=OTHER, state=DRAINING)
    node.grant(SUCCESSOR_SLOT, 2.0)
    assert of_kind(node.grant("a", 3.0, node="n3", epoch=2), ReleaseLease) == [
        ReleaseLease(session(), SUCCESSOR_SLOT, 1)
    ]


def test_a_superfluous_successor_learnt_of_from_a_snapshot_leaves_too() -> None:
    node = Node()
    node.grant(SUCCESSOR_SLOT, 1.0)
    snapshot = Snapshot(leases=(lease(SUCCESSOR_SLOT), lease("a", node=OTHER)), members=(member(ME),))
    assert ReleaseLease(session(), SUCCESSOR_SLOT, 1) in node.handle(snapshot, 2.0)


def test_one_node_keeps_one_slot_and_its_loaded_memory() -> None:
    node = Node(UnitSpec("a", replicas=1))
    node.grant(Unit("a", 1), 1.0)
    effects = node.grant("a", 2.0, state=WARMING)
    assert WarmUnit(A, 1) in effects
    assert of_kind(effects, ReleaseLease) == [], "the replica answers until the primary can"
    assert ReleaseLease(session(), Unit("a", 1), 1) in node.grant("a", 2.5, state=READY)
    assert of_kind(node.handle(LeaseGone(Unit("a", 1), 1), 3.0), DropUnit) == []


def test_a_successor_takes_over_without_dropping_anything() -> None:
    node = Node()
    node.grant("a", 1.0, node=OTHER, state=DRAINING)
    node.grant(SUCCESSOR_SLOT, 2.0)
    events = (
        node.handle(LeaseGone(A, 1), 3.0)
        + node.grant("a", 3.0, epoch=2)
        + node.handle(LeaseGone(SUCCESSOR_SLOT, 1), 3.0)
    )
    assert ServingStarted(A, 2, 27.0) in events
    assert of_kind(events, DropUnit) == []
    assert node.machine.keeper.holds(A, 3.0)


def test_a_drain_ends_membership_first_and_the_holder_session_last() -> None:
    node = Node()
    node.grant("a", 1.0)
    effects = node.handle(DrainRequested(), 2.0)
    assert of_kind(effects, EndSession | SetLeaseState) == [
        SetLeaseState(session(), A, 1, DRAINING),
        EndSession(session(SessionRole.MEMBER)),
    ]
    node.grant("a", 2.1, state=DRAINING)
    node.grant(SUCCESSOR_SLOT, 3.0, node=OTHER, state=WARMING)
    assert node.machine.keeper.holds(A, 3.0)
    assert of_kind(node.grant(SUCCESSOR_SLOT, 4.0, node=OTHER), HandOffLease) == [
        HandOffLease(session(), A, 1, SUCCESSOR_SLOT)
    ]
    assert of_kind(node.handle(ReleaseAnswered(A, 1, is_done=True), 4.1), EndSession) == []
    assert of_kind(node.handle(LeaseGone(A, 1), 4.2), EndSession) == [EndSession(session())]
    assert node.machine.has_left


def test_a_draining_node_bids_no_more_and_still_closes() -> None:
    node = Node("a", "b")
    node.grant("b", 0.0)
    node.handle(DrainRequested(), 1.0)
    effects = node.handle(MemoryMeasured(GIB), 1.0) + node.handle(AuctionOpened(auction("a", closes_in_s=1.0)), 1.0)
    effects += node.handle(None, 5.0)
    assert of_kind(effects, PlaceBid) == []
    assert "CloseAuction" in {type(effect).__name__ for effect in effects}


def test_a_unit_won_while_draining_is_released() -> None:
    node = Node("a", "b")
    node.grant("b", 0.0)
    node.handle(DrainRequested(), 1.0)
    assert ReleaseLease(session(), A, 1) in node.grant("a", 2.0, state=WARMING)


def test_a_ring_node_quiesces_and_then_ends_its_session_with_all_leases() -> None:
    first, second = sorted(Ring([ME, OTHER]).keys_of(ME, [f"s{i}" for i in range(20)]))[:2]
    node = Node(first, second, placement="ring", quiesce_s=1.5)
    node.grant(first, 0.0)
    node.grant(second, 0.0)
    assert of_kind(node.handle(DrainRequested(), 1.0), EndSession) == [EndSession(session(SessionRole.MEMBER))]
    assert node.machine.keeper.holds(Unit(first), 2.4)
    assert of_kind(node.handle(None, 2.4), EndSession) == []
    effects = node.handle(None, 2.5)
    assert of_kind(effects, ServingStopped | EndSession) == [
        ServingStopped(Unit(first), 1),
        ServingStopped(Unit(second), 1),
        EndSession(session()),
    ]
    assert node.machine.has_left


def test_a_node_that_has_left_claims_nothing() -> None:
    node = Node()
    node.handle(DrainRequested(), 1.0)
    assert node.machine.has_left
    assert node.machine.deadline() is None
    assert node.handle(None, 100.0) == []


def test_a_node_without_a_session_can_leave_too() -> None:
    machine = NodeMachine(node_settings(), ME, FixedRandom())
    machine.handle(None, 0.0)
    assert machine.handle(DrainRequested(), 1.0)[-1] == Exit()
    node = Node()
    node.grant("a", 1.0)
    node.handle(DrainRequested(), 2.0)
    assert of_kind(node.handle(SessionEnded(session()), 3.0), Exit | EndSession) == [Exit()]


@pytest.mark.parametrize("placement", ["auction", "claim"])
def test_a_draining_node_is_not_woken_by_deadlines_it_no_longer_has(placement: str) -> None:
    node = Node("a", "b", placement=placement)
    node.grant("b", 0.0)
    node.handle(MemoryMeasured(GIB), 0.0)
    assert node.machine.deadline() <= 0.2  # about to bid, or to claim
    node.handle(DrainRequested(), 0.05)
    node.grant("b", 0.05, state=DRAINING)
    wakes = list(islice(_wakes(node.machine, 0.05, until=120.0), 1000))
    assert len(wakes) < 120 * 2 + 40  # sweeps and catalog, a few renewals


def _wakes(machine: NodeMachine, now: float, *, until: float) -> Iterator[float]:
    """Wakes the machine as the driver does; its sessions are renewed, nothing else is answered."""
    while (deadline := machine.deadline()) is not None and deadline <= until:
        now = max(now, deadline)
        yield now
        for renewal in of_kind(machine.handle(None, now), RenewSession):
            machine.handle(SessionRenewed(renewal.session, now, None), now)


KINDS = (
    "win",
    "ready",
    "drain_other",
    "gone",
    "spoil",
    "end",
    "open",
    "measure",
    "snapshot",
    "auction",
    "close",
    "placed",
    "missed",
    "drain",
    "unwish",
    "wish",
    "join",
)
STEPS = st.lists(st.tuples(st.floats(0, 9), st.sampled_from(KINDS), st.integers(-1, 1)), max_size=30)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["auction", "ring", "claim"]), STEPS, st.integers())
def test_under_random_events_the_node_becomes_idle_at_every_instant(
    placement: str, steps: list[tuple[float, str, int]], seed: int
) -> None:
    machine = NodeMachine(node_settings(placement=placement), ME, seeded_random(seed))
    now, epoch, run = 0.0, 0, 1
    events: list[Event | None] = [None, catalog(UnitSpec("a", replicas=1), "b"), Snapshot(members=(member(ME),))]
    events += [SessionOpened(session(role), 0.0) for role in SessionRole]
    for span, kind, slot in [*((0.0, "start", 0) for _ in events), *steps]:
        now += span
        unit = Unit("a", slot)
        holding = machine.keeper.held_leases.get(unit)
        at = 0 if holding is None else holding.lease.epoch
        current = machine.keeper.keepalive.session
        event: Event | None = events.pop(0) if kind == "start" else None
        match kind:
            case "win" | "drain_other":
                epoch += 1
                who, state = (ME, WARMING) if kind == "win" else (OTHER, DRAINING)
                token = current.token if current else "run-0"
                event = LeaseChanged(lease(unit, node=who, epoch=epoch, state=state, token=token))
            case "ready" if at:
                event = UnitWarmed(unit, at)
            case "gone" if unit in machine.view.leases:
                event = LeaseGone(unit, machine.view.leases[unit].epoch)
            case "spoil" | "missed" if at:
                event = WarmingFailed(unit, at) if kind == "spoil" else ReleaseAnswered(unit, at, is_done=False)
            case "end" if current:
                event = SessionEnded(current)
            case "open" if current is None and not machine.drainer.is_draining:
                run += 1
                event = SessionOpened(session(token=f"run-{run}"), now)
            case "measure":
                event = MemoryMeasured(GIB)
            case "snapshot":
                event = Snapshot(members=(member(ME), member(OTHER)))
            case "auction":
                event = AuctionOpened(auction(unit, closes_in_s=5.0))
            case "close":
                event = (
                    CloseAnswered(unit, CloseResult(CloseOutcome.NO_WINNER)) if slot else AuctionClosed(unit, 1, None)
                )
            case "placed":
                event = BidAnswered(unit, BidResult(BidOutcome.PLACED, is_full=slot == 0))
            case "drain":
                event = DrainRequested()
            case "unwish" | "wish":
                event = catalog("b") if kind == "unwish" else catalog(UnitSpec("a", replicas=1), "b")
            case "join":
                event = MemberChanged(member(OTHER))
        machine.handle(event, now)
        for _ in range(100):
            deadline = machine.deadline()
            if deadline is None or deadline > now:
                break
            machine.handle(None, now)
        else:
            raise AssertionError(f"the node spins at {now} after {event}")
