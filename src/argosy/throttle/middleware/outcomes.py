"""What the end of a request says about the resource behind the application: it was short, it was available, or nothing.

Only a shortage is a failure. A bad request, a bug and a broken upstream are not the client's fault and are not
reported; neither is a success that the client did not wait for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from argosy.base.errors import Invalid
from argosy.throttle.model import Outcome

SWITCHING_PROTOCOLS = 101
TRY_AGAIN_LATER = 1013  # the close code of a websocket that corresponds to 503


@dataclass(frozen=True)
class OutcomeRules:
    """The statuses and exceptions of an application that mean that its resource is short.

    429 is one of them, because an application passes it on from a service behind it.
    """

    failure_statuses: frozenset[int] = frozenset({429, 503})
    failure_exceptions: tuple[type[Exception], ...] = (MemoryError,)

    def __post_init__(self) -> None:
        wrong = sorted(status for status in self.failure_statuses if not 200 <= status <= 599)
        if wrong:
            raise Invalid(f"failure_statuses must be statuses from 200 to 599, not {wrong}")
        for kind in self.failure_exceptions:
            # A cancellation is no Exception and says nothing about the resource.
            if not (isinstance(kind, type) and issubclass(kind, Exception)):
                raise Invalid(f"failure_exceptions must be subclasses of Exception, not {kind!r}")

    def of_status(self, status: int) -> Outcome | None:
        """The outcome of a complete response."""
        if status in self.failure_statuses:
            return Outcome.FAILURE
        return Outcome.SUCCESS if status < 400 else None

    def of_exception(self, error: BaseException | None) -> Outcome | None:
        """The outcome of an application that raised instead of responding."""
        return Outcome.FAILURE if isinstance(error, self.failure_exceptions) else None


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
        self.is_over = not self._is_cut_short  # a response that nobody received is no success

    def on_disconnect(self) -> None:
        """The client disconnected before the end."""
        self._is_cut_short, self.is_over = True, False

    def outcome(self, error: BaseException | None = None) -> Outcome | None:
        """What to report if nothing else happens; `error` is what the application raised."""
        if self._status is not None:
            said = self._outcomes.of_status(self._status)
            if self.is_over or said is Outcome.FAILURE:
                return said
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
