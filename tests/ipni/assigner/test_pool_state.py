"""What is known of a pool: answers, what was accepted meanwhile, and what may have been."""

from dataclasses import replace

import pytest

from argosy.ipni.assigner.configuration import Configuration, PoolEntry
from argosy.ipni.assigner.pool_state import AssignmentStep, IndexerReport, PoolState
from argosy.ownership.assigner import IndexerState


def entry(name: str, *presets: str) -> PoolEntry:
    return PoolEntry(f"{name}-admin", f"{name}-find", f"{name}-ingest", frozenset(presets))


POOL = Configuration((entry("a"), entry("b")))


def picture(configuration: Configuration = POOL, **answers: IndexerReport) -> PoolState:
    made = PoolState(configuration)
    for name, answer in answers.items():
        made.answered(f"{name}-admin", answer, made.asked(f"{name}-admin"))
    return made


def states(made: PoolState) -> dict[str, IndexerState]:
    return {state.id: state for state in made.pool()}


def test_nothing_is_known_before_anybody_has_answered() -> None:
    assert PoolState(POOL).pool() == (IndexerState("a-admin", is_known=False), IndexerState("b-admin", is_known=False))
    assert PoolState(POOL).unanswered() == ("a-admin", "b-admin")


def test_peer_ids_in_answers_are_translated_as_soon_as_they_are_known() -> None:
    made = picture(b=IndexerReport("B", assigned={"p": "A"}))
    assert states(made)["b-admin"].continued == {"p": "A"}
    made.answered("a-admin", IndexerReport("A", is_frozen=True, assigned={"p": ""}), 0)
    assert states(made)["b-admin"].continued == {"p": "a-admin"}
    assert made.owed() == {"a-admin": ()}


def test_an_answer_that_began_before_an_acceptance_does_not_undo_it() -> None:
    made = picture(a=IndexerReport("A"), b=IndexerReport("B"))
    asked = made.asked("a-admin")
    step = AssignmentStep("p", "a-admin")
    made.began(step)
    made.accepted(step)
    made.answered("a-admin", IndexerReport("A", assigned={"q": ""}), asked)
    assert states(made)["a-admin"].assigned == {"p", "q"}
    made.answered("a-admin", IndexerReport("A", assigned={"q": ""}), made.asked("a-admin"))
    assert states(made)["a-admin"].assigned == {"q"}


def test_a_request_under_way_counts_as_load_and_as_a_holder_but_not_for_certain() -> None:
    made = picture(a=IndexerReport("A"), b=IndexerReport("B"))
    made.began(AssignmentStep("p", "a-admin"))
    assert made.next_step("q", is_announced=True) == AssignmentStep("q", "b-admin")
    assert made.next_step("p", is_announced=True) is None
    assert made.is_short("p")
    made.refused(AssignmentStep("p", "a-admin"))
    assert made.next_step("p", is_announced=True) == AssignmentStep("p", "a-admin")


def test_a_lost_request_counts_until_the_indexer_is_heard_again() -> None:
    made = picture(a=IndexerReport("A"), b=IndexerReport("B"))
    asked_before = made.asked("a-admin")
    step = AssignmentStep("p", "a-admin")
    made.began(step)
    made.lost(step)
    made.answered("a-admin", IndexerReport("A"), asked_before)  # too old to prove anything
    assert made.next_step("p", is_announced=True) is None
    assert made.unanswered() == ("a-admin",)
    made.answered("a-admin", IndexerReport("A"), made.asked("a-admin"))
    assert made.next_step("p", is_announced=True) == step
    assert made.unanswered() == ()


def test_a_silent_indexer_is_asked_last() -> None:
    made = picture(a=IndexerReport("A"), b=IndexerReport("B", assigned={"q": "", "r": ""}))
    made.began(AssignmentStep("p", "a-admin"))
    made.lost(AssignmentStep("p", "a-admin"))
    assert made.next_step("s", is_announced=True) == AssignmentStep("s", "b-admin")
    assert made.next_step("s", {"b-admin"}, is_announced=True) == AssignmentStep("s", "a-admin")


def test_without_an_announcement_only_what_is_owed_is_handed_on() -> None:
    made = picture(a=IndexerReport("A", is_frozen=True, assigned={"p": ""}), b=IndexerReport("B"))
    assert made.next_step("p", is_announced=False) == AssignmentStep("p", "b-admin", "a-admin")
    assert made.next_step("q", is_announced=False) is None
    assert made.next_step("q", is_announced=True) == AssignmentStep("q", "b-admin")


def test_an_accepted_handoff_reads_as_the_indexer_itself_would_tell_it() -> None:
    made = picture(a=IndexerReport("A", is_frozen=True, assigned={"p": ""}), b=IndexerReport("B"))
    step = AssignmentStep("p", "b-admin", "a-admin")
    made.began(step)
    made.accepted(step)
    before = made.pool()
    made.answered("b-admin", IndexerReport("B", assigned={"p": "A"}), made.asked("b-admin"))
    assert made.pool() == before
    assert made.owed() == {"a-admin": ()}


def test_a_handoff_that_came_to_nothing_is_not_owed_until_the_frozen_one_has_thawed() -> None:
    frozen = IndexerReport("A", is_frozen=True, assigned={"p": ""})
    made = picture(a=frozen, b=IndexerReport("B"))
    step = AssignmentStep("p", "b-admin", "a-admin")
    made.came_to_nothing(step)
    assert made.is_moot(step)
    assert made.owed() == {"a-admin": ()}
    assert made.next_step("p", is_announced=False) is None
    assert made.next_step("p", is_announced=True) == AssignmentStep("p", "b-admin")
    made.answered("a-admin", replace(frozen, is_frozen=False), made.asked("a-admin"))
    made.answered("a-admin", frozen, made.asked("a-admin"))
    assert made.owed() == {"a-admin": ("p",)}


def test_who_stays_is_remembered_and_who_goes_is_forgotten() -> None:
    made = picture(a=IndexerReport("A", assigned={"p": ""}), b=IndexerReport("B", assigned={"q": ""}))
    made.configured(Configuration((entry("b", "q"), entry("c"))))
    assert states(made) == {
        "b-admin": IndexerState("b-admin", assigned=frozenset({"q"})),
        "c-admin": IndexerState("c-admin", is_known=False),
    }
    assert made.policy.presets == {"q": ("b-admin",)}
    made.accepted(AssignmentStep("p", "a-admin"))  # the answer of one who has left
    made.answered("a-admin", IndexerReport("A"), 0)
    assert (made.entry("a-admin"), made.answer("a-admin")) == (None, None)
    made.configured(POOL)
    assert made.answer("a-admin") is None


def test_what_an_indexer_said_holds_on_while_it_is_away() -> None:
    made = picture(a=IndexerReport("A", assigned={"p": ""}), b=IndexerReport("B"))
    made.missed("a-admin", "refused")
    assert made.problem("a-admin") == "refused"
    assert made.audience("p") == ("a-admin",)
    made.answered("a-admin", IndexerReport("A"), made.asked("a-admin"))
    assert (made.problem("a-admin"), made.audience("p")) == ("", ())


def test_an_indexer_at_two_urls_is_counted_at_the_first() -> None:
    made = picture(a=IndexerReport("A", assigned={"p": ""}), b=IndexerReport("A", assigned={"p": ""}))
    assert made.doubles() == {"b-admin": "a-admin"}
    assert [state.id for state in made.pool()] == ["a-admin"]


def test_an_indexer_that_was_replaced_under_its_url_is_taken_at_its_word() -> None:
    made = picture(a=IndexerReport("A", assigned={"p": ""}))
    made.answered("a-admin", IndexerReport("new"), made.asked("a-admin"))
    assert states(made)["a-admin"] == IndexerState("a-admin")


@pytest.mark.parametrize("is_frozen", [False, True])
def test_the_pool_is_made_once_and_anew_only_after_a_change(is_frozen: bool) -> None:
    made = picture(a=IndexerReport("A", is_frozen=is_frozen), b=IndexerReport("B"))
    before = made.pool()
    assert made.pool() is before
    made.began(AssignmentStep("p", "b-admin"))
    assert made.pool()[0] is before[0]
    assert made.pool()[1] is not before[1]
