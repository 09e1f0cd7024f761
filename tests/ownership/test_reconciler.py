"""Without auctions: claims towards the ring's assignment or the node's own, and timely releases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.clock import seeded_random
from argosy.ownership.effects import ClaimLease, Effect
from argosy.ownership.events import (
    ClaimAnswered,
    LeaseChanged,
    LeaseGone,
    MemberChanged,
    MemberGone,
    SessionEnded,
    SessionOpened,
    WarmingFailed,
)
from argosy.ownership.model import SUCCESSOR, LeaseState, SessionRole, Unit, UnitSpec
from argosy.ownership.reconciler import CLAIMS_MAX, Reconciler
from argosy.ownership.ring import Ring
from tests.ownership.builders import GIB, ME, OTHER, VALID_S, Bench, catalog, lease, member, of_kind, session

SHARDS = [f"s{i}" for i in range(8)]
A = Unit("a")


class ReconcilerBench(Bench):
    def __init__(self, *specs: UnitSpec | str, placement: str = "ring", **changes: object) -> None:
        super().__init__(*specs, placement=placement, **changes)
        self.machine = Reconciler(self.settings, ME, self.view, self.keeper, self.member, self.random)

    def claims(self, event: object, now: float) -> list[str]:
        return [claim.unit.name for claim in of_kind(self.handle(event, now), ClaimLease)]  # type: ignore[arg-type]

    def claims_with(self, free_bytes: int, now: float) -> list[str]:
        """The claims that follow from so much memory, at once or after the jitter."""
        claims = of_kind(self.measure(free_bytes, now), ClaimLease)
        return [claim.unit.name for claim in claims] + self.claims(None, now + self.settings.claim_jitter_s)

    def settle(self, now: float) -> None:
        """Everything that this node should hold alone is granted to it."""
        for name in self.view.specs:
            self.grant(name, now)
            self.handle(ClaimAnswered(Unit(name), None), now)


def keys_of(node: str, *members: str) -> list[str]:
    return sorted(Ring(members).keys_of(node, SHARDS))


def test_a_ring_node_claims_its_own_units_after_a_jitter() -> None:
    bench = ReconcilerBench(*SHARDS, claim_jitter_s=0.2)
    assert bench.claims(MemberChanged(member(OTHER)), 0.0) == []
    assert bench.machine.deadline() == pytest.approx(0.1)
    mine = keys_of(ME, ME, OTHER)
    assert 0 < len(mine) < len(SHARDS)
    assert bench.claims(None, 0.1) == mine


@pytest.mark.parametrize("placement", ["ring", "claim"])
@pytest.mark.parametrize("role", [SessionRole.MEMBER, SessionRole.HOLDER])
def test_without_both_sessions_nothing_is_claimed(role: SessionRole, placement: str) -> None:
    bench = ReconcilerBench(*SHARDS, placement=placement)
    bench.measure(GIB, 0.0)
    bench.handle(SessionEnded(session(role)), 0.05)
    assert bench.claims(None, 1.0) == []
    assert bench.machine.deadline() is None
    bench.handle(SessionOpened(session(role, token="run-2"), 1.0), 1.0)
    assert bench.claims(None, 2.0)


def test_with_an_invalid_session_nothing_is_claimed() -> None:
    bench = ReconcilerBench(*SHARDS)
    bench.handle(catalog(*SHARDS), 0.0)
    assert bench.claims(None, VALID_S) == []


def test_new_owners_try_at_once_and_again_with_growing_jittered_waits() -> None:
    bench, now, waits = ReconcilerBench("a", claim_retry_s=0.5), 1.0, []
    bench.handle(catalog("a"), now)
    bench.handle(MemberChanged(member(ME)), now)
    assert bench.claims(None, 2.0) == ["a"]
    now = 2.0
    for _ in range(7):
        bench.handle(ClaimAnswered(A, None), now)
        waits.append(bench.machine.deadline() - now)
        now = bench.machine.deadline()
        assert bench.claims(None, now) == ["a"]
    assert waits == sorted(waits)
    assert 0 < waits[0] <= 0.05
    assert 0.25 <= waits[-1] <= 0.5


def test_a_unit_known_to_be_held_causes_no_call() -> None:
    bench = ReconcilerBench("a")
    bench.handle(LeaseChanged(lease("a", node=OTHER)), 0.0)
    bench.handle(MemberChanged(member(ME)), 0.0)
    assert bench.wait(0.0, until=20.0) == []
    assert bench.machine.deadline() is not None  # it continues to check
    bench.confirm(20.0)
    bench.handle(LeaseGone(A, 1), 20.0)
    assert bench.claims(None, 20.2) == ["a"]  # not a whole retry later


def test_a_store_that_names_a_delay_gets_it() -> None:
    bench = ReconcilerBench("a")
    bench.handle(MemberChanged(member(ME)), 0.0)
    assert bench.claims(None, 1.0) == ["a"]
    bench.handle(ClaimAnswered(A, 12.0), 1.0)
    assert bench.machine.deadline() == 13.0


def test_a_held_unit_is_not_claimed_again() -> None:
    bench = ReconcilerBench("a")
    bench.handle(MemberChanged(member(ME)), 0.0)
    bench.claims(None, 1.0)
    bench.handle(ClaimAnswered(A, None), 1.0)
    bench.grant("a", 1.01)
    assert bench.machine.deadline() is None


def test_old_owners_wait_a_little_and_then_leave() -> None:
    bench = ReconcilerBench(*SHARDS, handoff_wait_s=1.0)
    bench.settle(0.0)
    bench.handle(MemberChanged(member(OTHER)), 5.0)
    theirs = {Unit(name) for name in keys_of(OTHER, ME, OTHER)}
    assert bench.machine.due_releases(5.9) == []
    assert bench.machine.deadline() == 6.0
    assert set(bench.machine.due_releases(6.0)) == theirs
    assert bench.machine.due_releases(6.0) == []  # reported once


def test_a_unit_desired_again_in_time_is_kept() -> None:
    bench = ReconcilerBench(*SHARDS, handoff_wait_s=1.0)
    bench.settle(0.0)
    bench.handle(MemberChanged(member(OTHER)), 5.0)
    bench.handle(MemberGone(OTHER), 5.5)
    assert bench.machine.due_releases(7.0) == []
    assert bench.machine.deadline() is None


def test_no_more_claims_are_under_way_than_the_bound() -> None:
    names = [f"s{i:02}" for i in range(3 * CLAIMS_MAX)]
    bench = ReconcilerBench(*names)
    bench.handle(MemberChanged(member(ME)), 0.0)
    first = bench.claims(None, 1.0)
    assert len(first) == CLAIMS_MAX
    assert bench.machine.deadline() is None  # an answer wakes it, not time
    assert len(bench.claims(ClaimAnswered(Unit(first[0]), None), 1.5)) == 1


def test_a_claiming_node_takes_what_fits_its_memory() -> None:
    specs = [UnitSpec("a", footprint_bytes=600), UnitSpec("b", footprint_bytes=500), UnitSpec("c", footprint_bytes=300)]
    bench = ReconcilerBench(*specs, placement="claim")
    bench.random.fraction = 0.0
    assert bench.claims_with(1000, 0.0) == ["a", "c"]


def test_a_claiming_node_claims_no_more_than_it_can_warm() -> None:
    bench = ReconcilerBench(*SHARDS, placement="claim", warming_max=3)
    bench.grant("s0", 0.0, state=LeaseState.WARMING)
    bench.measure(GIB, 0.0)
    assert len(bench.claims(None, 1.0)) == 2


def test_claiming_nodes_start_at_different_units() -> None:
    firsts = set()
    for fraction in (0.0, 0.5):
        bench = ReconcilerBench(*SHARDS, placement="claim", warming_max=1)
        bench.random.fraction = fraction
        firsts.update(bench.claims_with(GIB, 0.0))
    assert len(firsts) == 2


def test_a_claiming_node_never_releases_unprompted() -> None:
    bench = ReconcilerBench("a", placement="claim")
    bench.grant("a", 0.0)
    bench.handle(MemberChanged(member(OTHER)), 1.0)
    assert bench.machine.due_releases(1000.0) == []


def test_one_node_claims_one_slot_of_a_unit() -> None:
    bench = ReconcilerBench(UnitSpec("a", replicas=1), placement="claim")
    bench.grant("a", 0.0)
    bench.measure(GIB, 0.0)
    assert bench.claims(None, 1.0) == []


@pytest.mark.parametrize("slot", [1, SUCCESSOR])
def test_a_replica_holder_may_claim_the_primary(slot: int) -> None:
    bench = ReconcilerBench(UnitSpec("a", replicas=1), placement="claim")
    bench.grant(Unit("a", slot), 0.0)
    bench.measure(GIB, 0.0)
    assert of_kind(bench.handle(None, 1.0), ClaimLease) == [ClaimLease(session(), A)]


@pytest.mark.parametrize("placement", ["ring", "claim"])
def test_a_unit_that_could_not_be_warmed_is_avoided_for_a_window(placement: str) -> None:
    bench = ReconcilerBench("a", placement=placement, window_s=10.0)
    bench.measure(GIB, 0.0)
    bench.claims(None, 1.0)
    bench.handle(ClaimAnswered(A, None), 1.0)
    bench.grant("a", 1.0, state=LeaseState.WARMING)
    bench.handle(WarmingFailed(A, 1), 2.0)
    bench.handle(LeaseGone(A, 1), 2.1)
    bench.measure(GIB, 2.2)
    assert bench.wait(2.2, until=11.9) == []
    assert bench.claims_with(GIB, 12.1) == ["a"]


def test_a_failing_unit_takes_no_slot_from_others() -> None:
    bench = ReconcilerBench("a", "b", placement="claim", warming_max=1)
    bench.random.fraction = 0.0
    bench.handle(WarmingFailed(A, 1), 0.0)
    assert bench.claims_with(GIB, 0.0) == ["b"]


KINDS = ("pass", "join", "leave", "answer", "held", "granted", "gone", "measure", "lost", "spoilt")
STEPS = st.lists(
    st.tuples(st.floats(0, 3), st.sampled_from(KINDS), st.sampled_from(SHARDS), st.sampled_from(["n2", "n3"])),
    max_size=40,
)


@given(st.sampled_from(["ring", "claim"]), STEPS, st.integers())
def test_under_random_events_no_unit_is_claimed_twice_at_once_and_it_never_spins(
    placement: str, steps: list[tuple[float, str, str, str]], seed: int
) -> None:
    bench, now, epoch = ReconcilerBench(*SHARDS, placement=placement), 0.0, 0
    bench.machine._random = seeded_random(seed)
    pending: set[Unit] = set()
    for span, kind, name, node in steps:
        now += span
        unit = Unit(name)
        effects: list[Effect] = []
        if kind != "lost":
            bench.confirm(now)
        match kind:
            case "join":
                effects = bench.handle(MemberChanged(member(node)), now)
            case "leave":
                effects = bench.handle(MemberGone(node), now)
            case "answer" if unit in pending:
                pending.remove(unit)
                effects = bench.handle(ClaimAnswered(unit, None), now)
            case "held" | "granted":
                epoch += 1
                effects = bench.grant(unit, now, epoch=epoch, node=ME if kind == "granted" else node)
            case "gone" if unit in bench.view.leases:
                effects = bench.handle(LeaseGone(unit, bench.view.leases[unit].epoch), now)
            case "spoilt":
                effects = bench.handle(WarmingFailed(unit, 1), now)
            case "lost":
                effects = bench.handle(SessionEnded(session()), now)
            case _:
                effects = bench.measure(GIB, now)
        for _ in range(50):
            for claim in of_kind(effects, ClaimLease):
                assert claim.unit not in pending
                assert claim.unit not in bench.view.leases
                pending.add(claim.unit)
            assert len(pending) <= CLAIMS_MAX
            bench.machine.due_releases(now)
            deadline = bench.machine.deadline()
            if deadline is None or deadline > now:
                break
            effects = bench.handle(None, now)
        else:
            raise AssertionError(f"the reconciler spins at {now}: {bench.machine.deadline()}")
