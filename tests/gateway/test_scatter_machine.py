"""The scatter machine, step by step: whom it asks, when it asks again, what it takes and what it gives up."""

from collections.abc import Collection, Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from argosy.gateway.scatter_machine import (
    HANDOFF_RECHECK_S,
    HANDOFF_WAIT_S,
    HOLDERS_TRIED_MAX,
    OVERDUE_S,
    RECHECK_S,
    CancelReason,
    CancelRequest,
    Effect,
    RequestFailed,
    ResponseReceived,
    ScatterMachine,
    SendRequest,
)
from argosy.search.model import Missing, MissingReason


class Map:
    """Implements `Holders` on a map that tests change."""

    def __init__(self, holders: Mapping[str, Sequence[str]], hedges: int = 100) -> None:
        self.holders = dict(holders)
        self.hedges = hedges

    def another(self, name: str, tried: Collection[str], now: float) -> str | None:
        return next((address for address in self.holders.get(name, ()) if address not in tried), None)

    def hedge_after_s(self, address: str) -> float:
        return 0.1

    def may_hedge(self) -> bool:
        self.hedges -= 1
        return self.hedges >= 0


def machine(holders: Map, **first: str) -> ScatterMachine:
    """`first`: addresses with the names to ask for, one letter each."""
    made = ScatterMachine([(address, tuple(names)) for address, names in first.items()], holders, deadline=10.0)
    assert asked(made.handle(None, 0.0)) == list(first.items())
    return made


def asked(effects: list[Effect]) -> list[tuple[str, str]]:
    return [(each.request.address, "".join(each.request.names)) for each in effects if isinstance(each, SendRequest)]


def cancelled(effects: list[Effect]) -> list[tuple[int, CancelReason]]:
    return [(each.request, each.reason) for each in effects if isinstance(each, CancelRequest)]


def lacking(*names: str) -> tuple[Missing, ...]:
    return tuple(Missing(name, MissingReason.WARMING, "not yet") for name in names)


def taken(made: ScatterMachine) -> dict[int, str]:
    return {id: "".join(sorted(names)) for id, names in made.taken.items()}


def test_it_is_over_when_everybody_has_answered() -> None:
    made = machine(Map({}), x="ab", y="c")
    assert made.handle(ResponseReceived(0), 0.01) == []
    assert not made.is_over
    assert made.handle(ResponseReceived(1), 0.02) == []
    assert made.is_over
    assert taken(made) == {0: "ab", 1: "c"}
    assert made.deadline() is None


def test_nothing_to_ask_is_over_at_once() -> None:
    assert machine(Map({})).is_over


def test_a_failure_is_put_to_other_holders() -> None:
    made = machine(Map({"a": "xy", "b": "xz", "c": "x"}), x="abc")
    assert asked(made.handle(RequestFailed(0, MissingReason.FAILED, "refused"), 0.0)) == [("y", "a"), ("z", "b")]
    assert made.missing == {"c": Missing("c", MissingReason.FAILED, "refused")}
    made.handle(ResponseReceived(1), 0.0)
    made.handle(ResponseReceived(2), 0.0)
    assert made.is_over
    assert taken(made) == {1: "a", 2: "b"}


def test_what_a_node_does_not_have_is_asked_for_elsewhere_or_listed_with_its_reason() -> None:
    made = machine(Map({"a": "xy", "b": "x"}), x="abc")
    assert asked(made.handle(ResponseReceived(0, lacking("a", "b")), 0.0)) == [("y", "a")]
    assert made.missing == {"b": Missing("b", MissingReason.WARMING, "not yet")}
    assert taken(made) == {0: "c"}


def test_the_map_is_looked_at_anew_for_every_second_question() -> None:
    holders = Map({"a": "x"})
    made = machine(holders, x="a")
    holders.holders["a"] = "w"
    assert asked(made.handle(ResponseReceived(0, lacking("a")), 0.0)) == [("w", "a")]


def test_a_holder_is_not_tried_twice_and_not_too_many_are_tried() -> None:
    made = machine(Map({"a": "vwxyz"}), v="a")
    tried = [0]
    while effects := made.handle(RequestFailed(tried[-1], MissingReason.FAILED, "refused"), 0.0):
        [effect] = effects
        assert isinstance(effect, SendRequest)
        tried.append(effect.request.id)
    assert len(tried) == HOLDERS_TRIED_MAX
    assert list(made.missing) == ["a"]


def test_a_late_question_is_put_to_others_and_the_first_answer_wins() -> None:
    made = machine(Map({"a": "xy"}), x="a")
    assert made.deadline() == 0.1
    assert made.handle(None, 0.09) == []
    assert asked(made.handle(None, 0.1)) == [("y", "a")]
    assert cancelled(made.handle(ResponseReceived(1), 0.15)) == [(0, CancelReason.OVERTAKEN)]
    assert made.is_over
    assert taken(made) == {1: "a"}
    assert made.hedges == 1


def test_the_late_one_may_win_after_all() -> None:
    made = machine(Map({"a": "xy"}), x="a")
    made.handle(None, 0.1)
    assert cancelled(made.handle(ResponseReceived(0), 0.11)) == [(1, CancelReason.OVERTAKEN)]
    assert made.handle(ResponseReceived(1), 0.12) == []  # it was on its way already
    assert taken(made) == {0: "a"}


def test_a_second_question_that_is_late_as_well_is_put_to_a_third_holder() -> None:
    made = machine(Map({"a": "xyz"}), x="a")
    made.handle(None, 0.1)
    assert asked(made.handle(None, 0.2)) == [("z", "a")]


def test_only_what_others_have_is_asked_for_twice() -> None:
    made = machine(Map({"a": "xy", "b": "x"}), x="ab")
    assert asked(made.handle(None, 0.1)) == [("y", "a")]
    assert made.handle(ResponseReceived(1), 0.2) == []
    assert not made.is_over


def test_an_answer_that_has_all_of_an_earlier_one_and_more_replaces_it() -> None:
    made = machine(Map({"a": "xy", "b": "xz"}), x="abc")
    made.handle(None, 0.1)
    made.handle(ResponseReceived(1), 0.2)
    assert taken(made) == {1: "a"}
    assert cancelled(made.handle(ResponseReceived(0), 0.3)) == [(2, CancelReason.OVERTAKEN)]
    assert taken(made) == {0: "abc"}


def test_an_answer_that_overlaps_is_not_taken_and_what_only_it_has_is_asked_for_again() -> None:
    made = machine(Map({"a": "xy", "b": "xy"}), x="abc")
    assert asked(made.handle(None, 0.1)) == [("y", "ab")]
    assert made.handle(ResponseReceived(0, lacking("a")), 0.2) == []  # y is still asked for a
    assert taken(made) == {0: "bc"}
    [again] = made.handle(ResponseReceived(1), 0.3)
    assert isinstance(again, SendRequest)
    assert (again.request.address, again.request.names) == ("y", ("a",))
    made.handle(ResponseReceived(again.request.id), 0.4)
    assert taken(made) == {0: "bc", again.request.id: "a"}
    assert made.is_over


def test_a_failure_of_one_of_two_questions_waits_for_the_other() -> None:
    made = machine(Map({"a": "xy"}), x="a")
    made.handle(None, 0.1)
    assert made.handle(RequestFailed(0, MissingReason.FAILED, "refused"), 0.2) == []
    assert not made.is_over
    made.handle(ResponseReceived(1), 0.3)
    assert taken(made) == {1: "a"}
    assert made.missing == {}


def test_without_savings_nobody_is_asked_twice_and_nothing_spins() -> None:
    made = machine(Map({"a": "xy", "b": "wz"}, hedges=0), x="a", w="b")
    assert made.handle(None, 0.1) == []
    assert made.deadline() == 0.1 + RECHECK_S


def test_what_is_left_at_the_deadline_has_timed_out() -> None:
    made = machine(Map({}), x="ab", y="c")
    made.handle(ResponseReceived(1), 0.01)
    effects = made.handle(None, 10.0)
    assert cancelled(effects) == [(0, CancelReason.TIMED_OUT)]
    assert {name: each.why for name, each in made.missing.items()} == dict.fromkeys("ab", MissingReason.TIMED_OUT)
    assert made.missing["a"].detail == "x timed out"
    assert made.is_over


def test_an_answer_at_the_deadline_still_counts() -> None:
    made = machine(Map({}), x="a", y="b")
    assert cancelled(made.handle(ResponseReceived(0), 10.0)) == [(1, CancelReason.TIMED_OUT)]
    assert taken(made) == {0: "a"}
    assert list(made.missing) == ["b"]


def test_what_is_told_of_a_question_that_has_ended_is_ignored() -> None:
    made = machine(Map({}), x="a")
    made.handle(ResponseReceived(0), 0.0)
    assert made.handle(RequestFailed(0, MissingReason.FAILED, "late"), 0.1) == []
    assert made.handle(ResponseReceived(7), 0.1) == []
    assert made.missing == {}


@given(data=st.data())
def test_every_repository_is_answered_for_once_or_missing(data: st.DataObject) -> None:
    names = "abcdef"
    nodes = "vwxyz"
    holders = Map({name: data.draw(st.lists(st.sampled_from(nodes), min_size=1, unique=True)) for name in names})
    first: dict[str, str] = {}
    for name in names:
        first[holders.holders[name][0]] = first.get(holders.holders[name][0], "") + name
    made = machine(holders, **first)
    live = {id: set(names) for id, names in enumerate(first.values())}
    now = 0.0
    for _ in range(60):
        if made.is_over:
            break
        now += data.draw(st.sampled_from([0.0, 0.05, 0.1]))
        id = data.draw(st.sampled_from(sorted(live))) if live else None
        if id is None or data.draw(st.integers(0, 3)) == 0:
            effects = made.handle(None, now)
        elif data.draw(st.booleans()):
            without = data.draw(st.sets(st.sampled_from(sorted(live.pop(id)))))
            effects = made.handle(ResponseReceived(id, lacking(*without)), now)
        else:
            live.pop(id)
            effects = made.handle(RequestFailed(id, MissingReason.FAILED, "refused"), now)
        for effect in effects:
            if isinstance(effect, SendRequest):
                live[effect.request.id] = set(effect.request.names)
            else:
                del live[effect.request]
    made.handle(None, 10.0)
    answered = [name for names in made.taken.values() for name in names]
    assert sorted([*answered, *made.missing]) == sorted(names)


def test_a_late_question_is_put_to_whoever_takes_its_repositories_over() -> None:
    holders = Map({"a": "x", "b": "x"})
    made = machine(holders, x="ab")
    assert made.handle(None, 0.1) == [], "nobody else holds them"
    holders.holders |= {"a": "y"}
    at = made.deadline()
    assert at == 0.1 + RECHECK_S
    assert asked(made.handle(None, at)) == [("y", "a")]
    holders.holders |= {"b": "z"}
    made.handle(ResponseReceived(1), at)
    assert asked(made.handle(None, at + RECHECK_S)) == [("z", "b")]
    made.handle(ResponseReceived(2), at + RECHECK_S)
    assert made.is_over
    assert made.missing == {}
    assert taken(made) == {1: "a", 2: "b"}


def unowned(*names: str) -> tuple[Missing, ...]:
    return tuple(Missing(name, MissingReason.UNOWNED, "let go") for name in names)


def test_what_has_just_changed_hands_is_asked_of_whoever_has_it_now() -> None:
    holders = Map({"a": "x", "b": "x"})
    made = machine(holders, x="ab")
    assert made.handle(ResponseReceived(0, unowned("b")), 0.05) == []
    assert not made.is_over, "the news is on its way"
    assert made.deadline() == 0.05 + HANDOFF_RECHECK_S
    assert asked(made.handle(None, 0.06)) == []
    holders.holders |= {"b": "y"}
    assert asked(made.handle(None, 0.07)) == [("y", "b")]
    made.handle(ResponseReceived(1), 0.08)
    assert made.is_over
    assert made.missing == {}
    assert taken(made) == {0: "a", 1: "b"}


def test_news_that_do_not_come_are_not_waited_for_long() -> None:
    made = machine(Map({}), x="ab")
    made.handle(ResponseReceived(0, unowned("b")), 0.0)
    now = 0.0
    while not made.is_over:
        at = made.deadline()
        assert at is not None
        assert now < at <= HANDOFF_WAIT_S + HANDOFF_RECHECK_S
        now = at
        assert made.handle(None, now) == []
    assert made.missing == {"b": unowned("b")[0]}


def test_the_deadline_ends_the_wait_for_news_too() -> None:
    made = machine(Map({}), x="ab")
    made.handle(ResponseReceived(0, unowned("b")), 9.9)
    made.handle(None, 10.0)
    assert made.is_over
    assert made.missing == {"b": unowned("b")[0]}
    assert taken(made) == {0: "a"}


def test_a_silent_node_is_replaced_however_much_was_asked_twice() -> None:
    made = machine(Map({"a": "xy"}, hedges=0), x="a")
    now = 0.1
    while now < OVERDUE_S:
        assert made.handle(None, now) == []
        at = made.deadline()
        assert at is not None
        assert at > now
        now = at
    assert asked(made.handle(None, now)) == [("y", "a")]
    assert made.handle(ResponseReceived(1), now) == [CancelRequest(0, CancelReason.OVERTAKEN)]
    assert made.is_over
    assert made.missing == {}
