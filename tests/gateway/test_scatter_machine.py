"""The scatter machine, step by step: requests, retries, hedges, accepted responses and what is given up."""

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


def machine_of(holders: Map, **first: str) -> ScatterMachine:
    """`first`: addresses with the repositories to request, one letter each."""
    machine = ScatterMachine([(address, tuple(names)) for address, names in first.items()], holders, deadline=10.0)
    assert sent(machine.handle(None, 0.0)) == list(first.items())
    return machine


def sent(effects: list[Effect]) -> list[tuple[str, str]]:
    return [(each.request.address, "".join(each.request.names)) for each in effects if isinstance(each, SendRequest)]


def cancelled(effects: list[Effect]) -> list[tuple[int, CancelReason]]:
    return [(each.request, each.reason) for each in effects if isinstance(each, CancelRequest)]


def missing(*names: str) -> tuple[Missing, ...]:
    return tuple(Missing(name, MissingReason.WARMING, "not yet") for name in names)


def covered(machine: ScatterMachine) -> dict[int, str]:
    return {id: "".join(sorted(names)) for id, names in machine.taken.items()}


def test_a_request_ends_when_every_node_has_responded() -> None:
    machine = machine_of(Map({}), x="ab", y="c")
    assert machine.handle(ResponseReceived(0), 0.01) == []
    assert not machine.is_over
    assert machine.handle(ResponseReceived(1), 0.02) == []
    assert machine.is_over
    assert covered(machine) == {0: "ab", 1: "c"}
    assert machine.deadline() is None


def test_a_request_without_repositories_ends_at_once() -> None:
    assert machine_of(Map({})).is_over


def test_a_failed_request_is_sent_to_other_holders() -> None:
    machine = machine_of(Map({"a": "xy", "b": "xz", "c": "x"}), x="abc")
    assert sent(machine.handle(RequestFailed(0, MissingReason.FAILED, "refused"), 0.0)) == [("y", "a"), ("z", "b")]
    assert machine.missing == {"c": Missing("c", MissingReason.FAILED, "refused")}
    machine.handle(ResponseReceived(1), 0.0)
    machine.handle(ResponseReceived(2), 0.0)
    assert machine.is_over
    assert covered(machine) == {1: "a", 2: "b"}


def test_a_repository_that_a_node_cannot_serve_is_requested_elsewhere_or_missing_with_its_reason() -> None:
    machine = machine_of(Map({"a": "xy", "b": "x"}), x="abc")
    assert sent(machine.handle(ResponseReceived(0, missing("a", "b")), 0.0)) == [("y", "a")]
    assert machine.missing == {"b": Missing("b", MissingReason.WARMING, "not yet")}
    assert covered(machine) == {0: "c"}


def test_the_map_is_read_again_for_every_second_request() -> None:
    holders = Map({"a": "x"})
    machine = machine_of(holders, x="a")
    holders.holders["a"] = "w"
    assert sent(machine.handle(ResponseReceived(0, missing("a")), 0.0)) == [("w", "a")]


def test_a_holder_is_not_tried_twice_and_not_too_many_are_tried() -> None:
    machine = machine_of(Map({"a": "vwxyz"}), v="a")
    tried = [0]
    while effects := machine.handle(RequestFailed(tried[-1], MissingReason.FAILED, "refused"), 0.0):
        [effect] = effects
        assert isinstance(effect, SendRequest)
        tried.append(effect.request.id)
    assert len(tried) == HOLDERS_TRIED_MAX
    assert list(machine.missing) == ["a"]


def test_a_late_request_is_hedged_and_the_first_response_wins() -> None:
    machine = machine_of(Map({"a": "xy"}), x="a")
    assert machine.deadline() == 0.1
    assert machine.handle(None, 0.09) == []
    assert sent(machine.handle(None, 0.1)) == [("y", "a")]
    assert cancelled(machine.handle(ResponseReceived(1), 0.15)) == [(0, CancelReason.OVERTAKEN)]
    assert machine.is_over
    assert covered(machine) == {1: "a"}
    assert machine.hedges == 1


def test_the_late_request_may_still_win() -> None:
    machine = machine_of(Map({"a": "xy"}), x="a")
    machine.handle(None, 0.1)
    assert cancelled(machine.handle(ResponseReceived(0), 0.11)) == [(1, CancelReason.OVERTAKEN)]
    assert machine.handle(ResponseReceived(1), 0.12) == []  # it was on its way already
    assert covered(machine) == {0: "a"}


def test_a_late_hedge_is_hedged_to_a_third_holder() -> None:
    machine = machine_of(Map({"a": "xyz"}), x="a")
    machine.handle(None, 0.1)
    assert sent(machine.handle(None, 0.2)) == [("z", "a")]


def test_only_repositories_with_another_holder_are_hedged() -> None:
    machine = machine_of(Map({"a": "xy", "b": "x"}), x="ab")
    assert sent(machine.handle(None, 0.1)) == [("y", "a")]
    assert machine.handle(ResponseReceived(1), 0.2) == []
    assert not machine.is_over


def test_a_response_that_has_all_of_an_earlier_one_and_more_replaces_it() -> None:
    machine = machine_of(Map({"a": "xy", "b": "xz"}), x="abc")
    machine.handle(None, 0.1)
    machine.handle(ResponseReceived(1), 0.2)
    assert covered(machine) == {1: "a"}
    assert cancelled(machine.handle(ResponseReceived(0), 0.3)) == [(2, CancelReason.OVERTAKEN)]
    assert covered(machine) == {0: "abc"}


def test_an_overlapping_response_is_discarded_and_what_only_it_has_is_requested_again() -> None:
    machine = machine_of(Map({"a": "xy", "b": "xy"}), x="abc")
    assert sent(machine.handle(None, 0.1)) == [("y", "ab")]
    assert machine.handle(ResponseReceived(0, missing("a")), 0.2) == []  # y is still sent for a
    assert covered(machine) == {0: "bc"}
    [again] = machine.handle(ResponseReceived(1), 0.3)
    assert isinstance(again, SendRequest)
    assert (again.request.address, again.request.names) == ("y", ("a",))
    machine.handle(ResponseReceived(again.request.id), 0.4)
    assert covered(machine) == {0: "bc", again.request.id: "a"}
    assert machine.is_over


def test_a_failure_of_one_of_two_requests_waits_for_the_other() -> None:
    machine = machine_of(Map({"a": "xy"}), x="a")
    machine.handle(None, 0.1)
    assert machine.handle(RequestFailed(0, MissingReason.FAILED, "refused"), 0.2) == []
    assert not machine.is_over
    machine.handle(ResponseReceived(1), 0.3)
    assert covered(machine) == {1: "a"}
    assert machine.missing == {}


def test_without_hedge_tokens_there_is_no_hedge_and_no_busy_loop() -> None:
    machine = machine_of(Map({"a": "xy", "b": "wz"}, hedges=0), x="a", w="b")
    assert machine.handle(None, 0.1) == []
    assert machine.deadline() == 0.1 + RECHECK_S


def test_requests_pending_at_the_deadline_have_timed_out() -> None:
    machine = machine_of(Map({}), x="ab", y="c")
    machine.handle(ResponseReceived(1), 0.01)
    effects = machine.handle(None, 10.0)
    assert cancelled(effects) == [(0, CancelReason.TIMED_OUT)]
    assert {name: each.why for name, each in machine.missing.items()} == dict.fromkeys("ab", MissingReason.TIMED_OUT)
    assert machine.missing["a"].detail == "x timed out"
    assert machine.is_over


def test_a_response_at_the_deadline_still_counts() -> None:
    machine = machine_of(Map({}), x="a", y="b")
    assert cancelled(machine.handle(ResponseReceived(0), 10.0)) == [(1, CancelReason.TIMED_OUT)]
    assert covered(machine) == {0: "a"}
    assert list(machine.missing) == ["b"]


def test_events_of_a_finished_request_are_ignored() -> None:
    machine = machine_of(Map({}), x="a")
    machine.handle(ResponseReceived(0), 0.0)
    assert machine.handle(RequestFailed(0, MissingReason.FAILED, "late"), 0.1) == []
    assert machine.handle(ResponseReceived(7), 0.1) == []
    assert machine.missing == {}


@given(data=st.data())
def test_every_repository_is_answered_once_or_missing(data: st.DataObject) -> None:
    names = "abcdef"
    nodes = "vwxyz"
    holders = Map({name: data.draw(st.lists(st.sampled_from(nodes), min_size=1, unique=True)) for name in names})
    first: dict[str, str] = {}
    for name in names:
        first[holders.holders[name][0]] = first.get(holders.holders[name][0], "") + name
    machine = machine_of(holders, **first)
    live = {id: set(names) for id, names in enumerate(first.values())}
    now = 0.0
    for _ in range(60):
        if machine.is_over:
            break
        now += data.draw(st.sampled_from([0.0, 0.05, 0.1]))
        id = data.draw(st.sampled_from(sorted(live))) if live else None
        if id is None or data.draw(st.integers(0, 3)) == 0:
            effects = machine.handle(None, now)
        elif data.draw(st.booleans()):
            without = data.draw(st.sets(st.sampled_from(sorted(live.pop(id)))))
            effects = machine.handle(ResponseReceived(id, missing(*without)), now)
        else:
            live.pop(id)
            effects = machine.handle(RequestFailed(id, MissingReason.FAILED, "refused"), now)
        for effect in effects:
            if isinstance(effect, SendRequest):
                live[effect.request.id] = set(effect.request.names)
            else:
                del live[effect.request]
    machine.handle(None, 10.0)
    answered = [name for names in machine.taken.values() for name in names]
    assert sorted([*answered, *machine.missing]) == sorted(names)


def test_a_late_request_is_hedged_to_the_new_holders_of_its_repositories() -> None:
    holders = Map({"a": "x", "b": "x"})
    machine = machine_of(holders, x="ab")
    assert machine.handle(None, 0.1) == [], "no other node holds them"
    holders.holders |= {"a": "y"}
    at = machine.deadline()
    assert at == 0.1 + RECHECK_S
    assert sent(machine.handle(None, at)) == [("y", "a")]
    holders.holders |= {"b": "z"}
    machine.handle(ResponseReceived(1), at)
    assert sent(machine.handle(None, at + RECHECK_S)) == [("z", "b")]
    machine.handle(ResponseReceived(2), at + RECHECK_S)
    assert machine.is_over
    assert machine.missing == {}
    assert covered(machine) == {1: "a", 2: "b"}


def unowned(*names: str) -> tuple[Missing, ...]:
    return tuple(Missing(name, MissingReason.UNOWNED, "let go") for name in names)


def test_a_repository_that_has_just_moved_is_requested_from_its_new_holder() -> None:
    holders = Map({"a": "x", "b": "x"})
    machine = machine_of(holders, x="ab")
    assert machine.handle(ResponseReceived(0, unowned("b")), 0.05) == []
    assert not machine.is_over, "the news is on its way"
    assert machine.deadline() == 0.05 + HANDOFF_RECHECK_S
    assert sent(machine.handle(None, 0.06)) == []
    holders.holders |= {"b": "y"}
    assert sent(machine.handle(None, 0.07)) == [("y", "b")]
    machine.handle(ResponseReceived(1), 0.08)
    assert machine.is_over
    assert machine.missing == {}
    assert covered(machine) == {0: "a", 1: "b"}


def test_the_wait_for_a_lease_update_is_bounded() -> None:
    machine = machine_of(Map({}), x="ab")
    machine.handle(ResponseReceived(0, unowned("b")), 0.0)
    now = 0.0
    while not machine.is_over:
        at = machine.deadline()
        assert at is not None
        assert now < at <= HANDOFF_WAIT_S + HANDOFF_RECHECK_S
        now = at
        assert machine.handle(None, now) == []
    assert machine.missing == {"b": unowned("b")[0]}


def test_the_deadline_ends_the_wait_for_a_lease_update_too() -> None:
    machine = machine_of(Map({}), x="ab")
    machine.handle(ResponseReceived(0, unowned("b")), 9.9)
    machine.handle(None, 10.0)
    assert machine.is_over
    assert machine.missing == {"b": unowned("b")[0]}
    assert covered(machine) == {0: "a"}


def test_a_silent_node_is_hedged_without_a_token() -> None:
    machine = machine_of(Map({"a": "xy"}, hedges=0), x="a")
    now = 0.1
    while now < OVERDUE_S:
        assert machine.handle(None, now) == []
        at = machine.deadline()
        assert at is not None
        assert at > now
        now = at
    assert sent(machine.handle(None, now)) == [("y", "a")]
    assert machine.handle(ResponseReceived(1), now) == [CancelRequest(0, CancelReason.OVERTAKEN)]
    assert machine.is_over
    assert machine.missing == {}
