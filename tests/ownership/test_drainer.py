"""Draining: a unit stops serving first and is then released, with retries until the store confirms."""

from argosy.ownership.drainer import Drainer
from argosy.ownership.effects import HandOffLease, ReleaseLease, ServingStopped, SetLeaseState
from argosy.ownership.events import (
    DrainRequested,
    LeaseChanged,
    LeaseGone,
    MemberChanged,
    MemberGone,
    ReleaseAnswered,
    SessionEnded,
    SetStateFailed,
)
from argosy.ownership.model import SUCCESSOR, LeaseState, Unit
from tests.ownership.builders import ME, OTHER, Bench, lease, member, of_kind, session

A, B = Unit("a"), Unit("b")
SUCCESSOR_SLOT = Unit("a", SUCCESSOR)
DRAINING = LeaseState.DRAINING


class LeaverBench(Bench):
    def __init__(self, *units: Unit | str, state: LeaseState = LeaseState.READY, **changes: object) -> None:
        super().__init__("a", "b", **changes)
        self.handle(MemberChanged(member(OTHER)), 0.0)
        for unit in units:
            self.grant(unit, 0.0, state=state)
        self.machine = Drainer(self.settings, ME, self.view, self.keeper, self.random)

    def drain(self, now: float = 1.0) -> list[object]:
        effects = self.handle(DrainRequested(), now)
        for effect in of_kind(effects, SetLeaseState):
            self.grant(effect.unit, now, state=effect.state)
        return list(effects)


def test_serving_stops_before_the_release_is_sent() -> None:
    bench = LeaverBench("a")
    assert bench.machine.release(A) == [ServingStopped(A, 1), ReleaseLease(session(), A, 1)]
    assert not bench.keeper.holds(A, 0.0)


def test_a_unit_is_released_once() -> None:
    bench = LeaverBench("a")
    bench.machine.release(A)
    assert bench.machine.release(A) == []
    assert bench.machine.release(B) == []  # never held


def test_a_release_without_an_answer_is_repeated_until_the_lease_is_gone() -> None:
    bench = LeaverBench("a")
    bench.machine.release(A)
    for now in (1.0, 2.0, 3.0):
        assert bench.handle(ReleaseAnswered(A, 1, is_done=False), now) == []
        assert [effect for _, effect in bench.wait(now, until=now + 1)] == [ReleaseLease(session(), A, 1)]
    bench.handle(ReleaseAnswered(A, 1, is_done=False), 4.0)
    bench.handle(LeaseGone(A, 1), 4.01)
    assert bench.wait(4.01, until=100.0) == []


def test_repeats_come_ever_more_rarely() -> None:
    bench, waits = LeaverBench("a"), []
    bench.machine.release(A)
    for now in range(8):
        bench.handle(ReleaseAnswered(A, 1, is_done=False), float(now * 100))
        waits.append(bench.machine.deadline() - now * 100)
    assert waits == sorted(waits)
    assert waits[-1] > 10 * waits[0]


def test_an_answered_release_is_not_repeated() -> None:
    bench = LeaverBench("a")
    bench.machine.release(A)
    bench.handle(ReleaseAnswered(A, 1, is_done=True), 1.0)
    assert bench.machine.deadline() is None


def test_an_answer_about_an_older_epoch_is_ignored() -> None:
    bench = LeaverBench("a")
    bench.machine.release(A)
    bench.grant("a", 1.0, epoch=2)
    bench.handle(ReleaseAnswered(A, 1, is_done=False), 2.0)
    assert bench.machine.deadline() is None


def test_a_drain_marks_ready_units_and_continues_serving() -> None:
    bench = LeaverBench("a", "b")
    assert bench.drain() == [SetLeaseState(session(), A, 1, DRAINING), SetLeaseState(session(), B, 1, DRAINING)]
    assert bench.keeper.holds(A, 2.0)
    assert bench.machine.is_draining
    assert not bench.machine.is_drained


def test_a_drain_releases_warming_units_at_once() -> None:
    bench = LeaverBench("a", state=LeaseState.WARMING)
    assert bench.drain() == [ServingStopped(A, 1), ReleaseLease(session(), A, 1)]


def test_a_drain_releases_standby_slots_at_once() -> None:
    bench = LeaverBench(Unit("a", 1))
    assert ReleaseLease(session(), Unit("a", 1), 1) in bench.drain()


def test_a_draining_unit_is_handed_off_as_soon_as_its_successor_is_ready() -> None:
    bench = LeaverBench("a")
    bench.drain()
    assert bench.handle(LeaseChanged(lease(SUCCESSOR_SLOT, node=OTHER, state=LeaseState.WARMING)), 2.0) == []
    assert bench.keeper.holds(A, 2.0)
    effects = bench.handle(LeaseChanged(lease(SUCCESSOR_SLOT, node=OTHER)), 3.0)
    assert effects == [ServingStopped(A, 1), HandOffLease(session(), A, 1, SUCCESSOR_SLOT)]
    assert not bench.keeper.holds(A, 3.0)


def test_a_handoff_that_failed_becomes_a_release() -> None:
    bench = LeaverBench("a")
    bench.drain()
    bench.handle(LeaseChanged(lease(SUCCESSOR_SLOT, node=OTHER)), 3.0)
    bench.handle(ReleaseAnswered(A, 1, is_done=False), 4.0)
    assert [effect for _, effect in bench.wait(4.0, until=5.0)] == [ReleaseLease(session(), A, 1)]


def test_after_the_timeout_every_unit_is_released() -> None:
    bench = LeaverBench("a", "b", drain_timeout_s=20.0)
    bench.drain(1.0)
    assert bench.machine.deadline() == 21.0
    assert len(of_kind(bench.handle(None, 21.0), ReleaseLease)) == 2


def test_after_the_timeout_it_waits_for_the_watch_without_spinning() -> None:
    bench = LeaverBench("a", drain_timeout_s=20.0)
    bench.drain(1.0)
    bench.handle(None, 21.0)
    assert bench.machine.deadline() is None
    bench.handle(LeaseGone(A, 1), 30.0)
    assert bench.machine.is_drained


def test_with_no_other_member_a_drain_waits_for_no_successor() -> None:
    bench = LeaverBench("a")
    bench.handle(MemberGone(OTHER), 0.5)
    assert ReleaseLease(session(), A, 1) in bench.drain(1.0)


def test_a_second_request_to_drain_changes_nothing() -> None:
    bench = LeaverBench("a", drain_timeout_s=20.0)
    bench.drain(1.0)
    assert bench.drain(10.0) == []
    assert bench.machine.deadline() == 21.0


def test_a_state_that_could_not_be_set_is_set_again() -> None:
    bench = LeaverBench("a")
    bench.handle(DrainRequested(), 1.0)
    bench.handle(SetStateFailed(A, 1), 2.0)
    assert [effect for _, effect in bench.wait(2.0, until=3.0)] == [SetLeaseState(session(), A, 1, DRAINING)]


def test_a_lost_session_leaves_nothing_to_release() -> None:
    bench = LeaverBench("a")
    bench.drain(1.0)
    bench.handle(SessionEnded(session()), 2.0)
    assert bench.machine.is_drained
    assert bench.machine.deadline() is None
