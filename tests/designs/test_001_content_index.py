"""Document 001, "Indexer Scaling Design for Ingest-heavy Workload": the assigner's choice, sentence by sentence.

`a`, `b`, `c` are indexers, `p`, `q`, `r` publishers.
"""

from dataclasses import replace

import pytest

from argosy.base.errors import Invalid
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
)

ONCE = PoolPolicy()
TWICE = PoolPolicy(replication=2)


def active(id: str, *assigned: str, **more: object) -> IndexerState:
    return replace(IndexerState(id, assigned=frozenset(assigned)), **more)  # type: ignore[arg-type]


def frozen(id: str, *assigned: str, **more: object) -> IndexerState:
    return active(id, *assigned, is_frozen=True, **more)


def offline(id: str) -> IndexerState:
    return IndexerState(id, is_known=False)


# Assigning a publisher to an indexer


def test_a_sufficiently_assigned_publisher_is_left_unchanged() -> None:
    """Determines if the publisher is already assigned to the requires indexers, if not…"""
    assert plan_assignment("p", (active("a", "p"), active("b")), ONCE) == AssignmentPlan(0)
    assert plan_assignment("p", (active("a", "p"), active("b")), TWICE).needed == 1


def test_candidates_exclude_assigned_and_frozen_indexers() -> None:
    """Selects candidate indexers (not already assigned the publisher, not in frozen mode) from its pool of indexers"""
    assert candidates("p", (active("a", "p"), frozen("b"), active("c")), ONCE) == ("c",)


def test_the_least_loaded_candidate_is_tried_first() -> None:
    """Orders these candidates to prefer those with the fewest assignments"""
    assert candidates("p", (active("a", "q", "r"), active("b"), active("c", "q")), ONCE) == ("b", "c", "a")


def test_a_rejecting_indexer_is_skipped() -> None:
    """Gets response from assigned indexer to confirm or reject assignment."""
    pool = (active("a"), active("b"))
    assert plan_assignment("p", pool, ONCE).candidates == ("a", "b")
    assert holders("p", after_assignment(pool, "p", "b"), ONCE) == ("b",)


def test_assigning_continues_until_replicated_or_out_of_candidates() -> None:
    """Assigning the publisher to candidate indexrs continues until the required number of assignments made, or until
    there are no more indexers that the publisher can be assigned to."""
    assert plan_assignment("p", (active("a"), active("b"), active("c")), TWICE).needed == 2
    short = plan_assignment("p", (active("a"), frozen("b"), frozen("c")), TWICE)
    assert (short.candidates, short.is_short) == (("a",), True)


def test_an_offline_indexer_is_assumed_to_have_the_publisher() -> None:
    """If indexers remain offline while the AS handles a publisher that needs assignment, the AS assumes that the
    publisher may already be assigned to an offline indexer."""
    assert plan_assignment("p", (active("a"), offline("b")), ONCE) == AssignmentPlan(0)
    assert plan_assignment("p", (active("a"), active("b")), ONCE).needed == 1


# State


def test_the_state_after_a_handoff_equals_the_state_indexers_report() -> None:
    """Instead the state is rebuilt by querying indexers at startup."""
    pool: Pool = (frozen("a", "p"), active("b"))
    reported = (frozen("a", "p"), active("b", "p", continued={"p": "a"}))
    assert after_handoff(pool, "p", frozen="a", target="b") == reported


def test_an_assignment_is_counted_at_once() -> None:
    """As assignments are made, the AS in-memory state is updated."""
    pool = after_assignment((active("a"), active("b")), "p", "a")
    assert candidates("q", pool, ONCE) == ("b", "a")


def test_a_restarted_assigner_knows_which_handoffs_are_done() -> None:
    """It also queries the status of each indexer to see which indexers are frozen and if their assigned publishers have
    already been handed off to other indexers."""
    pool = (frozen("a", "p", "q"), active("b", "p", continued={"p": "a"}), active("c"))
    assert pending_handoffs("a", pool, ONCE) == {"q"}


# Presets and preferences


PRESET = PoolPolicy(replication=3, presets={"p": ("a", "b")})


def test_a_preset_publisher_goes_to_its_list_only() -> None:
    """If a publisher exists in this map, that publisher is assigned to only the indexers listed for it."""
    assert candidates("p", (active("a", "q"), active("b"), active("c")), PRESET) == ("b", "a")


def test_preset_replication_limits_the_indexers_of_the_list() -> None:
    """The preset replication configuration determined how many of the preset indexers in that list to assign the
    publisher to."""
    pool = (active("a"), active("b"), active("c"))
    assert plan_assignment("p", pool, PRESET).needed == 1
    assert plan_assignment("p", pool, replace(PRESET, preset_replication=2)).needed == 2


def test_other_publishers_share_the_indexers_of_a_preset_list() -> None:
    """other publishers will still be assigned to the indexers in a preset list, unless the “allow” policy specifies
    otherwise."""
    pool = (active("a"), active("b"), active("c"))
    assert plan_assignment("q", pool, PRESET).candidates == ("a", "b", "c")
    barred = replace(PRESET, is_open=False, exceptions=frozenset({"p"}))
    assert plan_assignment("q", pool, barred) == AssignmentPlan(0)
    assert plan_assignment("p", pool, barred).needed == 1


def test_a_preset_publisher_is_handed_off_within_its_list() -> None:
    """If an indexer with preset assignments becomes frozen, the publishers with preset indexers and only reassigned to
    other indexers within the preset list."""
    assert plan_handoff("a", (frozen("a", "p"), active("b", "q"), active("c")), PRESET) == {"p": ("b",)}
    assert plan_handoff("a", (frozen("a", "p"), frozen("b"), active("c")), PRESET) == {"p": ()}


def test_an_indexer_with_old_data_is_preferred_if_the_publisher_needs_one() -> None:
    """This results in the AS preferring to assign these publishers to the indexer if those publishers need
    assignment."""
    newcomer = active("b", "q", "r", preferred=frozenset({"p"}))
    assert plan_assignment("p", (active("a"), newcomer), ONCE).candidates == ("b", "a")
    assert plan_assignment("p", (active("a", "p"), newcomer), ONCE) == AssignmentPlan(0)


# The pool


def test_an_added_indexer_takes_new_publishers_and_nothing_is_moved() -> None:
    """Indexers can be added or removed from a pool at any time by adding or removing the indexer from the AS pool
    configuration and restarting the AS."""
    pool = (active("a", "p", "q"), active("b"))
    assert plan_assignment("p", pool, ONCE) == AssignmentPlan(0)
    assert plan_assignment("r", pool, ONCE).candidates[0] == "b"


def test_a_removed_indexers_publishers_are_reassigned_from_the_beginning() -> None:
    """When an indexer is removed, the AS will see that the assigned count for publisher(s) is less than the replication
    factor and will assign the publisher(s) to another additional indexer in the pool and start a sync."""
    pool = (active("a", "p"), active("b", "p"), active("c"))
    assert plan_assignment("p", pool, TWICE) == AssignmentPlan(0)
    assert plan_assignment("p", pool[1:], TWICE) == AssignmentPlan(1, ("c",), resume_from=())


def test_a_replacement_that_is_added_first_inherits_the_publishers() -> None:
    """replacing an indexer should be done by first adding a new one and then removing the one being replaced, so that
    the publishers from the removed indexer are assigned to the empty replacement indexer, and not to other nodes in the
    pool."""
    pool: Pool = (active("b", "x", "y", "z"), active("replacement"))
    for publisher in ("p", "q", "r"):
        target = plan_assignment(publisher, pool, ONCE).candidates[0]
        pool = after_assignment(pool, publisher, target)
    assert pool[1].assigned == {"p", "q", "r"}


def test_an_indexer_that_is_frozen_before_removal_leaves_nothing_to_ingest_again() -> None:
    """first freeze the indexer administratively and allow its assignments to be handed off to other indexers, resuming
    ingestion from where the frozen indexer left off. Then remove the frozen indexer."""
    pool: Pool = (frozen("a", "p"), active("b"))
    (target,) = plan_handoff("a", pool, ONCE)["p"]
    pool = after_handoff(pool, "p", frozen="a", target=target)
    assert plan_assignment("p", pool[1:], ONCE) == AssignmentPlan(0)


def test_an_indexer_whose_data_is_not_needed_is_removed_without_freezing() -> None:
    """Remove A without freezing it first. If new announces arrive for the publishers on A, then those will be assigned
    at that time, unless blocked by policy."""
    rest = (active("b"),)
    assert plan_assignment("p", rest, ONCE) == AssignmentPlan(1, ("b",))
    assert plan_assignment("p", rest, PoolPolicy(exceptions=frozenset({"p"}))) == AssignmentPlan(0)


def test_with_the_minimum_of_indexers_a_handoff_has_no_target() -> None:
    """there will be nowhere to handoff publishers when an indexer enters frozen more."""
    assert plan_handoff("a", (frozen("a", "p"), active("b", "p")), TWICE) == {"p": ()}


def test_each_publisher_is_assigned_to_replication_many_indexers() -> None:
    """value that determines how many indexers each publisher is assigned to."""
    pool = (active("a"), active("b"), active("c"))
    assert [plan_assignment("p", pool, PoolPolicy(replication=n)).needed for n in (1, 2, 3, 4)] == [1, 2, 3, 3]
    with pytest.raises(Invalid):
        PoolPolicy(replication=-1)


# Frozen mode and handoff


def test_a_frozen_indexer_gets_no_assignments() -> None:
    """A frozen indexer will not accept any new publisher assignments."""
    assert candidates("p", (frozen("a", preferred=frozenset({"p"})),), ONCE) == ()


def test_a_frozen_indexer_still_gets_its_publishers_announcements() -> None:
    """Both indexer-1 and indexer-2 continue processing advertisements, but only indexer-2 stores new index data."""
    pool = after_handoff((frozen("a", "p"), active("b")), "p", frozen="a", target="b")
    assert audience("p", pool, ONCE) == ("a", "b")
    assert holders("p", pool, ONCE) == ("b",)


def test_each_publisher_of_a_frozen_indexer_is_handed_off() -> None:
    """If the AS sees that an indexer has become frozen, then the AS does a handoff for each publisher that is assigned
    to the frozen indexer."""
    assert set(plan_handoff("a", (frozen("a", "p", "q", "r"), active("b")), ONCE)) == {"p", "q", "r"}


def test_a_publisher_is_continued_where_the_frozen_indexer_left_off() -> None:
    """A handoff is where a publisher is re-assigned to another indexer in such a way that the indexing continues on the
    active indexer where it left off on the frozen indexer."""
    assert plan_assignment("p", (frozen("a", "p"), active("b")), ONCE) == AssignmentPlan(1, ("b",), resume_from=("a",))


def test_a_handoff_uses_the_assignment_logic() -> None:
    """The AS makes the decision about which indexers to handoff a publisher to using the same logic as when deciding
    where to assign a new publisher."""
    others = (active("b", "q"), active("c"), active("d", "q", "r", preferred=frozenset({"p"})))
    assert plan_handoff("a", (frozen("a", "p"), *others), ONCE) == {"p": candidates("p", others, ONCE)}


def test_each_publisher_is_handed_off_separately() -> None:
    """This is done separately for each publisher being handed off."""
    pool = (frozen("a", "p", "q"), active("b"), active("c"))
    assert plan_handoff("a", pool, ONCE) == {"p": ("b", "c"), "q": ("c", "b")}


def test_assignments_on_frozen_indexers_are_not_counted() -> None:
    """The AS does not count assignments on frozen indexers."""
    assert plan_assignment("p", (frozen("a", "p"), active("b", "p"), active("c")), TWICE).needed == 1


def test_a_completed_handoff_satisfies_the_replication_factor() -> None:
    """Completing handoff satisfies the replication factor since each publisher is assigned to another available
    indexer."""
    pool = after_handoff((frozen("a", "p"), active("b", "p"), active("c")), "p", frozen="a", target="c")
    assert holders("p", pool, TWICE) == ("b", "c")
    assert plan_assignment("p", pool, TWICE) == AssignmentPlan(0)


def test_an_incomplete_handoff_resumes_with_the_remaining_publishers() -> None:
    """The AS handles incomplete handoff by resuming the handoff process for any publishers assigned to a frozen indexer
    which have not been handed off to another indexer."""
    pool = after_handoff((frozen("a", "p", "q"), active("b")), "p", frozen="a", target="b")
    assert plan_handoff("a", pool, ONCE) == {"q": ("b",)}


def test_a_handoff_without_a_target_stays_pending() -> None:
    """If there are no unfrozen indexers available to accept the handoff of a publisher, the AS keeps track of the
    incomplete handoff and tries to complete the process if offline indexers come back online."""
    assert plan_handoff("a", (frozen("a", "p"), offline("b")), ONCE) == {"p": ()}
    assert plan_handoff("a", (frozen("a", "p"), active("b")), ONCE) == {"p": ("b",)}


def test_an_added_indexer_lets_a_handoff_complete() -> None:
    """This allows handoff completion if more indexers are added to the indexer pool (requiring AS restart), or if the
    AS went offline while doing a handoff."""
    full = (frozen("a", "p"), frozen("b", "q"))
    assert plan_handoff("a", full, ONCE) == {"p": ()}
    assert plan_handoff("a", (*full, active("c")), ONCE) == {"p": ("c",)}


def test_an_unfrozen_indexer_may_duplicate_handed_off_publishers() -> None:
    """publishers that were handed off to other indexers will remain assigned to those indexers"""
    pool = (active("a", "p"), active("b", "p", continued={"p": "a"}))
    assert holders("p", pool, ONCE) == ("a", "b")
