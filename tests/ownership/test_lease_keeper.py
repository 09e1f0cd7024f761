"""Whether a unit is held at an instant: grants, pauses, losses, and the balance of starts and stops."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.ownership.effects import Effect, ServingExtended, ServingStarted, ServingStopped
from argosy.ownership.events import (
    Event,
    LeaseChanged,
    LeaseGone,
    SessionEnded,
    SessionFailed,
    SessionOpened,
    SessionRenewed,
    Snapshot,
)
from argosy.ownership.lease_keeper import LeaseGained, LeaseKeeper, LeaseLost
from argosy.ownership.model import LeaseState, SessionRole, Unit
from tests.ownership.builders import OTHER, TIMING, VALID_S, FixedRandom, lease, session

A, B = Unit("a"), Unit("b")
MINE = session()


def keeper_of(*units: Unit, at: float = 0.0) -> LeaseKeeper:
    """A keeper whose session opened at `at`, serving `units`."""
    keeper = LeaseKeeper(TIMING, FixedRandom())
    keeper.keepalive.start(at)
    keeper.handle(None, at)
    keeper.handle(SessionOpened(MINE, at), at)
    for unit in units:
        assert keeper.handle(LeaseChanged(lease(unit)), at) == [ServingStarted(unit, 1, at + VALID_S)]
    return keeper


def serving_changes(effects: list[Effect]) -> list[Effect]:
    return [e for e in effects if isinstance(e, ServingStarted | ServingExtended | ServingStopped)]


def test_a_grant_on_the_watch_is_served_at_once() -> None:
    keeper = keeper_of(A)
    assert keeper.holds(A, 1.0)
    assert not keeper.holds(B, 1.0)
    assert keeper.holds_any("a", 1.0)
    assert not keeper.holds_any("b", 1.0)


def test_nothing_is_held_at_the_very_instant_the_session_ends() -> None:
    keeper = keeper_of(A)
    assert keeper.holds(A, VALID_S - 1e-6)
    assert not keeper.holds(A, VALID_S)  # even before the machine gets a time event


def test_when_renewal_fails_all_units_pause_at_once() -> None:
    keeper = keeper_of(A, B)
    keeper.handle(None, TIMING.renew_s)
    keeper.handle(SessionFailed(SessionRole.HOLDER), TIMING.renew_s)
    assert keeper.holds(A, VALID_S - 1)
    assert serving_changes(keeper.handle(None, VALID_S)) == [ServingStopped(A, 1), ServingStopped(B, 1)]
    assert keeper.pauses == 1
    assert serving_changes(keeper.handle(None, VALID_S + 1)) == []


def test_the_keeper_wakes_to_pause() -> None:
    keeper = keeper_of(A)
    keeper.handle(None, TIMING.renew_s)  # the renewal's answer never comes
    assert keeper.deadline() == VALID_S
    keeper.handle(None, VALID_S)
    assert keeper.deadline() is None


def test_units_resume_when_the_store_still_knew_the_session() -> None:
    keeper = keeper_of(A, B)
    keeper.handle(None, VALID_S)
    effects = keeper.handle(SessionRenewed(MINE, VALID_S, None), VALID_S + 0.1)
    until = VALID_S + VALID_S
    assert serving_changes(effects) == [ServingStarted(A, 1, until), ServingStarted(B, 1, until)]
    assert keeper.holds(B, VALID_S + 0.1)


def test_a_renewal_extends_what_is_served() -> None:
    keeper = keeper_of(A)
    assert serving_changes(keeper.handle(SessionRenewed(MINE, 8.0, None), 8.1)) == [ServingExtended(8.0 + VALID_S)]
    assert serving_changes(keeper.handle(SessionRenewed(MINE, 7.0, None), 8.2)) == []


def test_a_lost_session_loses_every_lease() -> None:
    keeper = keeper_of(A, B)
    keeper.changes.clear()
    effects = keeper.handle(SessionEnded(MINE), 5.0)
    assert serving_changes(effects) == [ServingStopped(A, 1), ServingStopped(B, 1)]
    assert keeper.changes == [LeaseLost(A), LeaseLost(B)]
    keeper.handle(SessionOpened(session(token="run-2"), 5.0), 5.1)
    assert not keeper.holds(A, 5.1)
    assert keeper.pauses == 0


@pytest.mark.parametrize("foreign", [lease(A, token="run-0"), lease(A, node=OTHER)])
def test_a_lease_of_another_run_or_node_is_not_ours(foreign: object) -> None:
    keeper = keeper_of()
    assert keeper.handle(LeaseChanged(foreign), 1.0) == []  # type: ignore[arg-type]
    assert keeper.held_leases == {}


def test_a_greater_epoch_replaces_the_holding() -> None:
    keeper = keeper_of(A)
    keeper.changes.clear()
    effects = keeper.handle(LeaseChanged(lease(A, epoch=4)), 1.0)
    assert effects == [ServingStopped(A, 1), ServingStarted(A, 4, VALID_S)]
    assert keeper.changes == [LeaseLost(A), LeaseGained(lease(A, epoch=4))]
    assert keeper.handle(LeaseGone(A, 1), 2.0) == []
    assert keeper.holds(A, 2.0)


def test_a_lost_lease_is_served_no_more() -> None:
    keeper = keeper_of(A, B)
    assert keeper.handle(LeaseGone(A, 1), 1.0) == [ServingStopped(A, 1)]
    assert (keeper.holds(A, 1.0), keeper.holds(B, 1.0)) == (False, True)


def test_a_snapshot_drops_unlisted_leases_and_adds_listed_ones() -> None:
    keeper = keeper_of(A)
    effects = keeper.handle(Snapshot(leases=(lease(B, epoch=2), lease("c", node=OTHER))), 1.0)
    assert effects == [ServingStopped(A, 1), ServingStarted(B, 2, VALID_S)]
    assert list(keeper.held_leases) == [B]


def test_a_snapshot_with_the_same_leases_changes_nothing() -> None:
    keeper = keeper_of(A, B)
    assert keeper.handle(Snapshot(leases=(lease(A), lease(B))), 1.0) == []


def test_a_renewal_shows_which_leases_the_store_has_lost() -> None:
    keeper = keeper_of(A, B)
    effects = keeper.handle(SessionRenewed(MINE, 8.0, frozenset({(B, 1)})), 8.1)
    assert ServingStopped(A, 1) in effects
    assert list(keeper.held_leases) == [B]


def test_a_lease_granted_after_the_renewal_was_sent_is_not_lost() -> None:
    keeper = keeper_of(A)
    keeper.handle(LeaseChanged(lease(B)), 8.05)
    keeper.handle(SessionRenewed(MINE, 8.0, frozenset({(A, 1)})), 8.1)
    assert keeper.holds(B, 8.1)


def test_a_store_that_never_loses_leases_returns_no_leases() -> None:
    keeper = keeper_of(A)
    keeper.handle(SessionRenewed(MINE, 8.0, None), 8.1)
    assert keeper.holds(A, 8.1)


def test_a_unit_being_released_is_never_served_again_under_its_epoch() -> None:
    keeper = keeper_of(A)
    assert keeper.stop_serving(A) == [ServingStopped(A, 1)]
    assert not keeper.holds(A, 1.0)
    assert A in keeper.held_leases  # the store has not confirmed it yet
    assert serving_changes(keeper.handle(LeaseChanged(lease(A, state=LeaseState.DRAINING)), 2.0)) == []
    assert serving_changes(keeper.handle(SessionRenewed(MINE, 8.0, frozenset({(A, 1)})), 8.1)) == []
    assert not keeper.holds(A, 8.1)


@pytest.mark.parametrize("lost", ["gone", "stopped"])
def test_a_unit_released_during_a_pause_does_not_resume(lost: str) -> None:
    keeper = keeper_of(A, B)
    keeper.handle(None, VALID_S)
    assert (keeper.handle(LeaseGone(A, 1), VALID_S) if lost == "gone" else keeper.stop_serving(A)) == []
    effects = keeper.handle(SessionRenewed(MINE, VALID_S, None), VALID_S)
    assert serving_changes(effects) == [ServingStarted(B, 1, 2 * VALID_S)]


def test_a_unit_being_released_no_longer_counts_as_warming() -> None:
    keeper = keeper_of()
    keeper.handle(LeaseChanged(lease(A, state=LeaseState.WARMING)), 1.0)
    keeper.stop_serving(A)
    keeper.handle(LeaseChanged(lease(A, state=LeaseState.WARMING)), 2.0)
    assert keeper.warming == {}


def test_warming_units_are_held_and_not_ready() -> None:
    keeper = keeper_of()
    keeper.handle(LeaseChanged(lease(A, state=LeaseState.WARMING)), 1.0)
    assert list(keeper.warming) == [A]
    keeper.handle(LeaseChanged(lease(A, state=LeaseState.READY)), 2.0)
    assert keeper.warming == {}
    assert keeper.held_leases[A].lease.state is LeaseState.READY


def test_no_units_are_served_after_the_session_has_ended() -> None:
    keeper = keeper_of(A, B)
    assert keeper.serving_count(1.0) == 2
    assert keeper.serving_count(VALID_S) == 0


UNITS = st.sampled_from([A, B])


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[float, str, Unit, float]]:
    """Steps of (span until then, what happens, to which unit, how long ago its request was sent)."""
    of_session = ["open", "renew", "forgetful", "miss", "end"]
    of_leases = ["grant", "foreign", "gone", "snapshot", "empty", "stop"]
    step = st.tuples(st.floats(0, 12), st.sampled_from(["pass", *of_session, *of_leases]), UNITS, st.floats(0, 6))
    return draw(st.lists(step, max_size=40))


@settings(max_examples=400)
@given(histories())
def test_no_unit_is_ever_served_without_a_valid_session(history: list[tuple[float, str, Unit, float]]) -> None:
    keeper, now, epoch, runs = LeaseKeeper(TIMING, FixedRandom()), 0.0, 0, 0
    confirmed_at = float("-inf")  # when the latest confirmed request of this session was sent
    served: dict[Unit, int] = {}
    keeper.keepalive.start(now)
    for span, kind, unit, ago in history:
        now += span
        current = keeper.keepalive.session
        event: Event | None = None
        match kind:
            case "open" if current is None:
                runs += 1
                event, confirmed_at = SessionOpened(session(token=f"run-{runs}"), now - ago), now - ago
            case "renew" | "forgetful" if current is not None:
                held = frozenset(
                    (u, h.lease.epoch) for u, h in keeper.held_leases.items() if kind == "renew" or u != unit
                )
                event, confirmed_at = SessionRenewed(current, now - ago, held), max(confirmed_at, now - ago)
            case "end" if current is not None:
                event, confirmed_at = SessionEnded(current), float("-inf")
            case "miss":
                event = SessionFailed(SessionRole.HOLDER)
            case "grant" | "foreign":
                epoch += 1
                token = current.token if current and kind == "grant" else "run-0"
                event = LeaseChanged(lease(unit, epoch=epoch, token=token))
            case "gone" if unit in keeper.held_leases:
                event = LeaseGone(unit, keeper.held_leases[unit].lease.epoch)
            case "snapshot":
                event = Snapshot(leases=tuple(h.lease for u, h in keeper.held_leases.items() if u != unit))
            case "empty":
                event = Snapshot()
            case "stop" if unit in keeper.held_leases:
                _balance(served, keeper.stop_serving(unit))
        _balance(served, keeper.handle(event, now))
        for each in (A, B):
            assert keeper.holds(each, now) == (each in served)
            assert not keeper.holds(each, confirmed_at + VALID_S + 1e-9)  # OWN-4
            assert each not in served or (each in keeper.held_leases and not keeper.held_leases[each].is_leaving)


def _balance(served: dict[Unit, int], effects: list[Effect]) -> None:
    """Starts and stops alternate, and each stop names the epoch that was started."""
    for effect in effects:
        match effect:
            case ServingStarted(unit, epoch, _):
                assert unit not in served
                served[unit] = epoch
            case ServingStopped(unit, epoch):
                assert served.pop(unit) == epoch
            case ServingExtended():
                assert served
