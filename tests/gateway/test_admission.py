"""Admission: everybody may come in while there is enough; when there is not, those who take the most wait."""

from typing import Any

import pytest

from argosy.base.clock import seeded_random
from argosy.base.errors import NotFound, Throttled
from argosy.gateway.admission import AlwaysAdmit, FairAdmission, admit_request, client_of
from argosy.gateway.errors import Overloaded, Unserved
from argosy.search.model import LimitHit, Missing, MissingReason, SearchResult
from argosy.throttle import FairThrottle
from argosy.throttle.model import preset


class BackendTracker:
    """Implements `Admission` and remembers."""

    def __init__(self) -> None:
        self.ended: list[bool] = []

    def admit(self, client: str) -> "BackendTracker":
        return self

    def done(self, *, is_exhausted: bool) -> None:
        self.ended.append(is_exhausted)


def test_a_client_whose_requests_exhaust_the_fleet_is_throttled_and_others_are_not() -> None:
    admission = FairAdmission(FairThrottle(preset("strict"), random=seeded_random(5)))

    def press() -> None:
        for _ in range(2000):
            admission.admit("noisy").done(is_exhausted=True)
            admission.admit("quiet").done(is_exhausted=False)

    with pytest.raises(Throttled) as raised:
        press()
    assert raised.value.retry_after_s > 0
    for _ in range(50):
        admission.admit("quiet").done(is_exhausted=False)


@pytest.mark.parametrize(
    ("answer", "is_exhausted"),
    [
        (SearchResult(), False),
        (SearchResult(limits_hit=(LimitHit.FILES_SHOWN,)), False),
        (SearchResult(missing=(Missing("a", MissingReason.WARMING),)), False),
        (SearchResult(missing=(Missing("a", MissingReason.TIMED_OUT),)), True),
        (SearchResult(limits_hit=(LimitHit.WALL_TIME,)), True),
    ],
)
def test_an_answer_cut_by_time_is_a_sign_of_want(answer: SearchResult, is_exhausted: bool) -> None:
    tracker = BackendTracker()
    with admit_request(tracker, "client") as visit:
        visit.on_result(answer)
    assert tracker.ended == [is_exhausted]


@pytest.mark.parametrize(
    ("error", "is_exhausted"),
    [
        (Overloaded("full", retry_after_s=1.0), True),
        (Unserved([Missing("a", MissingReason.TIMED_OUT)]), True),
        (Unserved([Missing("a", MissingReason.UNOWNED)]), False),
        (NotFound("no"), False),
    ],
)
def test_errors_are_told_apart_and_the_end_is_always_told(error: Exception, is_exhausted: bool) -> None:
    tracker = BackendTracker()
    with pytest.raises(type(error)), admit_request(tracker, "client"):
        raise error
    assert tracker.ended == [is_exhausted]


def test_an_open_door_admits_everybody() -> None:
    with admit_request(AlwaysAdmit(), "anyone") as visit:
        visit.on_result(SearchResult())
    assert not visit.is_exhausted


def scope(headers: dict[bytes, bytes], client: tuple[str, int] | None = ("192.0.2.7", 80)) -> dict[str, Any]:
    return {"type": "http", "path": "/", "headers": list(headers.items()), "client": client}


def test_a_client_is_known_by_its_key_or_else_by_its_address() -> None:
    by_key = client_of(scope({b"authorization": b"Bearer secret"}))
    assert by_key == client_of(scope({b"authorization": b"Bearer secret"}, ("192.0.2.8", 80)))
    assert "secret" not in by_key
    assert client_of(scope({})) != client_of(scope({}, ("192.0.2.8", 80)))
    assert client_of(scope({}, None)) == "anonymous"
