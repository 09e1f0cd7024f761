"""One session kept alive: validity, renewal, loss, refusal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.base.clock import seeded_random
from argosy.ownership.effects import Abort, OpenSession, RenewSession
from argosy.ownership.events import SessionEnded, SessionFailed, SessionOpened, SessionRejected, SessionRenewed
from argosy.ownership.model import SessionRole
from argosy.ownership.session_keepalive import REJECTED_MAX_TTLS, SessionKeepAlive
from tests.ownership.builders import TIMING, VALID_S, FixedRandom, session

MINE = session()


def opened(at: float = 0.0, *, random: object = None) -> SessionKeepAlive:
    """A session whose opening was sent at `at` and has been answered."""
    keepalive = SessionKeepAlive(SessionRole.HOLDER, TIMING, random or FixedRandom())  # type: ignore[arg-type]
    keepalive.start(at)
    assert keepalive.handle(None, at) == [OpenSession(SessionRole.HOLDER)]
    keepalive.handle(SessionOpened(MINE, at), at)
    return keepalive


def test_no_session_is_opened_before_start() -> None:
    keepalive = SessionKeepAlive(SessionRole.HOLDER, TIMING, FixedRandom())
    assert keepalive.handle(None, 5.0) == []
    assert keepalive.deadline() is None


def test_validity_counts_from_before_the_request_was_sent() -> None:
    keepalive = SessionKeepAlive(SessionRole.HOLDER, TIMING, FixedRandom())
    keepalive.start(100.0)
    keepalive.handle(None, 100.0)
    keepalive.handle(SessionOpened(MINE, 100.0), 107.0)
    assert keepalive.valid_until == 100.0 + VALID_S


def test_the_session_is_valid_up_to_the_margin_and_not_at_it() -> None:
    keepalive = opened()
    assert keepalive.is_valid(VALID_S - 0.001)
    assert not keepalive.is_valid(VALID_S)


def test_an_answer_later_than_its_own_validity_makes_nothing_valid() -> None:
    keepalive = SessionKeepAlive(SessionRole.HOLDER, TIMING, FixedRandom())
    keepalive.start(0.0)
    keepalive.handle(None, 0.0)
    keepalive.handle(SessionOpened(MINE, 0.0), VALID_S + 1)
    assert not keepalive.is_valid(VALID_S + 1)


def test_an_overtaken_answer_shortens_nothing() -> None:
    keepalive = opened()
    keepalive.handle(SessionRenewed(MINE, 9.0, None), 10.0)
    keepalive.handle(SessionRenewed(MINE, 4.0, None), 11.0)
    assert keepalive.valid_until == 9.0 + VALID_S


def test_an_answer_for_another_session_is_ignored() -> None:
    keepalive = opened()
    keepalive.handle(SessionRenewed(session(token="run-0"), 20.0, None), 20.0)
    keepalive.handle(SessionRenewed(session(SessionRole.MEMBER), 20.0, None), 20.0)
    assert keepalive.valid_until == VALID_S


@given(st.integers(), st.lists(st.floats(0, 3), min_size=1, max_size=20))
def test_renewals_leave_at_most_renew_s_apart(seed: int, latencies: list[float]) -> None:
    keepalive, sent_at = opened(random=seeded_random(seed)), 0.0
    for latency in latencies:
        due = keepalive.deadline()
        assert due is not None
        assert 0.9 * TIMING.renew_s <= due - sent_at <= TIMING.renew_s
        assert keepalive.handle(None, due) == [RenewSession(MINE)]
        sent_at = due
        keepalive.handle(SessionRenewed(MINE, sent_at, None), sent_at + latency)
        assert keepalive.is_valid(sent_at + latency)


def test_renewals_are_jittered() -> None:
    assert opened(random=FixedRandom(0.0)).deadline() != opened(random=FixedRandom(1.0)).deadline()


def test_there_is_no_second_request_while_one_is_under_way() -> None:
    keepalive = opened()
    assert keepalive.handle(None, TIMING.renew_s) == [RenewSession(MINE)]
    assert keepalive.deadline() is None
    assert keepalive.handle(None, TIMING.renew_s + 5) == []
    keepalive.handle(SessionFailed(SessionRole.HOLDER), TIMING.renew_s + 5)
    assert keepalive.deadline() is not None


def test_after_a_miss_it_retries_before_the_margin_and_ever_more_rarely() -> None:
    keepalive, now, waits = opened(random=FixedRandom(1.0)), TIMING.renew_s, []
    keepalive.handle(None, now)
    while now < VALID_S:
        assert keepalive.handle(SessionFailed(SessionRole.HOLDER), now) == []
        due = keepalive.deadline()
        assert due is not None
        waits.append(due - now)
        now = due
        assert keepalive.handle(None, now) == [RenewSession(MINE)]
    assert waits[:4] == [0.5, 1.0, 2.0, 4.0]
    assert max(waits) == TIMING.renew_s / 2
    assert len(waits) >= 6


def test_a_success_ends_the_back_off() -> None:
    keepalive = opened(random=FixedRandom(1.0))
    keepalive.handle(None, 8.0)
    keepalive.handle(SessionFailed(SessionRole.HOLDER), 8.0)
    keepalive.handle(None, 8.5)
    keepalive.handle(SessionRenewed(MINE, 8.5, None), 8.5)
    keepalive.handle(None, 16.5)
    keepalive.handle(SessionFailed(SessionRole.HOLDER), 16.5)
    assert keepalive.deadline() == 17.0


def test_a_miss_leaves_the_session_valid_until_its_time() -> None:
    keepalive = opened()
    keepalive.handle(None, 8.0)
    keepalive.handle(SessionFailed(SessionRole.HOLDER), 8.0)
    assert keepalive.is_valid(VALID_S - 1)


def test_a_lost_session_is_invalid_at_once_and_opened_again() -> None:
    keepalive = opened()
    assert keepalive.handle(SessionEnded(MINE), 5.0) == [OpenSession(SessionRole.HOLDER)]
    assert not keepalive.is_valid(5.0)
    keepalive.handle(SessionOpened(session(token="run-2"), 5.0), 5.1)
    assert keepalive.session == session(token="run-2")
    assert keepalive.is_valid(5.1)


def test_the_end_of_an_older_session_is_ignored() -> None:
    keepalive = opened()
    assert keepalive.handle(SessionEnded(session(token="run-0")), 5.0) == []
    assert keepalive.is_valid(5.0)


def test_a_rejection_is_retried_while_it_may_be_our_own_earlier_run() -> None:
    keepalive, now = SessionKeepAlive(SessionRole.HOLDER, TIMING, FixedRandom()), 0.0
    keepalive.start(now)
    keepalive.handle(None, now)
    while now <= TIMING.ttl_s:
        assert keepalive.handle(SessionRejected(SessionRole.HOLDER, "in use"), now) == []
        now = keepalive.deadline() or 0.0
        assert keepalive.handle(None, now) == [OpenSession(SessionRole.HOLDER)]
    keepalive.handle(SessionOpened(MINE, now), now)
    assert keepalive.is_valid(now)


def test_a_rejection_past_the_bound_is_final_and_reports_why() -> None:
    keepalive, now, effects = SessionKeepAlive(SessionRole.HOLDER, TIMING, FixedRandom()), 0.0, []
    keepalive.start(now)
    keepalive.handle(None, now)
    while not effects:
        effects = keepalive.handle(SessionRejected(SessionRole.HOLDER, "in use at x"), now)
        if not effects:
            now = keepalive.deadline() or 0.0
            keepalive.handle(None, now)
    assert effects == [Abort("in use at x")]
    assert REJECTED_MAX_TTLS * TIMING.ttl_s < now < REJECTED_MAX_TTLS * TIMING.ttl_s + TIMING.renew_s
    assert keepalive.deadline() is None
    assert keepalive.handle(None, now + 1000) == []


def test_rejections_are_counted_again_after_a_success() -> None:
    keepalive = opened()
    keepalive.handle(SessionEnded(MINE), 10.0)
    keepalive.handle(SessionRejected(SessionRole.HOLDER, "in use"), 10.0)
    keepalive.handle(SessionOpened(session(token="run-2"), 11.0), 11.0)
    keepalive.handle(SessionEnded(session(token="run-2")), 200.0)
    assert keepalive.handle(SessionRejected(SessionRole.HOLDER, "in use"), 200.0) == []


def test_a_stopped_session_is_invalid_and_sends_nothing() -> None:
    keepalive = opened()
    assert keepalive.stop() == MINE
    assert not keepalive.is_valid(0.0)
    assert keepalive.deadline() is None
    assert keepalive.handle(None, 100.0) == []
    assert keepalive.stop() is None


@pytest.mark.parametrize(
    "late",
    [
        SessionOpened(MINE, 1.0),
        SessionFailed(SessionRole.HOLDER),
        SessionRejected(SessionRole.HOLDER, "x"),
        SessionEnded(MINE),
    ],
)
def test_late_answers_do_not_wake_a_stopped_session(late: object) -> None:
    keepalive = opened()
    keepalive.stop()
    assert keepalive.handle(late, 2.0) == []  # type: ignore[arg-type]
    assert keepalive.session is None
    assert keepalive.deadline() is None


def test_answers_about_the_other_role_are_ignored() -> None:
    keepalive = SessionKeepAlive(SessionRole.HOLDER, TIMING, FixedRandom())
    keepalive.start(0.0)
    keepalive.handle(None, 0.0)
    keepalive.handle(SessionOpened(session(SessionRole.MEMBER), 0.0), 0.0)
    keepalive.handle(SessionFailed(SessionRole.MEMBER), 0.0)
    keepalive.handle(SessionRejected(SessionRole.MEMBER, "x"), 0.0)
    assert keepalive.session is None
    assert keepalive.deadline() is None
