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
    made = PoolState(configuration)
    for name, answer in answers.items():
        made.on_report(f"{name}-admin", answer, made.change_count(f"{name}-admin"))
    return made


def states(made: PoolState) -> dict[str, IndexerState]:
    return {state.id: state for state in made.pool()}


def test_nothing_is_known_before_the_first_answer() -> None:
    assert PoolState(POOL).pool() == (IndexerState("a-admin", is_known=False), IndexerState("b-admin", is_known=False))
    assert PoolState(POOL).uncertain_indexers() == ("a-admin", "b-admin")


def test_peer_ids_in_answers_are_translated_as_soon_as_they_are_known() -> None:
    made = pool_state(b=IndexerReport("B", assigned={"p": "A"}))
    assert states(made)["b-admin"].continued == {"p": "A"}
    made.on_report("a-admin", IndexerReport("A", is_frozen=True, assigned={"p": ""}), 0)
    assert states(made)["b-admin"].continued == {"p": "a-admin"}
    assert made.pending_handoffs() == {"a-admin": ()}


def test_an_answer_requested_before_an_acceptance_does_not_undo_it() -> None:
    made = pool_state(a=IndexerReport("A"), b=IndexerReport("B"))
    asked = made.change_count("a-admin")
    step = AssignmentStep("p", "a-admin")
    made.on_request(step)
    made.on_accept(step)
    made.on_report("a-admin", IndexerReport("A", assigned={"q": ""}), asked)
    assert states(made)["a-admin"].assigned == {"p", "q"}
    made.on_report("a-admin", IndexerReport("A", assigned={"q": ""}), made.change_count("a-admin"))
    assert states(made)["a-admin"].assigned == {"q"}


def test_a_request_under_way_counts_as_load_and_as_a_holder_but_not_for_certain() -> None:
    made = pool_state(a=IndexerReport("A"), b=IndexerReport("B"))
    made.on_request(AssignmentStep("p", "a-admin"))
    assert made.next_step("q", is_announced=True) == AssignmentStep("q", "b-admin")
    assert made.next_step("p", is_announced=True) is None
    assert made.is_short("p")
    made.on_refusal(AssignmentStep("p", "a-admin"))
    assert made.next_step("p", is_announced=True) == AssignmentStep("p", "a-admin")


def test_a_lost_request_counts_until_the_indexer_answers_again() -> None:
    made = pool_state(a=IndexerReport("A"), b=IndexerReport("B"))
    asked_before = made.change_count("a-admin")
    step = AssignmentStep("p", "a-admin")
    made.on_request(step)
    made.on_unknown_outcome(step)
    made.on_report("a-admin", IndexerReport("A"), asked_before)  # too old to prove anything
    assert made.next_step("p", is_announced=True) is None
    assert made.uncertain_indexers() == ("a-admin",)
    made.on_report("a-admin", IndexerReport("A"), made.change_count("a-admin"))
    assert made.next_step("p", is_announced=True) == step
    assert made.uncertain_indexers() == ()


def test_a_silent_indexer_is_tried_last() -> None:
    made = pool_state(a=IndexerReport("A"), b=IndexerReport("B", assigned={"q": "", "r": ""}))
    made.on_request(AssignmentStep("p", "a-admin"))
    made.on_unknown_outcome(AssignmentStep("p", "a-admin"))
    assert made.next_step("s", is_announced=True) == AssignmentStep("s", "b-admin")
    assert made.next_step("s", {"b-admin"}, is_announced=True) == AssignmentStep("s", "a-admin")


def test_without_an_announcement_only_outstanding_handoffs_are_made() -> None:
    made = pool_state(a=IndexerReport("A", is_frozen=True, assigned={"p": ""}), b=IndexerReport("B"))
    assert made.next_step("p", is_announced=False) == AssignmentStep("p", "b-admin", "a-admin")
    assert made.next_step("q", is_announced=False) is None
    assert made.next_step("q", is_announced=True) == AssignmentStep("q", "b-admin")


def test_an_accepted_handoff_looks_as_the_indexer_itself_reports_it() -> None:
    made = pool_state(a=IndexerReport("A", is_frozen=True, assigned={"p": ""}), b=IndexerReport("B"))
    step = AssignmentStep("p", "b-admin", "a-admin")
    made.on_request(step)
    made.on_accept(step)
    before = made.pool()
    made.on_report("b-admin", IndexerReport("B", assigned={"p": "A"}), made.change_count("b-admin"))
    assert made.pool() == before
    assert made.pending_handoffs() == {"a-admin": ()}


def test_a_failed_handoff_is_not_outstanding_until_the_frozen_indexer_is_unfrozen() -> None:
    frozen = IndexerReport("A", is_frozen=True, assigned={"p": ""})
    made = pool_state(a=frozen, b=IndexerReport("B"))
    step = AssignmentStep("p", "b-admin", "a-admin")
    made.on_moot_handoff(step)
    assert made.is_moot(step)
    assert made.pending_handoffs() == {"a-admin": ()}
    assert made.next_step("p", is_announced=False) is None
    assert made.next_step("p", is_announced=True) == AssignmentStep("p", "b-admin")
    made.on_report("a-admin", replace(frozen, is_frozen=False), made.change_count("a-admin"))
    made.on_report("a-admin", frozen, made.change_count("a-admin"))
    assert made.pending_handoffs() == {"a-admin": ("p",)}


def test_the_state_of_remaining_indexers_is_kept_and_of_removed_ones_dropped() -> None:
    made = pool_state(a=IndexerReport("A", assigned={"p": ""}), b=IndexerReport("B", assigned={"q": ""}))
    made.configure(Configuration((entry("b", "q"), entry("c"))))
    assert states(made) == {
        "b-admin": IndexerState("b-admin", assigned=frozenset({"q"})),
        "c-admin": IndexerState("c-admin", is_known=False),
    }
    assert made.policy.presets == {"q": ("b-admin",)}
    made.on_accept(AssignmentStep("p", "a-admin"))  # the answer of a removed indexer
    made.on_report("a-admin", IndexerReport("A"), 0)
    assert (made.entry("a-admin"), made.report("a-admin")) == (None, None)
    made.configure(POOL)
    assert made.report("a-admin") is None


def test_the_last_answer_of_an_unreachable_indexer_stays_valid() -> None:
    made = pool_state(a=IndexerReport("A", assigned={"p": ""}), b=IndexerReport("B"))
    made.on_poll_failure("a-admin", "refused")
    assert made.problem("a-admin") == "refused"
    assert made.audience("p") == ("a-admin",)
    made.on_report("a-admin", IndexerReport("A"), made.change_count("a-admin"))
    assert (made.problem("a-admin"), made.audience("p")) == ("", ())


def test_an_indexer_at_two_urls_is_counted_at_the_first() -> None:
    made = pool_state(a=IndexerReport("A", assigned={"p": ""}), b=IndexerReport("A", assigned={"p": ""}))
    assert made.doubles() == {"b-admin": "a-admin"}
    assert [state.id for state in made.pool()] == ["a-admin"]


def test_an_indexer_replaced_under_its_url_is_described_by_its_new_answer() -> None:
    made = pool_state(a=IndexerReport("A", assigned={"p": ""}))
    made.on_report("a-admin", IndexerReport("new"), made.change_count("a-admin"))
    assert states(made)["a-admin"] == IndexerState("a-admin")


@pytest.mark.parametrize("is_frozen", [False, True])
def test_the_pool_is_computed_once_and_again_only_after_a_change(is_frozen: bool) -> None:
    made = pool_state(a=IndexerReport("A", is_frozen=is_frozen), b=IndexerReport("B"))
    before = made.pool()
    assert made.pool() is before
    made.on_request(AssignmentStep("p", "b-admin"))
    assert made.pool()[0] is before[0]
    assert made.pool()[1] is not before[1]
