"""The state of a pool: answers, requests accepted since then, and requests with an unknown outcome."""

from dataclasses import replace

import pytest

from argosy.ipni.assigner.configuration import Configuration, PoolEntry
from argosy.ipni.assigner.pool_state import AssignmentStep, IndexerReport, PoolState
from argosy.ownership.assigner import IndexerState


def entry(name: str, *presets: str) -> PoolEntry:
    return PoolEntry(f"{name}-admin", f"{name}-find", f"{name}-ingest", frozenset(presets))


POOL = Configuration((entry("a"), entry("b")))


def pool_state(configuration: Configuration = POOL, **answers: IndexerReport) -> PoolState:
    pool = PoolState(configuration)
    for name, answer in answers.items():
        pool.on_report(f"{name}-admin", answer, pool.change_count(f"{name}-admin"))
    return pool


def states(pool: PoolState) -> dict[str, IndexerState]:
    return {state.id: state for state in pool.pool()}


def test_nothing_is_known_before_the_first_answer() -> None:
    assert PoolState(POOL).pool() == (IndexerState("a-admin", is_known=False), IndexerState("b-admin", is_known=False))
    assert PoolState(POOL).uncertain_indexers() == ("a-admin", "b-admin")


def test_peer_ids_in_answers_are_translated_as_soon_as_they_are_known() -> None:
    pool = pool_state(b=IndexerReport("B", assigned={"p": "A"}))
    assert states(pool)["b-admin"].continued == {"p": "A"}
    pool.on_report("a-admin", IndexerReport("A", is_frozen=True, assigned={"p": ""}), 0)
    assert states(pool)["b-admin"].continued == {"p": "a-admin"}
    assert pool.pending_handoffs() == {"a-admin": ()}


def test_an_answer_requested_before_an_acceptance_does_not_undo_it() -> None:
    pool = pool_state(a=IndexerReport("A"), b=IndexerReport("B"))
    count = pool.change_count("a-admin")
    step = AssignmentStep("p", "a-admin")
    pool.on_request(step)
    pool.on_accept(step)
    pool.on_report("a-admin", IndexerReport("A", assigned={"q": ""}), count)
    assert states(pool)["a-admin"].assigned == {"p", "q"}
    pool.on_report("a-admin", IndexerReport("A", assigned={"q": ""}), pool.change_count("a-admin"))
    assert states(pool)["a-admin"].assigned == {"q"}


def test_a_request_under_way_counts_as_load_and_as_a_holder_but_not_for_certain() -> None:
    pool = pool_state(a=IndexerReport("A"), b=IndexerReport("B"))
    pool.on_request(AssignmentStep("p", "a-admin"))
    assert pool.next_step("q", is_announced=True) == AssignmentStep("q", "b-admin")
    assert pool.next_step("p", is_announced=True) is None
    assert pool.is_short("p")
    pool.on_refusal(AssignmentStep("p", "a-admin"))
    assert pool.next_step("p", is_announced=True) == AssignmentStep("p", "a-admin")


def test_a_lost_request_counts_until_the_indexer_answers_again() -> None:
    pool = pool_state(a=IndexerReport("A"), b=IndexerReport("B"))
    count_before = pool.change_count("a-admin")
    step = AssignmentStep("p", "a-admin")
    pool.on_request(step)
    pool.on_unknown_outcome(step)
    pool.on_report("a-admin", IndexerReport("A"), count_before)  # too old to prove anything
    assert pool.next_step("p", is_announced=True) is None
    assert pool.uncertain_indexers() == ("a-admin",)
    pool.on_report("a-admin", IndexerReport("A"), pool.change_count("a-admin"))
    assert pool.next_step("p", is_announced=True) == step
    assert pool.uncertain_indexers() == ()


def test_a_silent_indexer_is_tried_last() -> None:
    pool = pool_state(a=IndexerReport("A"), b=IndexerReport("B", assigned={"q": "", "r": ""}))
    pool.on_request(AssignmentStep("p", "a-admin"))
    pool.on_unknown_outcome(AssignmentStep("p", "a-admin"))
    assert pool.next_step("s", is_announced=True) == AssignmentStep("s", "b-admin")
    assert pool.next_step("s", {"b-admin"}, is_announced=True) == AssignmentStep("s", "a-admin")


def test_without_an_announcement_only_outstanding_handoffs_are_made() -> None:
    pool = pool_state(a=IndexerReport("A", is_frozen=True, assigned={"p": ""}), b=IndexerReport("B"))
    assert pool.next_step("p", is_announced=False) == AssignmentStep("p", "b-admin", "a-admin")
    assert pool.next_step("q", is_announced=False) is None
    assert pool.next_step("q", is_announced=True) == AssignmentStep("q", "b-admin")


def test_an_accepted_handoff_looks_as_the_indexer_itself_reports_it() -> None:
    pool = pool_state(a=IndexerReport("A", is_frozen=True, assigned={"p": ""}), b=IndexerReport("B"))
    step = AssignmentStep("p", "b-admin", "a-admin")
    pool.on_request(step)
    pool.on_accept(step)
    before = pool.pool()
    pool.on_report("b-admin", IndexerReport("B", assigned={"p": "A"}), pool.change_count("b-admin"))
    assert pool.pool() == before
    assert pool.pending_handoffs() == {"a-admin": ()}


def test_a_failed_handoff_is_not_outstanding_until_the_frozen_indexer_is_unfrozen() -> None:
    frozen = IndexerReport("A", is_frozen=True, assigned={"p": ""})
    pool = pool_state(a=frozen, b=IndexerReport("B"))
    step = AssignmentStep("p", "b-admin", "a-admin")
    pool.on_moot_handoff(step)
    assert pool.is_moot(step)
    assert pool.pending_handoffs() == {"a-admin": ()}
    assert pool.next_step("p", is_announced=False) is None
    assert pool.next_step("p", is_announced=True) == AssignmentStep("p", "b-admin")
    pool.on_report("a-admin", replace(frozen, is_frozen=False), pool.change_count("a-admin"))
    pool.on_report("a-admin", frozen, pool.change_count("a-admin"))
    assert pool.pending_handoffs() == {"a-admin": ("p",)}


def test_the_state_of_remaining_indexers_is_kept_and_of_removed_ones_dropped() -> None:
    pool = pool_state(a=IndexerReport("A", assigned={"p": ""}), b=IndexerReport("B", assigned={"q": ""}))
    pool.configure(Configuration((entry("b", "q"), entry("c"))))
    assert states(pool) == {
        "b-admin": IndexerState("b-admin", assigned=frozenset({"q"})),
        "c-admin": IndexerState("c-admin", is_known=False),
    }
    assert pool.policy.presets == {"q": ("b-admin",)}
    pool.on_accept(AssignmentStep("p", "a-admin"))  # the answer of a removed indexer
    pool.on_report("a-admin", IndexerReport("A"), 0)
    assert (pool.entry("a-admin"), pool.report("a-admin")) == (None, None)
    pool.configure(POOL)
    assert pool.report("a-admin") is None


def test_the_last_answer_of_an_unreachable_indexer_stays_valid() -> None:
    pool = pool_state(a=IndexerReport("A", assigned={"p": ""}), b=IndexerReport("B"))
    pool.on_poll_failure("a-admin", "refused")
    assert pool.problem("a-admin") == "refused"
    assert pool.audience("p") == ("a-admin",)
    pool.on_report("a-admin", IndexerReport("A"), pool.change_count("a-admin"))
    assert (pool.problem("a-admin"), pool.audience("p")) == ("", ())


def test_an_indexer_at_two_urls_is_counted_at_the_first() -> None:
    pool = pool_state(a=IndexerReport("A", assigned={"p": ""}), b=IndexerReport("A", assigned={"p": ""}))
    assert pool.doubles() == {"b-admin": "a-admin"}
    assert [state.id for state in pool.pool()] == ["a-admin"]


def test_an_indexer_replaced_under_its_url_is_described_by_its_new_answer() -> None:
    pool = pool_state(a=IndexerReport("A", assigned={"p": ""}))
    pool.on_report("a-admin", IndexerReport("new"), pool.change_count("a-admin"))
    assert states(pool)["a-admin"] == IndexerState("a-admin")


@pytest.mark.parametrize("is_frozen", [False, True])
def test_the_pool_is_computed_once_and_again_only_after_a_change(is_frozen: bool) -> None:
    pool = pool_state(a=IndexerReport("A", is_frozen=is_frozen), b=IndexerReport("B"))
    before = pool.pool()
    assert pool.pool() is before
    pool.on_request(AssignmentStep("p", "b-admin"))
    assert pool.pool()[0] is before[0]
    assert pool.pool()[1] is not before[1]
