"""The assigner's choice: which indexers, in which order, how many, and which handoffs remain.

`Indexer` below is a model of the real thing: it keeps an allow-list and proofs of handoff, and accepts or refuses. The
assigner's own state of the pool must equal the indexers' answers at every moment.
"""

from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.base.errors import Invalid, NotFound
from argosy.ownership.assigner import (
    AssignmentPlan,
    IndexerState,
    Pool,
    PoolPolicy,
    after_assignment,
    after_handoff,
    audience,
    candidates,
    holders,
    pending_handoffs,
    plan_assignment,
    plan_handoff,
    target_replication,
)

ONCE = PoolPolicy()
TWICE = PoolPolicy(replication=2)


def indexer(
    id: str,
    *assigned: str,
    frozen: bool = False,
    known: bool = True,
    preferred: tuple[str, ...] = (),
    continued: dict[str, str] | None = None,
) -> IndexerState:
    return IndexerState(
        id,
        is_known=known,
        is_frozen=frozen,
        assigned=frozenset(assigned),
        preferred=frozenset(preferred),
        continued=continued or {},
    )


def counts(pool: Pool) -> dict[str, int]:
    return {i.id: len(i.assigned) for i in pool}


def frozen_now(pool: Pool, id: str) -> Pool:
    return tuple(replace(i, is_frozen=True) if i.id == id else i for i in pool)


def announce(publisher: str, pool: Pool, policy: PoolPolicy, refusing: frozenset[str] = frozenset()) -> Pool:
    """What a caller does with a plan."""
    plan = plan_assignment(publisher, pool, policy)
    needed, sources = plan.needed, list(plan.resume_from)
    for target in plan.candidates:
        if needed == 0:
            break
        if target in refusing:
            continue
        if sources:
            pool = after_handoff(pool, publisher, frozen=sources.pop(0), target=target)
        else:
            pool = after_assignment(pool, publisher, target)
        needed -= 1
    return pool


def hand_off(frozen: str, pool: Pool, policy: PoolPolicy, failing: frozenset[str] = frozenset()) -> Pool:
    for publisher, targets in plan_handoff(frozen, pool, policy).items():
        if targets and publisher not in failing:
            pool = after_handoff(pool, publisher, frozen=frozen, target=targets[0])
    return pool


# How many


@pytest.mark.parametrize(("replication", "pool_size", "expected"), [(1, 3, 1), (3, 3, 3), (9, 3, 3), (2, 0, 0)])
def test_replication_is_capped_to_the_pool(replication: int, pool_size: int, expected: int) -> None:
    assert target_replication("p", PoolPolicy(replication=replication), pool_size) == expected


@pytest.mark.parametrize(("preset_replication", "expected"), [(1, 1), (2, 2), (3, 2)])
def test_a_preset_publisher_has_its_own_replication_capped_to_its_list(preset_replication: int, expected: int) -> None:
    policy = PoolPolicy(replication=3, preset_replication=preset_replication, presets={"p": ("a", "b", "a")})
    assert target_replication("p", policy, 5) == expected
    assert target_replication("q", policy, 5) == 3


@pytest.mark.parametrize("wrong", [{"replication": -1}, {"preset_replication": -1}, {"replication": 0}])
def test_a_replication_below_one_is_rejected(wrong: dict[str, int]) -> None:
    with pytest.raises(Invalid, match="must be at least 1"):
        PoolPolicy(**wrong)  # type: ignore[arg-type]


def test_an_empty_preset_list_is_rejected() -> None:
    with pytest.raises(Invalid, match="'p' name no indexer"):
        PoolPolicy(presets={"p": ()})


# Which indexers, and in which order


def test_candidates_are_the_preferred_then_the_least_loaded() -> None:
    pool = tuple(
        indexer(str(i), *(f"q{n}" for n in range(10 - i)), preferred=("p",) if i in (1, 3) else ()) for i in range(10)
    )
    assert "".join(candidates("p", pool, ONCE)) == "3198765420"


def test_ties_are_settled_by_id_whatever_the_order_of_the_pool() -> None:
    pool = (indexer("c"), indexer("a"), indexer("b", "q"), indexer("d", preferred=("p",)))
    assert candidates("p", pool, ONCE) == candidates("p", pool[::-1], ONCE) == ("d", "a", "c", "b")


def test_frozen_assigned_and_unanswering_indexers_are_no_candidates() -> None:
    pool = (indexer("a", frozen=True), indexer("b", "p"), indexer("c", known=False), indexer("d"))
    assert candidates("p", pool, ONCE) == ("d",)


def test_new_publishers_go_to_the_least_loaded_in_turn() -> None:
    pool: Pool = (indexer("0"), indexer("1"))
    for publisher in ("p1", "p2", "p3", "p4"):
        pool = announce(publisher, pool, ONCE)
    assert counts(pool) == {"0": 2, "1": 2}


def test_preferred_publishers_go_to_their_indexer_despite_its_load() -> None:
    pool: Pool = (indexer("0"), indexer("1", "q1", "q2", "q3", preferred=("p1", "p2", "p3")))
    for publisher in ("p1", "p2", "p3"):
        pool = announce(publisher, pool, ONCE)
    assert counts(pool) == {"0": 0, "1": 6}


def test_presets_apply_only_to_their_publishers() -> None:
    policy = PoolPolicy(replication=2, preset_replication=2, presets={"p1": ("0", "1"), "p2": ("0",)})
    pool: Pool = (indexer("0", "p1"), indexer("1", "p1"))
    assert plan_assignment("p1", pool, policy) == AssignmentPlan(0)
    pool = announce("p2", pool, policy)
    pool = announce("p3", pool, policy)
    assert counts(pool) == {"0": 3, "1": 2}
    assert audience("p2", pool, policy) == ("0",)
    assert audience("p3", pool, policy) == ("0", "1")


def test_an_assignment_against_a_preset_is_ignored() -> None:
    policy = PoolPolicy(presets={"p": ("b",)})
    pool = (indexer("a", "p"), indexer("b"))
    assert holders("p", pool, policy) == audience("p", pool, policy) == ()
    assert plan_assignment("p", pool, policy) == AssignmentPlan(1, ("b",))
    assert pending_handoffs("a", frozen_now(pool, "a"), policy) == frozenset()


def test_a_rejection_sends_the_assigner_to_the_next_candidate() -> None:
    pool: Pool = (indexer("a"), indexer("b", "q"), indexer("c", "q", "r"))
    pool = announce("p", pool, TWICE, refusing=frozenset({"a"}))
    assert holders("p", pool, TWICE) == ("b", "c")


def test_too_few_candidates_all_get_an_offer_and_the_plan_rejects_calls() -> None:
    pool = (indexer("a"), indexer("b", frozen=True))
    plan = plan_assignment("p", pool, TWICE)
    assert plan == AssignmentPlan(2, ("a",))
    assert plan.is_short
    assert not plan_assignment("p", pool, ONCE).is_short


def test_an_empty_pool_needs_no_indexer() -> None:
    assert plan_assignment("p", (), TWICE) == AssignmentPlan(0)


@pytest.mark.parametrize(("is_open", "expected"), [(True, 0), (False, 1)])
def test_the_allow_policy_decides_which_publishers_are_handled(is_open: bool, expected: int) -> None:
    policy = PoolPolicy(is_open=is_open, exceptions=frozenset({"p"}))
    assert plan_assignment("p", (indexer("a"),), policy).needed == expected
    assert plan_assignment("q", (indexer("a"),), policy).needed == 1 - expected
    assert len(pending_handoffs("a", (indexer("a", "p", frozen=True), indexer("b")), policy)) == expected


# Indexers that have not answered


def test_an_indexer_that_has_not_answered_may_hold_the_publisher() -> None:
    pool: Pool = (indexer("a"), indexer("b", known=False))
    assert plan_assignment("p", pool, ONCE) == AssignmentPlan(0)
    assert plan_assignment("p", pool, TWICE) == AssignmentPlan(1, ("a",))
    back = (pool[0], indexer("b"))
    assert plan_assignment("p", back, ONCE) == AssignmentPlan(1, ("a", "b"))


def test_an_indexer_outside_the_presets_cannot_hold_the_publisher_unseen() -> None:
    pool = (indexer("a"), indexer("b", known=False))
    assert plan_assignment("p", pool, PoolPolicy(presets={"p": ("a",)})).needed == 1
    assert plan_assignment("p", pool, PoolPolicy(presets={"p": ("a", "b")})).needed == 0


def test_a_handoff_waits_for_an_indexer_that_may_have_accepted_it_already() -> None:
    pool: Pool = (indexer("a", "p", frozen=True), indexer("b"), indexer("c", known=False))
    assert plan_handoff("a", pool, ONCE) == {"p": ()}
    assert plan_handoff("a", (*pool[:2], indexer("c", "p", continued={"p": "a"})), ONCE) == {}
    assert plan_handoff("a", (*pool[:2], indexer("c")), ONCE) == {"p": ("b", "c")}
    assert plan_handoff("a", pool, TWICE) == {"p": ("b",)}


# Handoff


def test_each_publisher_of_a_frozen_indexer_is_handed_off_exactly_once() -> None:
    pool: Pool = (indexer("0", "p1"), indexer("1", "p2"))
    pool = announce("p3", pool, ONCE)
    assert pool[0].assigned == {"p1", "p3"}
    pool = frozen_now(pool, "0")
    assert plan_handoff("0", pool, ONCE) == {"p1": ("1",), "p3": ("1",)}
    pool = hand_off("0", pool, ONCE)
    assert pool[1].continued == {"p1": "0", "p3": "0"}
    assert plan_handoff("0", pool, ONCE) == {}


def test_a_finished_handoff_is_recognised_after_a_restart_and_the_receiver_is_the_holder() -> None:
    """First defect of the reference: it forgets the receiver and remembers the frozen one."""
    rebuilt = (indexer("a", "p", frozen=True), indexer("b", "p", continued={"p": "a"}), indexer("c"))
    assert holders("p", rebuilt, ONCE) == ("b",)
    assert "b" in audience("p", rebuilt, ONCE)
    assert plan_handoff("a", rebuilt, ONCE) == {}
    assert plan_assignment("p", rebuilt, ONCE) == AssignmentPlan(0)


def test_a_frozen_indexer_that_answers_late_does_not_repeat_a_finished_handoff() -> None:
    """Second defect of the reference: it looks for proof only among those who answered in the same pass."""
    pool: Pool = (indexer("a", known=False), indexer("b", "p", continued={"p": "a"}), indexer("c"))
    assert plan_assignment("p", pool, ONCE) == AssignmentPlan(0)
    later = (indexer("a", "p", frozen=True), *pool[1:])
    assert plan_handoff("a", later, ONCE) == {}
    assert plan_assignment("p", later, ONCE) == AssignmentPlan(0)


def test_handoffs_are_counted_when_the_next_publisher_is_placed() -> None:
    """Third defect of the reference: counters stay as they were before a handoff."""
    active = (indexer("b"), indexer("c", "q1"), indexer("d", "q2", "q3"))
    pool: Pool = (indexer("a", "p1", "p2", "p3", frozen=True), *active)
    assert [targets[0] for targets in plan_handoff("a", pool, ONCE).values()] == ["b", "b", "c"]
    pool = hand_off("a", pool, ONCE)
    assert counts(pool) == {"a": 3, "b": 2, "c": 2, "d": 2}
    assert candidates("p4", after_assignment(pool, "p5", "b"), ONCE) == ("c", "d", "b")


def test_one_failing_publisher_does_not_delay_the_others() -> None:
    """Fourth defect of the reference: the rest of a frozen indexer's handoffs wait for the next poll."""
    policy = PoolPolicy(presets={"p1": ("a",)})
    pool: Pool = (indexer("a", "p1", "p2", "p3", frozen=True), indexer("b"))
    assert plan_handoff("a", pool, policy) == {"p1": (), "p2": ("b",), "p3": ("b",)}
    pool = hand_off("a", pool, policy, failing=frozenset({"p2"}))
    assert pool[1].assigned == {"p3"}
    assert plan_handoff("a", pool, policy) == {"p1": (), "p2": ("b",)}


def test_the_inputs_of_a_plan_are_immutable() -> None:
    """Fifth defect of the reference: the poller reads fields that another thread is writing."""
    allowed_now = {"p": "z"}
    state = IndexerState("a", assigned=frozenset({"p"}), continued=allowed_now)
    allowed_now["p"] = "y"
    assert state.continued == {"p": "z"}
    with pytest.raises(FrozenInstanceError):
        state.is_frozen = True  # type: ignore[misc]
    with pytest.raises(TypeError):
        state.continued["p"] = "y"  # type: ignore[index]
    pool = (state, indexer("b"))
    assert after_assignment(pool, "q", "a") != pool
    assert pool[0].assigned == {"p"}


def test_a_frozen_holder_does_not_count_and_is_continued_rather_than_ingested_from_the_start() -> None:
    """Sixth defect of the reference: the frozen node counts until its handoff, so an announcement repairs nothing."""
    pool: Pool = (indexer("a", "p", frozen=True), indexer("b"), indexer("c"))
    assert plan_assignment("p", pool, ONCE) == AssignmentPlan(1, ("b", "c"), resume_from=("a",))
    assert plan_assignment("p", pool, TWICE) == AssignmentPlan(2, ("b", "c"), resume_from=("a",))
    pool = announce("p", pool, TWICE)
    assert (pool[1].continued, pool[2].continued) == ({"p": "a"}, {})
    assert holders("p", pool, TWICE) == ("b", "c")


def test_no_more_frozen_holders_are_continued_than_holders_are_missing() -> None:
    pool = (indexer("a", "p", frozen=True), indexer("b", "p", frozen=True), indexer("c"), indexer("d"))
    assert plan_assignment("p", pool, ONCE) == AssignmentPlan(1, ("c", "d"), resume_from=("a",))
    assert plan_assignment("p", pool, TWICE) == AssignmentPlan(2, ("c", "d"), resume_from=("a", "b"))


def test_a_removed_indexer_is_missed_at_the_next_announcement_and_its_publishers_start_again() -> None:
    """Seventh: removal works by absence."""
    pool = (indexer("b", "q"), indexer("c"))
    assert plan_assignment("p", pool, ONCE) == AssignmentPlan(1, ("c", "b"), resume_from=())


def test_replication_is_restored_by_one_handoff_per_frozen_holder() -> None:
    pool: Pool = (indexer("a", "p", frozen=True), indexer("b", "p", frozen=True), indexer("c"), indexer("d"))
    pool = hand_off("a", pool, TWICE)
    assert plan_handoff("b", pool, TWICE) == {"p": ("d",)}
    pool = hand_off("b", pool, TWICE)
    assert (pool[2].continued, pool[3].continued) == ({"p": "a"}, {"p": "b"})
    assert pending_handoffs("a", pool, TWICE) == pending_handoffs("b", pool, TWICE) == frozenset()


def test_a_chain_of_handoffs_completes_even_after_its_middle_has_left_the_pool() -> None:
    pool: Pool = (indexer("a", "p", frozen=True), indexer("b", "p", frozen=True, continued={"p": "a"}), indexer("c"))
    assert pending_handoffs("a", pool, ONCE) == frozenset()
    pool = hand_off("b", pool, ONCE)
    assert holders("p", pool, ONCE) == ("c",)
    assert pending_handoffs("a", (pool[0], pool[2], indexer("d")), ONCE) == frozenset()


def test_when_the_receiver_of_a_handoff_is_removed_the_frozen_indexer_is_continued_again() -> None:
    pool = (indexer("a", "p", frozen=True), indexer("c"))
    assert plan_assignment("p", pool, ONCE) == AssignmentPlan(1, ("c",), resume_from=("a",))
    assert plan_handoff("a", pool, ONCE) == {"p": ("c",)}


def test_an_unfrozen_indexer_counts_again_and_has_no_handoffs_outstanding() -> None:
    pool = (indexer("a", "p"), indexer("b", "p", continued={"p": "a"}))
    assert pending_handoffs("a", pool, ONCE) == frozenset()
    assert holders("p", pool, ONCE) == ("a", "b")
    assert plan_handoff("b", frozen_now(pool, "b"), ONCE) == {}


def test_an_indexer_cannot_prove_its_own_handoff() -> None:
    pool = (indexer("a", "p", frozen=True, continued={"p": "a"}), indexer("b"))
    assert pending_handoffs("a", pool, ONCE) == {"p"}


def test_an_indexer_that_is_not_in_the_pool_is_named_in_the_error() -> None:
    for call in (lambda: pending_handoffs("x", (), ONCE), lambda: after_assignment((indexer("a"),), "p", "x")):
        with pytest.raises(NotFound, match="'x' is not in the pool"):
            call()


# The assigner's state and the indexers


@dataclass
class Indexer:
    """What an indexer stores on its own disk."""

    id: str
    is_online: bool = True
    is_frozen: bool = False
    allowed: dict[str, str | None] = field(default_factory=dict)

    def accepts(self, publisher: str, source: str | None) -> bool:
        if not self.is_online or self.is_frozen:
            return False
        assert publisher not in self.allowed
        self.allowed[publisher] = source
        return True

    def answer(self) -> IndexerState:
        continued = {publisher: source for publisher, source in self.allowed.items() if source}
        return IndexerState(self.id, True, self.is_frozen, frozenset(self.allowed), frozenset(), continued)


IDS = ["a", "b", "c", "d"]
PUBLISHERS = ["p1", "p2", "p3"]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("announce"), st.sampled_from(PUBLISHERS)),
        st.tuples(st.sampled_from(["freeze", "switch", "poll"]), st.sampled_from(IDS)),
        st.tuples(st.just("restart"), st.just("")),
    ),
    max_size=25,
)


class World:
    """Indexers, and an assigner that knows them only by their answers."""

    def __init__(self, policy: PoolPolicy) -> None:
        self.policy = policy
        self.indexers = {id: Indexer(id) for id in IDS}
        self.pool: Pool = ()
        self.restart()

    def restart(self, _: str = "") -> None:
        self.pool = tuple(IndexerState(id, is_known=False) for id in IDS)
        self.recover()

    def recover(self) -> None:
        self.pool = tuple(
            self.indexers[i.id].answer() if not i.is_known and self.indexers[i.id].is_online else i for i in self.pool
        )

    def switch(self, id: str) -> None:
        self.indexers[id].is_online = not self.indexers[id].is_online

    def freeze(self, id: str) -> None:
        self.indexers[id].is_frozen = True

    def announce(self, publisher: str) -> None:
        self.recover()
        plan = plan_assignment(publisher, self.pool, self.policy)
        needed, sources = plan.needed, list(plan.resume_from)
        for target in plan.candidates:
            if needed and self.request(publisher, target, sources[0] if sources else None):
                needed, sources = needed - 1, sources[1:]

    def poll(self, id: str) -> None:
        self.recover()
        if self.indexers[id].is_online and self.indexers[id].is_frozen:
            self.pool = frozen_now(self.pool, id)
        for publisher, targets in plan_handoff(id, self.pool, self.policy).items():
            any(self.request(publisher, target, id) for target in targets)

    def request(self, publisher: str, target: str, source: str | None) -> bool:
        if not self.indexers[target].accepts(publisher, source):
            return False
        if source is None:
            self.pool = after_assignment(self.pool, publisher, target)
        else:
            self.pool = after_handoff(self.pool, publisher, frozen=source, target=target)
        return True

    def active(self, publisher: str) -> int:
        return sum(publisher in i.allowed and not i.is_frozen for i in self.indexers.values())


@settings(max_examples=300)
@given(steps=steps, replication=st.integers(1, 3))
def test_the_state_equals_the_indexers_answers_and_nothing_is_over_assigned(
    steps: list[tuple[str, str]], replication: int
) -> None:
    world = World(PoolPolicy(replication=replication))
    for name, argument in steps:
        getattr(world, name)(argument)
        for state in world.pool:
            reported = world.indexers[state.id].answer()
            assert not state.is_known or state == replace(reported, is_frozen=state.is_frozen)
        for publisher in PUBLISHERS:
            assert world.active(publisher) <= replication


@settings(max_examples=300)
@given(steps=steps, replication=st.integers(1, 3))
def test_once_all_is_well_again_every_handoff_completes_as_far_as_there_is_room(
    steps: list[tuple[str, str]], replication: int
) -> None:
    world = World(PoolPolicy(replication=replication))
    for name, argument in steps:
        getattr(world, name)(argument)
    for one in world.indexers.values():
        one.is_online = True
    for id in IDS:
        world.poll(id)
    followed = {publisher for one in world.indexers.values() for publisher in one.allowed}
    for publisher in followed:
        world.announce(publisher)
        unfrozen = sum(not one.is_frozen for one in world.indexers.values())
        assert world.active(publisher) == min(replication, unfrozen)
