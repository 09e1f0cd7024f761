"""What the end of a request says about the resource behind it: it was short, it was there, or nothing at all.

Only a shortage is a failure. A wrong request, a bug and a broken upstream are nobody's noise, and are not reported; nor
is a success that the client did not wait for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from argosy.base.errors import Invalid
from argosy.throttle.model import Outcome

SWITCHING_PROTOCOLS = 101
TRY_AGAIN_LATER = 1013  # the code of a websocket's close frame that says what 503 says


@dataclass(frozen=True)
class OutcomeRules:
    """Which statuses and exceptions of an application mean that its resource ran short.

    429 is among them because an application that answers so hands on the refusal of something behind it.
    """

    failure_statuses: frozenset[int] = frozenset({429, 503})
    failure_exceptions: tuple[type[Exception], ...] = (MemoryError,)

    def __post_init__(self) -> None:
        wrong = sorted(status for status in self.failure_statuses if not 200 <= status <= 599)
        if wrong:
            raise Invalid(f"failure_statuses must be statuses from 200 to 599, not {wrong}")
        for kind in self.failure_exceptions:
            # A cancellation is no Exception, and says nothing about the resource.
            if not (isinstance(kind, type) and issubclass(kind, Exception)):
                raise Invalid(f"failure_exceptions must be subclasses of Exception, not {kind!r}")

    def of_status(self, status: int) -> Outcome | None:
        """What a complete answer says."""
        if status in self.failure_statuses:
            return Outcome.FAILURE
        return Outcome.SUCCESS if status < 400 else None

    def of_exception(self, error: BaseException | None) -> Outcome | None:
        """What an application that did not answer says."""
        return Outcome.FAILURE if isinstance(error, self.failure_exceptions) else None


class OutcomeTracker:
    """How one request went so far.

    A failure is a fact as soon as it is said, so that who hangs up early is blamed like everybody else. A success is
    one only when the last of it was sent.
    """

    __slots__ = ("_is_cut_short", "_outcomes", "_status", "is_over")

    def __init__(self, outcomes: OutcomeRules) -> None:
        self._outcomes = outcomes
        self._status: int | None = None
        self._is_cut_short = False
        self.is_over = False

    def began(self, status: int) -> None:
        self._status = status

    def ended(self) -> None:
        self.is_over = not self._is_cut_short  # what is sent to nobody is no success

    def lost(self) -> None:
        """The client has gone before the end."""
        self._is_cut_short, self.is_over = True, False

    def outcome(self, error: BaseException | None = None) -> Outcome | None:
        """What to report if nothing else happens, `error` being what the application raised."""
        if self._status is not None:
            said = self._outcomes.of_status(self._status)
            if self.is_over or said is Outcome.FAILURE:
                return said
        return None if self._is_cut_short else self._outcomes.of_exception(error)

    # -- as ASGI tells it ---------------------------------------------------------------------------------------------

    def sent(self, message: Mapping[str, Any]) -> None:
        match message["type"]:
            case "http.response.start" | "websocket.http.response.start":
                self.began(message["status"])
            case "websocket.accept":
                self.began(SWITCHING_PROTOCOLS)
            case "http.response.body" | "websocket.http.response.body" | "http.response.zerocopysend":
                if not message.get("more_body", False):
                    self.ended()
            case "http.response.pathsend":
                self.ended()
            case "websocket.close":
                if message.get("code") == TRY_AGAIN_LATER:
                    self.began(503)
                self.ended()

    def received(self, message: Mapping[str, Any]) -> None:
        match message["type"]:
            case "http.disconnect" if not self.is_over:
                self.lost()
            case "websocket.disconnect":
                self.ended()  # the usual end: either side may hang up
