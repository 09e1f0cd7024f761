"""One session kept alive: validity, renewal, loss, refusal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.clock import seeded_random
from argosy.ownership.effects import GiveUp, OpenSession, RenewSession
from argosy.ownership.events import SessionEnded, SessionMissed, SessionOpened, SessionRefused, SessionRenewed
from argosy.ownership.model import Role
from argosy.ownership.session_keepalive import REFUSED_FOR_TTLS, Promise
from tests.ownership.making import TIMING, VALID_S, Dice, session

MINE = session()


def opened(at: float = 0.0, *, random: object = None) -> Promise:
    """A promise whose opening left at `at` and has been answered."""
    promise = Promise(Role.HOLDER, TIMING, random or Dice())  # type: ignore[arg-type]
    promise.want(at)
    assert promise.handle(None, at) == [OpenSession(Role.HOLDER)]
    promise.handle(SessionOpened(MINE, at), at)
    return promise


def test_nothing_is_asked_before_it_is_wanted() -> None:
    promise = Promise(Role.HOLDER, TIMING, Dice())
    assert promise.handle(None, 5.0) == []
    assert promise.deadline() is None


def test_validity_counts_from_before_the_request_left() -> None:
    promise = Promise(Role.HOLDER, TIMING, Dice())
    promise.want(100.0)
    promise.handle(None, 100.0)
    promise.handle(SessionOpened(MINE, 100.0), 107.0)
    assert promise.valid_until == 100.0 + VALID_S


def test_it_is_believed_up_to_the_margin_and_not_at_it() -> None:
    promise = opened()
    assert promise.is_valid(VALID_S - 0.001)
    assert not promise.is_valid(VALID_S)


def test_an_answer_later_than_its_own_validity_makes_nothing_valid() -> None:
    promise = Promise(Role.HOLDER, TIMING, Dice())
    promise.want(0.0)
    promise.handle(None, 0.0)
    promise.handle(SessionOpened(MINE, 0.0), VALID_S + 1)
    assert not promise.is_valid(VALID_S + 1)


def test_an_answer_that_was_overtaken_takes_nothing_back() -> None:
    promise = opened()
    promise.handle(SessionRenewed(MINE, 9.0, None), 10.0)
    promise.handle(SessionRenewed(MINE, 4.0, None), 11.0)
    assert promise.valid_until == 9.0 + VALID_S


def test_an_answer_for_another_session_counts_for_nothing() -> None:
    promise = opened()
    promise.handle(SessionRenewed(session(token="run-0"), 20.0, None), 20.0)
    promise.handle(SessionRenewed(session(Role.MEMBER), 20.0, None), 20.0)
    assert promise.valid_until == VALID_S


@given(st.integers(), st.lists(st.floats(0, 3), min_size=1, max_size=20))
def test_renewals_leave_at_most_renew_s_apart(seed: int, latencies: list[float]) -> None:
    promise, sent_at = opened(random=seeded_random(seed)), 0.0
    for latency in latencies:
        due = promise.deadline()
        assert due is not None
        assert 0.9 * TIMING.renew_s <= due - sent_at <= TIMING.renew_s
        assert promise.handle(None, due) == [RenewSession(MINE)]
        sent_at = due
        promise.handle(SessionRenewed(MINE, sent_at, None), sent_at + latency)
        assert promise.is_valid(sent_at + latency)


def test_renewals_are_jittered() -> None:
    assert opened(random=Dice(0.0)).deadline() != opened(random=Dice(1.0)).deadline()


def test_there_is_no_second_request_while_one_is_under_way() -> None:
    promise = opened()
    assert promise.handle(None, TIMING.renew_s) == [RenewSession(MINE)]
    assert promise.deadline() is None
    assert promise.handle(None, TIMING.renew_s + 5) == []
    promise.handle(SessionMissed(Role.HOLDER), TIMING.renew_s + 5)
    assert promise.deadline() is not None


def test_after_a_miss_it_asks_again_before_the_margin_and_ever_more_rarely() -> None:
    promise, now, waits = opened(random=Dice(1.0)), TIMING.renew_s, []
    promise.handle(None, now)
    while now < VALID_S:
        assert promise.handle(SessionMissed(Role.HOLDER), now) == []
        due = promise.deadline()
        assert due is not None
        waits.append(due - now)
        now = due
        assert promise.handle(None, now) == [RenewSession(MINE)]
    assert waits[:4] == [0.5, 1.0, 2.0, 4.0]
    assert max(waits) == TIMING.renew_s / 2
    assert len(waits) >= 6


def test_a_success_ends_the_back_off() -> None:
    promise = opened(random=Dice(1.0))
    promise.handle(None, 8.0)
    promise.handle(SessionMissed(Role.HOLDER), 8.0)
    promise.handle(None, 8.5)
    promise.handle(SessionRenewed(MINE, 8.5, None), 8.5)
    promise.handle(None, 16.5)
    promise.handle(SessionMissed(Role.HOLDER), 16.5)
    assert promise.deadline() == 17.0


def test_a_miss_leaves_the_promise_valid_until_its_time() -> None:
    promise = opened()
    promise.handle(None, 8.0)
    promise.handle(SessionMissed(Role.HOLDER), 8.0)
    assert promise.is_valid(VALID_S - 1)


def test_a_lost_session_is_invalid_at_once_and_opened_again() -> None:
    promise = opened()
    assert promise.handle(SessionEnded(MINE), 5.0) == [OpenSession(Role.HOLDER)]
    assert not promise.is_valid(5.0)
    promise.handle(SessionOpened(session(token="run-2"), 5.0), 5.1)
    assert promise.session == session(token="run-2")
    assert promise.is_valid(5.1)


def test_news_of_an_older_sessions_end_is_ignored() -> None:
    promise = opened()
    assert promise.handle(SessionEnded(session(token="run-0")), 5.0) == []
    assert promise.is_valid(5.0)


def test_refusal_is_borne_while_it_may_be_our_own_earlier_run() -> None:
    promise, now = Promise(Role.HOLDER, TIMING, Dice()), 0.0
    promise.want(now)
    promise.handle(None, now)
    while now <= TIMING.ttl_s:
        assert promise.handle(SessionRefused(Role.HOLDER, "in use"), now) == []
        now = promise.deadline() or 0.0
        assert promise.handle(None, now) == [OpenSession(Role.HOLDER)]
    promise.handle(SessionOpened(MINE, now), now)
    assert promise.is_valid(now)


def test_refusal_past_the_bound_is_final_and_says_why() -> None:
    promise, now, effects = Promise(Role.HOLDER, TIMING, Dice()), 0.0, []
    promise.want(now)
    promise.handle(None, now)
    while not effects:
        effects = promise.handle(SessionRefused(Role.HOLDER, "in use at x"), now)
        if not effects:
            now = promise.deadline() or 0.0
            promise.handle(None, now)
    assert effects == [GiveUp("in use at x")]
    assert REFUSED_FOR_TTLS * TIMING.ttl_s < now < REFUSED_FOR_TTLS * TIMING.ttl_s + TIMING.renew_s
    assert promise.deadline() is None
    assert promise.handle(None, now + 1000) == []


def test_refusals_are_counted_anew_after_a_success() -> None:
    promise = opened()
    promise.handle(SessionEnded(MINE), 10.0)
    promise.handle(SessionRefused(Role.HOLDER, "in use"), 10.0)
    promise.handle(SessionOpened(session(token="run-2"), 11.0), 11.0)
    promise.handle(SessionEnded(session(token="run-2")), 200.0)
    assert promise.handle(SessionRefused(Role.HOLDER, "in use"), 200.0) == []


def test_a_forgotten_promise_is_invalid_and_asks_for_nothing() -> None:
    promise = opened()
    assert promise.forget() == MINE
    assert not promise.is_valid(0.0)
    assert promise.deadline() is None
    assert promise.handle(None, 100.0) == []
    assert promise.forget() is None


@pytest.mark.parametrize(
    "late", [SessionOpened(MINE, 1.0), SessionMissed(Role.HOLDER), SessionRefused(Role.HOLDER, "x"), SessionEnded(MINE)]
)
def test_late_answers_do_not_wake_a_forgotten_promise(late: object) -> None:
    promise = opened()
    promise.forget()
    assert promise.handle(late, 2.0) == []  # type: ignore[arg-type]
    assert promise.session is None
    assert promise.deadline() is None


def test_answers_about_the_other_role_are_ignored() -> None:
    promise = Promise(Role.HOLDER, TIMING, Dice())
    promise.want(0.0)
    promise.handle(None, 0.0)
    promise.handle(SessionOpened(session(Role.MEMBER), 0.0), 0.0)
    promise.handle(SessionMissed(Role.MEMBER), 0.0)
    promise.handle(SessionRefused(Role.MEMBER, "x"), 0.0)
    assert promise.session is None
    assert promise.deadline() is None
