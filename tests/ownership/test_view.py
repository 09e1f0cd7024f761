"""A node's view of its space: the fold of the watch, and the open units."""

from hypothesis import given
from hypothesis import strategies as st

from argosy.ownership.events import (
    AuctionClosed,
    AuctionOpened,
    LeaseChanged,
    LeaseGone,
    MaxBidsChanged,
    MemberChanged,
    MemberGone,
    Snapshot,
)
from argosy.ownership.model import SUCCESSOR, LeaseState, Unit, UnitSpec
from argosy.ownership.view import CLAIM_WAITS_MAX, FleetView
from tests.ownership.builders import OTHER, auction, catalog, lease, member

A = Unit("a")


def view_after(*events: object, specs: tuple[UnitSpec | str, ...] = ("a",)) -> FleetView:
    view = FleetView()
    for event in (catalog(*specs), Snapshot(), *events):
        view.apply(event, 0.0)  # type: ignore[arg-type]
    return view


def test_a_view_is_current_from_its_first_snapshot_on() -> None:
    view = FleetView()
    view.apply(MemberChanged(member()), 0.0)
    assert not view.has_synced
    view.apply(Snapshot(), 0.0)
    assert view.has_synced


def test_a_desired_unit_without_a_lease_is_open() -> None:
    view = view_after(LeaseChanged(lease("b")), specs=("a", "b"))
    assert list(view.unowned_units()) == [A]
    view.apply(LeaseGone(Unit("b"), 1), 1.0)
    assert list(view.unowned_units()) == [A, Unit("b")]


def test_the_end_of_an_older_lease_opens_nothing() -> None:
    view = view_after(LeaseChanged(lease("a", epoch=2)))
    view.apply(LeaseGone(A, 1), 1.0)
    assert not view.is_unowned(A)


def test_the_largest_come_first_primaries_before_replicas_then_by_name() -> None:
    small, large = UnitSpec("a", footprint_bytes=1, replicas=1), UnitSpec("z", footprint_bytes=9)
    view = view_after(specs=("m", "b", small, large))
    assert [str(unit) for unit in view.unowned_units()] == ["z", "a", "b", "m", "a~1"]


def test_the_circle_may_be_entered_anywhere() -> None:
    view = view_after(specs=("a", "b", "c"))
    assert [unit.name for unit in view.unowned_units_from(2)] == ["c", "a", "b"]


def test_a_unit_no_longer_desired_is_no_longer_open() -> None:
    view = view_after(specs=("a", "b"))
    view.apply(catalog("b"), 1.0)
    assert [unit.name for unit in view.unowned_units()] == ["b"]


def test_how_long_a_unit_has_been_open_survives_a_new_catalog() -> None:
    view = view_after()
    view.apply(catalog("a", "b"), 50.0)
    assert view.unowned_since == {A: 0.0, Unit("b"): 50.0}


def test_a_draining_primary_opens_the_slot_of_its_successor() -> None:
    view = view_after(LeaseChanged(lease("a", state=LeaseState.DRAINING)))
    assert list(view.unowned_units()) == [Unit("a", SUCCESSOR)]
    view.apply(LeaseChanged(lease(Unit("a", SUCCESSOR), node=OTHER)), 1.0)
    assert list(view.unowned_units()) == []


def test_a_draining_primary_with_a_replica_needs_no_successor() -> None:
    spec = UnitSpec("a", replicas=1)
    view = view_after(LeaseChanged(lease(Unit("a", 1), node=OTHER)), specs=(spec,))
    view.apply(LeaseChanged(lease("a", state=LeaseState.DRAINING)), 1.0)
    assert list(view.unowned_units()) == []


def test_only_a_ready_sibling_is_a_successor() -> None:
    view = view_after(LeaseChanged(lease(Unit("a", SUCCESSOR), node=OTHER, state=LeaseState.WARMING)))
    assert view.ready_successor(A) is None
    view.apply(LeaseChanged(lease(Unit("a", SUCCESSOR), node=OTHER)), 1.0)
    assert view.ready_successor(A) == Unit("a", SUCCESSOR)


def test_the_membership_version_grows_only_on_a_join_or_a_leave() -> None:
    view = view_after(MemberChanged(member("n1")))
    version = view.members_version
    view.apply(MemberChanged(member("n1", is_bidding=False)), 1.0)
    view.apply(Snapshot(members=(member("n1"),)), 1.0)
    view.apply(MemberGone("n9"), 1.0)
    assert view.members_version == version
    view.apply(MemberGone("n1"), 1.0)
    view.apply(Snapshot(members=(member("n2"),)), 1.0)
    assert view.members_version == version + 2


def test_members_that_bid_are_counted() -> None:
    view = view_after(MemberChanged(member("n1")), MemberChanged(member("n2", is_bidding=False)))
    assert view.bidding_count() == 1


def test_an_auctions_end_is_converted_to_local_time() -> None:
    view = FleetView()
    view.apply(AuctionOpened(auction("a", closes_in_s=60.0)), 100.0)
    assert view.closes_at[A] == 160.0
    view.apply(AuctionClosed(A, 1, None), 130.0)
    assert (view.auctions, view.closes_at) == ({}, {})


def test_auctions_without_a_winner_are_counted_until_one_wins() -> None:
    view = view_after(AuctionOpened(auction()), AuctionClosed(A, 1, None), AuctionClosed(A, 2, None))
    assert view.fruitless_auctions == {A: 2}
    view.apply(LeaseChanged(lease("a")), 1.0)
    assert view.fruitless_auctions == {}


def test_a_winner_learnt_of_from_a_snapshot_ends_the_count_too() -> None:
    view = view_after(AuctionClosed(A, 1, None), Snapshot(leases=(lease("a"),)))
    view.apply(LeaseGone(A, 1), 1.0)
    assert view.fruitless_auctions == {}


def test_the_wait_from_open_to_held_is_recorded_and_bounded() -> None:
    view = view_after()
    view.apply(LeaseChanged(lease("a")), 12.5)
    view.apply(LeaseChanged(lease("a", state=LeaseState.DRAINING)), 20.0)
    assert list(view.claim_waits_s) == [12.5]
    assert list(view.claim_wait_s.values()) == [12.5]
    for epoch in range(1, CLAIM_WAITS_MAX + 10):
        view.apply(LeaseChanged(lease("a", epoch=epoch)), 20.0)
        view.apply(LeaseGone(A, epoch), 20.0)
    assert len(view.claim_waits_s) == CLAIM_WAITS_MAX


def test_a_pushed_threshold_is_stored_and_can_be_removed() -> None:
    view = view_after(MaxBidsChanged(7))
    assert view.pushed_max_bids == 7
    view.apply(MaxBidsChanged(None), 1.0)
    assert view.pushed_max_bids is None
    view.apply(Snapshot(max_bids=3), 2.0)
    assert view.pushed_max_bids == 3


def test_a_snapshot_replaces_the_whole_view() -> None:
    view = view_after(LeaseChanged(lease("a")), MemberChanged(member("n1")), AuctionOpened(auction("b")))
    view.apply(Snapshot(members=(member("n2"),)), 1.0)
    assert (view.leases, list(view.members), view.auctions) == ({}, ["n2"], {})
    assert view.is_unowned(A)


def test_the_catalog_is_primary_replicas_and_successor() -> None:
    view = view_after(specs=(UnitSpec("a", replicas=1),))
    in_catalog = [view.is_in_catalog(Unit("a", slot)) for slot in (SUCCESSOR, 0, 1, 2)]
    assert in_catalog == [True, True, True, False]
    assert not view.is_in_catalog(Unit("b"))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["grant", "gone", "drain", "wish", "snapshot"]),
        st.sampled_from(["a", "b", "c"]),
        st.integers(-1, 2),
    ),
    max_size=40,
)


@given(STEPS)
def test_the_incremental_open_set_equals_a_recomputed_one(steps: list[tuple[str, str, int]]) -> None:
    view = view_after(specs=(UnitSpec("a", replicas=2), "b"))
    for now, (kind, name, replica) in enumerate(steps):
        unit = Unit(name, replica)
        match kind:
            case "grant" | "drain":
                state = LeaseState.READY if kind == "grant" else LeaseState.DRAINING
                view.apply(LeaseChanged(lease(unit, epoch=now, state=state)), now)
            case "gone" if unit in view.leases:
                view.apply(LeaseGone(unit, view.leases[unit].epoch), now)
            case "wish":
                view.apply(catalog(UnitSpec("a", replicas=max(0, replica)), name), now)
            case "snapshot":
                view.apply(Snapshot(leases=tuple(x for x in view.leases.values() if x.unit.name != name)), now)
        fresh = FleetView()
        fresh.apply(Snapshot(leases=tuple(view.leases.values())), now)
        fresh.apply(catalog(*view.specs.values()), now)
        assert list(view.unowned_units()) == list(fresh.unowned_units())
        assert set(view.unowned_since) == set(view.unowned_units())
        assert view.unowned_count() == len(view.unowned_since)
