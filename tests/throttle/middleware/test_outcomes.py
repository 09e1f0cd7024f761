"""The outcome of a request: overload, success, or neutral."""

import asyncio
from typing import Any

import pytest

from argosy.base.errors import Invalid
from argosy.throttle import Outcome
from argosy.throttle.middleware.rules import TRY_AGAIN_LATER, OutcomeRules, OutcomeTracker
from tests.throttle.middleware.stage import ENDED, STARTED

PART = ENDED | {"more_body": True}
GONE = {"type": "http.disconnect"}


def tracker(*messages: dict[str, Any], outcomes: OutcomeRules | None = None) -> OutcomeTracker:
    """The outcome of a request, from the messages sent and received."""
    found = OutcomeTracker(outcomes or OutcomeRules())
    for message in messages:
        if message["type"].endswith("disconnect"):
            found.on_asgi_received(message)
        else:
            found.on_asgi_sent(message)
    return found


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, Outcome.SUCCESS),
        (304, Outcome.SUCCESS),
        (399, Outcome.SUCCESS),
        (400, None),
        (404, None),
        (429, Outcome.FAILURE),
        (500, None),
        (502, None),
        (503, Outcome.FAILURE),
    ],
)
def test_only_overload_is_a_failure_and_errors_are_neutral(status: int, outcome: Outcome | None) -> None:
    assert tracker(STARTED | {"status": status}, ENDED).outcome() is outcome


def test_an_application_configures_its_own_statuses_and_exceptions() -> None:
    own = OutcomeRules(failure_statuses=frozenset({507}), failure_exceptions=(TimeoutError, KeyError))
    assert own.of_status(507) is Outcome.FAILURE
    assert own.of_status(503) is None
    assert own.of_exception(KeyError("x")) is Outcome.FAILURE
    assert own.of_exception(MemoryError()) is None


def test_an_exception_is_a_failure_only_if_it_means_overload() -> None:
    assert tracker().outcome(MemoryError()) is Outcome.FAILURE
    assert tracker(STARTED, PART).outcome(MemoryError()) is Outcome.FAILURE
    assert tracker().outcome(ValueError()) is None
    assert tracker().outcome(asyncio.CancelledError()) is None


def test_an_error_after_the_answer_does_not_change_the_outcome() -> None:
    assert tracker(STARTED, ENDED).outcome(MemoryError()) is Outcome.SUCCESS


def test_an_answer_is_over_with_its_last_part() -> None:
    assert not tracker(STARTED, PART).is_over
    assert tracker(STARTED, PART, ENDED).is_over
    assert tracker(STARTED, {"type": "http.response.pathsend", "path": "f"}).is_over
    assert not tracker(STARTED, {"type": "http.response.zerocopysend", "file": 1, "more_body": True}).is_over
    assert not tracker(STARTED, {"type": "http.response.debug"}).is_over


def test_a_missing_answer_is_neutral() -> None:
    assert tracker().outcome() is None
    assert tracker(STARTED).outcome() is None


def test_a_success_after_the_client_left_is_not_counted() -> None:
    assert tracker(STARTED, GONE).outcome() is None
    assert tracker(STARTED, PART, GONE, ENDED).outcome() is None
    assert tracker(STARTED, GONE).outcome(MemoryError()) is None
    assert tracker(STARTED, ENDED, GONE).outcome() is Outcome.SUCCESS, "the usual end of a connection"


def test_a_failure_counts_although_the_client_disconnected() -> None:
    assert tracker(STARTED | {"status": 503}, GONE).outcome() is Outcome.FAILURE
    assert tracker(GONE, STARTED | {"status": 503}, ENDED).outcome() is Outcome.FAILURE


def test_a_websocket_that_was_accepted_and_closed_is_a_success() -> None:
    accepted = {"type": "websocket.accept"}
    assert tracker(accepted, {"type": "websocket.close", "code": 1000}).outcome() is Outcome.SUCCESS
    assert tracker(accepted, {"type": "websocket.disconnect", "code": 1001}).outcome() is Outcome.SUCCESS
    assert tracker(accepted).outcome(MemoryError()) is Outcome.FAILURE


def test_a_websocket_closed_with_try_again_later_is_a_failure() -> None:
    later = {"type": "websocket.close", "code": TRY_AGAIN_LATER}
    assert tracker(later).outcome() is Outcome.FAILURE
    assert tracker({"type": "websocket.accept"}, later).outcome() is Outcome.FAILURE
    denied = {"type": "websocket.http.response.start", "status": 503, "headers": []}
    assert tracker(denied, {"type": "websocket.http.response.body"}).outcome() is Outcome.FAILURE


def test_a_websocket_rejected_for_another_reason_is_neutral() -> None:
    assert tracker({"type": "websocket.close", "code": 1008}).outcome() is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"failure_statuses": frozenset({99})},
        {"failure_statuses": frozenset({600})},
        {"failure_exceptions": (asyncio.CancelledError,)},
        {"failure_exceptions": ("MemoryError",)},
    ],
)
def test_inconsistent_arguments_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        OutcomeRules(**wrong)
