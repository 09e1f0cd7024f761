"""The rules of one middleware: which requests need admission, at what cost, and what their outcome is.

Clients that cannot be distinguished are one client, so that hiding one's identity gains nothing.

An outcome is a statement about the resource behind the application: it was short, it was available, or nothing. Only a
shortage is a failure. A bad request, a bug and a broken upstream are not the client's fault and are not reported;
neither is a success that the client did not wait for.
"""

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from argosy.base.errors import Invalid
from argosy.throttle.middleware.extractors import (
    Extractor,
    HttpRequest,
    all_of,
    by_address,
    by_api_key,
    by_header,
    by_path,
    first_of,
    shorten_id,
)
from argosy.throttle.model import COST_MAX, ClientId, Outcome

ANONYMOUS = "anonymous"
SWITCHING_PROTOCOLS = 101
TRY_AGAIN_LATER = 1013  # the close code of a websocket that corresponds to 503
OUTCOME = "argosy.throttle.outcome"  # in an ASGI scope: the outcome that the application has reported

_MAKERS: tuple[object, ...] = (by_address, by_api_key, by_header, by_path, first_of, all_of)

CostOf: TypeAlias = Callable[[HttpRequest], float]


class AdmissionRequest(NamedTuple):
    """The client and the cost of a request that needs admission."""

    client: ClientId
    cost: float


class RequestRules:
    """The rules of one middleware."""

    def __init__(self, client_of: Extractor | None, cost_of: CostOf | None, exempt: Iterable[str]) -> None:
        if isinstance(exempt, str):
            raise Invalid(f"exempt is a list of paths, not the string {exempt!r}")
        self._client_of = by_address() if client_of is None else _check_extractor(client_of)
        self._cost_of = cost_of
        self._exempt = tuple(_check_path(path) for path in exempt)

    def classify(self, call: HttpRequest) -> AdmissionRequest | None:
        """The admission that a request needs; None if it is exempt or has no cost."""
        if self._exempt and self._is_exempt(call.path):
            return None
        cost = 1.0 if self._cost_of is None else self._cost_of(call)
        # A request without a cost neither takes capacity nor says anything about it.
        if cost == 0:
            return None
        if not cost > 0:
            raise Invalid(f"the cost of a request must be 0 or more, not {cost}; fix the function cost_of")
        client = self._client_of(call) or ANONYMOUS
        if not isinstance(client, str | bytes):
            raise Invalid(f"a client id is text or bytes, not {client!r:.100}; fix the function client_of")
        # The cost may depend on what a client sends, so a cost above the maximum is no error.
        return AdmissionRequest(shorten_id(client), min(cost, COST_MAX))

    def _is_exempt(self, path: str) -> bool:
        if not any(path == each or path.startswith(each + "/") for each in self._exempt):
            return False
        # An application may resolve such a path to another one, which may not be exempt.
        return not {".", "..", ""} & set(path.strip("/").split("/"))


def _check_extractor(client_of: Extractor) -> Extractor:
    """Detects `client_of=by_address` without a call, which would otherwise be an error of every request."""
    if client_of in _MAKERS:
        name = client_of.__name__
        raise Invalid(f"{name} returns an extractor and is none itself; call it: client_of={name}(…)")
    if not callable(client_of):
        raise Invalid(f"client_of must be a function from a request to the id of its client, not {client_of!r:.100}")
    return client_of


def _check_path(path: str) -> str:
    trimmed = path.rstrip("/")
    if not trimmed.startswith("/"):
        raise Invalid(f"invalid exempt path {path!r}: expected one such as /health")
    return trimmed


@dataclass(frozen=True)
class OutcomeRules:
    """The statuses and exceptions of an application that mean that its resource is short.

    429 is one of them, because an application passes it on from a service behind it.
    """

    # 500 is a bug and 502/504 are a broken upstream: blaming clients for them would throttle the innocent.
    failure_statuses: frozenset[int] = frozenset({429, 503})
    failure_exceptions: tuple[type[Exception], ...] = (MemoryError,)

    def __post_init__(self) -> None:
        wrong = sorted(status for status in self.failure_statuses if not 200 <= status <= 599)
        if wrong:
            raise Invalid(f"failure_statuses must be statuses from 200 to 599, not {wrong}")
        for kind in self.failure_exceptions:
            # A cancellation is no Exception, and no statement about the resource.
            if not (isinstance(kind, type) and issubclass(kind, Exception)):
                raise Invalid(f"failure_exceptions must be subclasses of Exception, not {kind!r}")

    def of_status(self, status: int) -> Outcome | None:
        """The outcome of a complete response."""
        if status in self.failure_statuses:
            return Outcome.FAILURE
        # Other errors are no statement about the resource: it was not used, or its state is unknown.
        return Outcome.SUCCESS if status < 400 else None

    def of_exception(self, error: BaseException | None) -> Outcome | None:
        """The outcome of an application that raised instead of responding."""
        return Outcome.FAILURE if isinstance(error, self.failure_exceptions) else None


def report_outcome(scope: MutableMapping[str, Any], outcome: Outcome) -> None:
    """Report the outcome of an ASGI request from inside the application, before its response is complete.

    For applications whose status does not say whether the resource was short, such as a complete 200 with results cut
    by a deadline. It takes precedence over the status and over a disconnect.
    """
    scope[OUTCOME] = outcome


class OutcomeTracker:
    """The outcome of one request so far.

    A failure counts as soon as its status is known, so that a client that hangs up early is blamed like any other. A
    success counts when its last byte has been sent.
    """

    __slots__ = ("_is_cut_short", "_outcomes", "_status", "is_over")

    def __init__(self, outcomes: OutcomeRules) -> None:
        self._outcomes = outcomes
        self._status: int | None = None
        self._is_cut_short = False
        self.is_over = False

    def on_start(self, status: int) -> None:
        self._status = status

    def on_end(self) -> None:
        self.is_over = not self._is_cut_short  # a response that the client did not receive is no success

    def on_disconnect(self) -> None:
        """The client disconnected before the end."""
        self._is_cut_short, self.is_over = True, False

    def outcome(self, error: BaseException | None = None) -> Outcome | None:
        """What to report if nothing else happens; `error` is what the application raised."""
        if self._status is not None:
            status_outcome = self._outcomes.of_status(self._status)
            # A failure is known with the status; a success only with the last byte.
            if self.is_over or status_outcome is Outcome.FAILURE:
                return status_outcome
        return None if self._is_cut_short else self._outcomes.of_exception(error)

    # -- ASGI messages ------------------------------------------------------------------------------------------------

    def on_asgi_sent(self, message: Mapping[str, Any]) -> None:
        match message["type"]:
            case "http.response.start" | "websocket.http.response.start":
                self.on_start(message["status"])
            case "websocket.accept":
                self.on_start(SWITCHING_PROTOCOLS)
            case "http.response.body" | "websocket.http.response.body" | "http.response.zerocopysend":
                if not message.get("more_body", False):
                    self.on_end()
            case "http.response.pathsend":
                self.on_end()
            case "websocket.close":
                if message.get("code") == TRY_AGAIN_LATER:
                    self.on_start(503)
                self.on_end()

    def on_asgi_received(self, message: Mapping[str, Any]) -> None:
        match message["type"]:
            case "http.disconnect" if not self.is_over:
                self.on_disconnect()
            case "websocket.disconnect":
                self.on_end()  # the regular end: either side may disconnect
