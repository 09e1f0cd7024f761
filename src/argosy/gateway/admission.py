"""Fair admission of requests: adapts the throttle package to the gateway's `Admission` port.

No client is throttled while capacity suffices. A request counts as a sign of exhaustion if the gateway was full or a
node did not respond within the deadline of the query.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from argosy.base.errors import Throttled
from argosy.gateway.errors import Overloaded, Unserved
from argosy.gateway.ports import Admission, AdmissionTicket
from argosy.search.model import LimitHit, Missing, MissingReason, SearchResult
from argosy.throttle.middleware.extractors import (
    AsgiRequest,
    Extractor,
    as_text,
    by_address,
    by_api_key,
    first_of,
    shorten_id,
)
from argosy.throttle.middleware.rules import ANONYMOUS
from argosy.throttle.model import ClientId, Decision, Outcome

BY_KEY_OR_ADDRESS = first_of(by_api_key(), by_address())


class Throttle(Protocol):
    """The part of `throttle.FairThrottle` that admission uses."""

    def register(self, client_id: ClientId, cost: float = 1.0) -> Decision: ...

    def report(self, client_id: ClientId, outcome: Outcome, cost: float = 1.0) -> None: ...

    def retry_after_s(self, decision: Decision) -> float: ...


class FairAdmission:
    """Implements `Admission` with the fair throttle."""

    def __init__(self, throttle: Throttle) -> None:
        self._throttle = throttle

    def admit(self, client: str) -> AdmissionTicket:
        decision = self._throttle.register(client)
        if decision.throttled:
            wait_s = self._throttle.retry_after_s(decision)
            raise Throttled(
                f"rate limited: capacity is low and this client is over its fair share; retry in {wait_s:.0f} s",
                retry_after_s=wait_s,
            )
        return _FairTicket(self._throttle, client)


class _FairTicket:
    def __init__(self, throttle: Throttle, client: str) -> None:
        self._throttle = throttle
        self._client = client

    def done(self, *, is_exhausted: bool) -> None:
        self._throttle.report(self._client, Outcome.FAILURE if is_exhausted else Outcome.SUCCESS)


class AlwaysAdmit:
    """Implements `Admission` without limits, for fleets that set `gateway.with_admission = false`."""

    def admit(self, client: str) -> AdmissionTicket:
        return _NO_TICKET


class _NoTicket:
    def done(self, *, is_exhausted: bool) -> None:
        pass


_NO_TICKET = _NoTicket()


class AdmittedRequest:
    """A context around the work of an admitted request; reports its outcome to the ticket when it ends."""

    def __init__(self, ticket: AdmissionTicket) -> None:
        self.is_exhausted = False
        self._ticket = ticket

    def on_result(self, answer: SearchResult) -> None:
        self.is_exhausted |= is_exhausted(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        match error:
            case Overloaded():
                self.is_exhausted = True
            case Unserved():
                self.is_exhausted |= _has_timed_out(error.missing)
        self._ticket.done(is_exhausted=self.is_exhausted)


def admit_request(admission: Admission, client: str) -> AdmittedRequest:
    """Admit a request of the client; the returned context reports the outcome, also on errors and cancellation."""
    return AdmittedRequest(admission.admit(client))


def is_exhausted(answer: SearchResult) -> bool:
    return LimitHit.WALL_TIME in answer.limits_hit or _has_timed_out(answer.missing)


def client_of(scope: Mapping[str, Any], extractor: Extractor = BY_KEY_OR_ADDRESS) -> str:
    """Identify the client of an ASGI request; requests without any identity share one."""
    return as_text(shorten_id(extractor(AsgiRequest(scope)) or ANONYMOUS))


def _has_timed_out(missing: tuple[Missing, ...]) -> bool:
    return any(each.why is MissingReason.TIMED_OUT for each in missing)
