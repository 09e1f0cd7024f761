"""Each checker reports a constructed violation, and nothing for allowed behaviour."""

import pytest

from argosy.base.clock import seeded_random
from argosy.ownership.backends.memory import MemoryOwnershipStore
from argosy.ownership.effects import ServingExtended, ServingStarted, ServingStopped
from argosy.ownership.events import (
    AuctionClosed,
    AuctionOpened,
    LeaseChanged,
    LeaseGone,
    MemberChanged,
    MemberGone,
    Snapshot,
)
from argosy.ownership.model import (
    SUCCESSOR,
    Auction,
    Bid,
    BidOutcome,
    BidResult,
    CloseOutcome,
    CloseResult,
    Lease,
    LeaseState,
    Member,
    Session,
    SessionRole,
    Space,
    Unit,
)
from argosy.ownership.ring import Ring
from argosy.sim.checkers import (
    AuctionChecker,
    IndexControllerChecker,
    RingChecker,
    ServingChecker,
    unsettled_units,
)
from argosy.sim.loop import SimClock
from argosy.sim.network import StoreCall
from argosy.sim.trace import ViolationLog

U, V = Unit("u"), Unit("v")
TTL_S = 10.0


class Stage:
    """A clock moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.clock = SimClock(lambda: self.now)
        self.violations = ViolationLog(lambda: self.now)

    def found(self) -> list[str]:
        return [violation.invariant for violation in self.violations.entries]


def session(node: str) -> Session:
    return Session(SessionRole.HOLDER, node, "a:1", f"token of {node}", TTL_S)


def lease(node: str, epoch: int, unit: Unit = U, state: LeaseState = LeaseState.READY) -> Lease:
    return Lease(unit, node, "a:1", f"token of {node}", epoch, state)


# -- OWN-1 and OWN-4 ------------------------------------------------------------------------------------------------


class ServingStage(Stage):
    def __init__(self) -> None:
        super().__init__()
        self.checker = ServingChecker(self.violations, self.clock)

    def grant(self, node: str, epoch: int) -> None:
        self.checker.on_call(StoreCall(node, "open_session", (), session(node)))
        self.checker.on_event(LeaseChanged(lease(node, epoch)))

    def start(self, node: str, epoch: int, until: float, *, drift: float = 0.0) -> None:
        clock = SimClock(lambda: self.now, drift=drift)
        self.checker.on_serving_change(node, clock, ServingStarted(U, epoch, until))


@pytest.fixture
def serving() -> ServingStage:
    return ServingStage()


def test_serving_one_after_the_other_is_lawful(serving: ServingStage) -> None:
    serving.grant("a", 1)
    serving.start("a", 1, 9.0)
    serving.now = 5.0
    serving.checker.on_call(StoreCall("a", "renew", (session("a"),), frozenset()))
    serving.checker.on_serving_change("a", serving.clock, ServingExtended(14.0))
    serving.now = 15.0  # its validity is over, though it did not report it: it may be paused
    serving.checker.on_event(LeaseGone(U, 1))
    serving.grant("b", 2)
    serving.start("b", 2, 24.0)
    assert serving.found() == []


def test_two_servers_of_one_unit_break_own_1(serving: ServingStage) -> None:
    serving.grant("a", 1)
    serving.start("a", 1, 9.0)
    serving.now = 8.0
    serving.grant("b", 2)
    serving.start("b", 2, 17.0)
    assert "OWN-1" in serving.found()


def test_a_server_that_extends_its_validity_into_anothers_lease_breaks_own_1(serving: ServingStage) -> None:
    serving.grant("a", 1)
    serving.start("a", 1, 9.0)
    serving.now = 9.5
    serving.grant("b", 2)
    serving.start("b", 2, 18.0)
    assert serving.found() == []
    serving.checker.on_serving_change("a", serving.clock, ServingExtended(19.0))
    assert "OWN-1" in serving.found()


def test_a_slow_clock_serves_too_long_and_breaks_own_4(serving: ServingStage) -> None:
    serving.grant("a", 1)
    serving.start("a", 1, 9.99, drift=-0.005)
    assert serving.found() == ["OWN-4"]


def test_a_validity_longer_than_the_session_breaks_own_4(serving: ServingStage) -> None:
    serving.grant("a", 1)
    serving.now = 3.0
    serving.start("a", 1, 3.0 + TTL_S)  # counted from the reply's arrival
    assert serving.found() == ["OWN-4"]


def test_a_lease_that_ends_while_it_is_served_breaks_own_4(serving: ServingStage) -> None:
    serving.grant("a", 1)
    serving.start("a", 1, 9.0)
    serving.checker.on_event(LeaseGone(U, 1))
    assert serving.found() == ["OWN-4"]


def test_serving_under_an_epoch_that_is_over_breaks_own_4(serving: ServingStage) -> None:
    serving.grant("a", 1)
    serving.checker.on_event(LeaseGone(U, 1))
    serving.grant("a", 2)
    serving.start("a", 1, 9.0)
    assert serving.found() == ["OWN-4"]


def test_a_unit_a_store_lost_may_be_served_until_its_lease_ends(serving: ServingStage) -> None:
    serving.grant("a", 1)
    serving.checker.on_data_loss()
    serving.start("a", 1, 9.0)
    assert serving.found() == []
    serving.checker.on_call(StoreCall("a", "open_session", (), session("a")))
    serving.start("a", 1, 9.0)
    assert serving.found() == ["OWN-4"]


def test_a_dead_node_serves_nothing(serving: ServingStage) -> None:
    serving.grant("a", 1)
    serving.start("a", 1, 9.0)
    serving.checker.on_death("a")
    serving.checker.on_event(LeaseGone(U, 1))
    assert serving.found() == []


def test_a_node_that_stopped_serving_serves_nothing(serving: ServingStage) -> None:
    serving.grant("a", 1)
    serving.start("a", 1, 9.0)
    serving.checker.on_serving_change("a", serving.clock, ServingStopped(U, 1))
    serving.checker.on_event(LeaseGone(U, 1))
    assert serving.found() == []


def test_a_replicas_holder_that_is_handed_the_unit_may_lose_its_slot_while_serving(serving: ServingStage) -> None:
    replica = Unit("u", 1)
    serving.grant("a", 1)
    serving.checker.on_event(LeaseChanged(lease("a", 1, replica)))
    serving.checker.on_serving_change("a", serving.clock, ServingStarted(replica, 1, 9.0))
    serving.checker.on_event(LeaseGone(replica, 1))
    assert serving.found() == []
    serving.checker.on_event(LeaseChanged(lease("b", 2)))
    serving.checker.on_event(LeaseGone(replica, 1))
    assert serving.found() == ["OWN-4"]


def test_a_successors_slot_serves_nothing_and_is_not_checked(serving: ServingStage) -> None:
    serving.checker.on_serving_change("a", serving.clock, ServingStarted(Unit("u", SUCCESSOR), 1, 9.0))
    assert serving.found() == []


def test_two_answers_at_one_instant_and_answers_that_go_back_break_own_1(serving: ServingStage) -> None:
    serving.checker.on_response(U, {"a": 3})
    serving.checker.on_response(V, {"b": 1})
    assert serving.found() == []
    serving.checker.on_response(U, {"b": 2})
    serving.checker.on_response(V, {"a": 2, "b": 1})
    assert serving.found() == ["OWN-1"] * 3


def test_a_bug_inside_the_store_is_reported(serving: ServingStage) -> None:
    serving.checker.on_call(StoreCall("a", "claim", (), AssertionError("held twice")))
    assert serving.found() == ["STORE"]


# -- OWN-2, OWN-3 and OWN-6 -----------------------------------------------------------------------------------------


class AuctionStage(Stage):
    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryOwnershipStore(Space("repos", True), clock=self.clock, random=seeded_random(1))
        self.checker = AuctionChecker(self.violations, self.store)

    def open(self, unit: Unit = U, auction_id: int = 1) -> None:
        self.checker.on_event(AuctionOpened(Auction(unit, auction_id, 2, 60.0)))

    def bid(self, node: str, unit: Unit = U) -> None:
        self.checker.on_call(StoreCall(node, "place_bid", (session(node), unit), BidResult(BidOutcome.PLACED)))

    def close(self, node: str, *, unit: Unit = U, auction_id: int = 1, winner: str | None = None) -> None:
        self.checker.on_event(AuctionClosed(unit, auction_id, winner))
        outcome = CloseOutcome.WON if winner else CloseOutcome.NO_WINNER
        self.checker.on_call(StoreCall(node, "close_auction", (unit,), CloseResult(outcome)))


@pytest.fixture
def stage() -> AuctionStage:
    return AuctionStage()


def test_a_lease_won_at_auction_is_lawful(stage: AuctionStage) -> None:
    stage.open()
    stage.bid("a")
    stage.bid("b")
    stage.checker.on_event(LeaseChanged(lease("b", 1)))
    stage.close("a", winner="b")
    assert stage.found() == []


def test_a_lease_without_an_auction_breaks_own_2(stage: AuctionStage) -> None:
    stage.checker.on_event(LeaseChanged(lease("a", 1)))
    stage.checker.on_call(StoreCall("a", "claim", (session("a"), U), lease("a", 1)))
    assert stage.found() == ["OWN-2"]


def test_a_winner_that_never_bid_breaks_own_2(stage: AuctionStage) -> None:
    stage.open()
    stage.bid("a")
    stage.checker.on_event(LeaseChanged(lease("c", 1)))
    stage.close("a", winner="c")
    assert stage.found() == ["OWN-2"]


def test_a_lease_granted_to_another_than_the_winner_breaks_own_2(stage: AuctionStage) -> None:
    stage.open()
    stage.bid("a")
    stage.checker.on_event(LeaseChanged(lease("c", 1)))
    stage.close("a", winner="a")
    assert stage.found() == ["OWN-2"]


def test_a_handoff_is_lawful_and_a_change_of_state_is_no_grant(stage: AuctionStage) -> None:
    ready_successor = Unit("u", SUCCESSOR)
    for unit, node in ((U, "a"), (ready_successor, "b")):
        stage.open(unit, auction_id=1 + unit.replica)
        stage.bid(node, unit)
        stage.checker.on_event(LeaseChanged(lease(node, 1, unit)))
        stage.close(node, unit=unit, auction_id=1 + unit.replica, winner=node)
    stage.checker.on_event(LeaseChanged(lease("a", 1, U, LeaseState.DRAINING)))
    stage.checker.on_call(StoreCall("a", "set_state", (), None))
    stage.checker.on_event(LeaseGone(U, 1))
    stage.checker.on_event(LeaseChanged(lease("b", 2)))
    stage.checker.on_event(LeaseGone(ready_successor, 1))
    stage.checker.on_call(StoreCall("a", "hand_over", (), None))
    assert stage.found() == []


def test_two_true_bids_of_one_node_break_own_3(stage: AuctionStage) -> None:
    for unit in (U, V):
        stage.store._open_auction(unit, 2, 60.0).bids["a"] = Bid("a", "a:1", "t", 1, 1)
    stage.bid("a", V)
    assert "OWN-3" in stage.found()


def test_an_auction_closed_twice_breaks_own_6(stage: AuctionStage) -> None:
    stage.open()
    stage.bid("a")
    stage.close("a")
    assert stage.found() == []
    stage.close("b")
    assert stage.found() == ["OWN-6"]


def test_a_second_successful_close_breaks_own_6(stage: AuctionStage) -> None:
    stage.checker.on_call(StoreCall("b", "close_auction", (U,), CloseResult(CloseOutcome.NO_WINNER)))
    assert stage.found() == ["OWN-6"]


def test_a_pending_mark_that_outlives_its_auction_breaks_own_6(stage: AuctionStage) -> None:
    stage.open()
    stage.store._pending["a"] = U
    stage.close("a")
    assert set(stage.found()) == {"OWN-6"}


# -- OWN-5 ----------------------------------------------------------------------------------------------------------

NAMES = tuple(f"shard {i}" for i in range(50))


def join(checker: RingChecker, *nodes: str) -> None:
    for node in nodes:
        checker.on_event(MemberChanged(Member(node, "a:1")))


def test_units_granted_to_their_ring_owner_are_allowed() -> None:
    stage = Stage()
    checker = RingChecker(stage.violations, NAMES, vnodes=160, stale_s=20)
    join(checker, "a", "b", "c")
    ring = Ring("abc")
    for name in NAMES:
        owner = ring.owner(name)
        assert owner is not None
        checker.on_event(LeaseChanged(lease(owner, 1, Unit(name))))
    stage.now = 15.0
    checker.on_event(MemberGone("c"))
    stage.now = 30.0  # 15 s after the change, a message of the time before may still arrive
    name = next(name for name in NAMES if ring.owner(name) == "c")
    checker.on_event(LeaseChanged(lease("c", 2, Unit(name))))
    assert stage.found() == []


def test_a_unit_that_moves_without_need_breaks_own_5() -> None:
    stage = Stage()
    checker = RingChecker(stage.violations, NAMES, vnodes=160, stale_s=20)
    join(checker, "a", "b")
    name = next(name for name in NAMES if Ring("ab").owner(name) == "b")
    checker.on_event(LeaseChanged(lease("a", 1, Unit(name))))
    assert stage.found() == [], "a moment ago a was alone on the ring"
    stage.now = 100.0
    checker.on_event(LeaseChanged(lease("b", 2, Unit(name))))
    checker.on_event(LeaseChanged(lease("a", 3, Unit(name))))
    assert stage.found() == ["OWN-5"]


def test_a_ring_that_reshuffles_breaks_own_5(monkeypatch: pytest.MonkeyPatch) -> None:
    def modulo(ring: Ring, key: str) -> str:
        nodes = sorted(ring.nodes)
        return nodes[int(key.split()[1]) % len(nodes)] if nodes else ""

    monkeypatch.setattr(Ring, "owner", modulo)
    stage = Stage()
    checker = RingChecker(stage.violations, NAMES, vnodes=160, stale_s=20)
    join(checker, "a", "b", "c")
    assert "OWN-5" in stage.found()


# -- liveness -------------------------------------------------------------------------------------------------------


class Node:
    def __init__(self, *units: Unit) -> None:
        self._units = units

    def holds(self, unit: Unit) -> bool:
        return unit in self._units


def test_only_units_that_are_held_ready_and_served_are_settled() -> None:
    w, x = Unit("w"), Unit("x")
    snapshot = Snapshot((lease("a", 1), lease("a", 1, V, LeaseState.WARMING), lease("b", 1, w)))
    trouble = unsettled_units(snapshot, [U, V, w, x], {"a": Node(U, V), "b": Node()})
    assert trouble == {
        V: "it is warming at a",
        w: "b has its lease and does not serve it",
        x: "it has no holder",
    }


# -- NODE-1 and NODE-2 -------------------------------------------------------------------------------------------------


class Watched:
    """A checker of search nodes at an instant that can be moved; n1 serves u, and has its index."""

    def __init__(self) -> None:
        self.now = 1.0
        self.violations = ViolationLog(lambda: self.now)
        self.checker = IndexControllerChecker(self.violations)
        self.clock = SimClock(lambda: self.now)
        self.checker.on_serving_change("n1", self.clock, ServingStarted(U, 1, 5.0))
        self.put("u", 10)

    def put(self, name: str, size_bytes: int, leaving: tuple[str, ...] = ()) -> None:
        self.checker.on_put("n1", name, size_bytes, budget_bytes=100, leaving=leaving)

    def answers(self, *names: str) -> list[str]:
        self.checker.on_response("n1", names)
        return [violation.invariant for violation in self.violations.entries]


def test_a_node_may_answer_for_a_unit_it_holds_and_has_loaded() -> None:
    watched = Watched()
    watched.now = 5.0
    assert watched.answers("u") == []


def test_a_node_may_not_answer_for_a_unit_it_never_held() -> None:
    assert Watched().answers("v") == ["NODE-1"]


def test_a_node_may_not_answer_after_its_promise_has_ended() -> None:
    watched = Watched()
    watched.now = 5.1
    assert watched.answers("u") == ["NODE-1"]
    watched.checker.on_serving_change("n1", watched.clock, ServingExtended(9.0))
    assert watched.answers("u") == ["NODE-1"], "the one of before"


def test_a_node_may_not_answer_after_it_has_stopped_or_died() -> None:
    watched = Watched()
    watched.checker.on_serving_change("n1", watched.clock, ServingStopped(U, 1))
    assert watched.answers("u") == ["NODE-1"]
    dead = Watched()
    dead.checker.on_death("n1")
    assert dead.answers("u") == ["NODE-1"]


def test_a_node_may_not_answer_without_an_index() -> None:
    watched = Watched()
    watched.checker.on_dropped("n1", "u")
    assert watched.answers("u") == ["NODE-1"]


def test_a_node_may_not_search_an_index_known_to_be_damaged() -> None:
    watched = Watched()
    watched.checker.on_damage_found("n1", "u")
    assert watched.answers("u") == [], "in the same instant it cannot react"
    watched.now = 1.1
    assert watched.answers("u") == ["NODE-1"]
    watched.put("u", 10)
    assert watched.answers("u") == ["NODE-1"], "the one of before"


def test_memory_may_be_exceeded_by_the_last_index_and_by_no_other() -> None:
    watched = Watched()
    watched.put("v", 95)  # 105 of 100: now one unit must be evicted
    assert watched.violations.entries == []
    watched.put("w", 1, leaving=("v",))
    assert watched.violations.entries == []
    watched.put("x", 1)
    assert [violation.invariant for violation in watched.violations.entries] == ["NODE-2"]
