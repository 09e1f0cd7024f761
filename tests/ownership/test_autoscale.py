"""How many nodes the fleet should have, and why."""

import pytest

from argosy.ownership.autoscale import BACKLOG_ROUNDS_MAX, CALM_S, MEMORY_HIGH, Autoscaler, ScaleSignal
from argosy.ownership.events import AuctionClosed, Event, LeaseChanged, LeaseGone, MemberChanged, MemberGone, Snapshot
from argosy.ownership.model import Unit, UnitSpec
from argosy.ownership.view import FleetView
from tests.ownership.builders import GIB, catalog, lease, member, settings

A = Unit("a")
WINDOW_S, EPOCHS = 60.0, 5


class Watch:
    """A view and the scaler that reads it."""

    def __init__(self, *specs: UnitSpec | str, nodes: int = 2, held_bytes: int = 0, free_bytes: int = GIB) -> None:
        self.view = FleetView()
        self.scaler = Autoscaler(settings(window_s=WINDOW_S, epochs_max=EPOCHS, warming_max=4))
        self.handle(catalog(*specs), Snapshot())
        for i in range(nodes):
            self.handle(MemberChanged(member(f"n{i}", held_bytes=held_bytes, free_bytes=free_bytes)))

    def handle(self, *events: Event, now: float = 0.0) -> None:
        for event in events:
            self.view.apply(event, now)

    def signal(self, now: float = 1.0) -> ScaleSignal:
        return self.scaler.signal(self.view, now)


def test_a_fleet_without_demand_keeps_its_nodes() -> None:
    signal = Watch(nodes=3, held_bytes=GIB).signal()
    assert (signal.desired_nodes, signal.current_nodes, signal.reasons) == (3, 3, ())


def test_an_empty_fleet_requests_one_node() -> None:
    assert Watch(nodes=0).signal().desired_nodes == 1


def test_a_unit_open_for_five_windows_requires_a_node() -> None:
    watch = Watch("a")
    assert watch.signal(EPOCHS * WINDOW_S - 1).desired_nodes == 2
    signal = watch.signal(EPOCHS * WINDOW_S)
    assert (signal.desired_nodes, signal.starved_units) == (3, 1)
    assert signal.reasons == ("1 units without a holder for 5 auction windows",)


def test_five_auctions_without_a_winner_require_a_node_even_when_they_were_quick() -> None:
    watch = Watch("a")
    watch.handle(*(AuctionClosed(A, i, None) for i in range(EPOCHS - 1)))
    assert watch.signal().desired_nodes == 2
    watch.handle(AuctionClosed(A, EPOCHS, None))
    assert watch.signal().desired_nodes == 3


def test_starved_units_require_as_many_nodes_as_they_fill() -> None:
    watch = Watch(*(UnitSpec(f"u{i}", footprint_bytes=GIB) for i in range(3)), free_bytes=GIB)
    assert watch.signal(1000.0).desired_nodes == 2 + 5  # 3 GiB at 70 % of 1 GiB each


def test_a_backlog_of_open_units_requires_nodes() -> None:
    most = BACKLOG_ROUNDS_MAX * 4 * 2  # rounds, warming_max, nodes
    assert Watch(*(f"u{i}" for i in range(most))).signal().desired_nodes == 2
    signal = Watch(*(f"u{i}" for i in range(most + 1))).signal()
    assert signal.desired_nodes == 3
    assert signal.reasons == (f"{most + 1} units are unowned",)


def test_long_waits_for_a_holder_require_a_node() -> None:
    watch = Watch("a", "b")
    watch.handle(LeaseChanged(lease("b")), now=2 * WINDOW_S + 1)
    signal = watch.signal(2 * WINDOW_S + 2)
    assert signal.desired_nodes == 3
    assert signal.claim_latency_s == 2 * WINDOW_S + 1
    watch.handle(LeaseChanged(lease("a")), now=2 * WINDOW_S + 3)  # no unit waits any more
    assert watch.signal(2 * WINDOW_S + 4).desired_nodes == 2


def test_memory_in_use_requires_nodes_in_proportion() -> None:
    watch = Watch(nodes=4, held_bytes=90, free_bytes=10)
    signal = watch.signal()
    assert signal.memory_used == pytest.approx(0.9)
    assert signal.desired_nodes == 6  # 4 · 0.9 / 0.7
    assert signal.reasons == ("90% of the fleet's memory is in use",)
    assert Watch(nodes=4, held_bytes=85, free_bytes=15).signal().desired_nodes == 4
    assert MEMORY_HIGH == 0.85


def test_the_most_pressing_reason_decides_and_all_are_reported() -> None:
    watch = Watch(UnitSpec("a", footprint_bytes=60), nodes=4, held_bytes=90, free_bytes=10)
    signal = watch.signal(1000.0)
    assert len(signal.reasons) == 2  # one more for the unit, two for the memory
    assert signal.desired_nodes == 6


def test_no_node_is_named_for_draining_before_the_fleet_has_been_calm() -> None:
    watch = Watch(nodes=3, held_bytes=10, free_bytes=90)
    assert watch.signal(0.0).drain_candidate is None
    assert watch.signal(CALM_S - 1).drain_candidate is None
    signal = watch.signal(CALM_S)
    assert (signal.desired_nodes, signal.drain_candidate) == (2, "n0")
    assert signal.reasons == ("n0 can be drained",)


def test_an_open_unit_ends_the_calm() -> None:
    watch = Watch("a", nodes=3, held_bytes=10, free_bytes=90)
    watch.handle(LeaseChanged(lease("a")))
    watch.signal(0.0)
    watch.handle(LeaseGone(A, 1), now=300.0)
    watch.signal(300.0)
    watch.handle(LeaseChanged(lease("a", epoch=2)), now=301.0)
    watch.signal(301.0)
    assert watch.signal(CALM_S).drain_candidate is None
    assert watch.signal(301.0 + CALM_S).drain_candidate is not None


def test_the_lightest_node_is_named() -> None:
    watch = Watch(nodes=3, held_bytes=10, free_bytes=90)
    watch.handle(MemberChanged(member("n2", held_bytes=1, free_bytes=99)))
    watch.signal(0.0)
    assert watch.signal(CALM_S).drain_candidate == "n2"


def test_no_node_is_named_when_the_others_would_be_too_full() -> None:
    watch = Watch(nodes=2, held_bytes=30, free_bytes=70)
    watch.signal(0.0)
    assert watch.signal(CALM_S).drain_candidate is None  # 60 of the remaining 100


def test_the_last_node_is_never_named() -> None:
    watch = Watch(nodes=1)
    watch.signal(0.0)
    signal = watch.signal(CALM_S)
    assert (signal.drain_candidate, signal.desired_nodes) == (None, 1)


def test_a_node_is_removable_only_when_it_is_no_member_and_holds_nothing() -> None:
    watch = Watch("a")
    watch.handle(LeaseChanged(lease("a", node="n1")))
    assert watch.signal().removable_nodes == ()
    watch.handle(MemberGone("n1"))  # drains
    assert watch.signal().removable_nodes == ()
    watch.handle(LeaseGone(A, 1))
    assert watch.signal().removable_nodes == ("n1",)
