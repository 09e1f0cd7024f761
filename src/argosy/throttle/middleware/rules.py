"""The rules of one middleware: whether a request needs admission, the client that sends it, and its cost.

Clients that cannot be told apart are one client, so that hiding one's identity gains nothing.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from argosy.base.errors import Invalid
from argosy.throttle.middleware.extractors import (
    Extractor,
    all_of,
    by_address,
    by_api_key,
    by_header,
    by_path,
    first_of,
    shorten_id,
)
from argosy.throttle.middleware.requests import HttpRequest
from argosy.throttle.model import COST_MAX, ClientId

ANONYMOUS = "anonymous"

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
        if cost == 0:
            return None
        if not cost > 0:
            raise Invalid(f"the cost of a request must be 0 or more, not {cost}: fix the function cost_of")
        client = self._client_of(call) or ANONYMOUS
        if not isinstance(client, str | bytes):
            raise Invalid(f"a client id is text or bytes, not {client!r:.100}: fix the function client_of")
        # The cost may depend on what a client sends, so a cost above the maximum is no error.
        return AdmissionRequest(shorten_id(client), min(cost, COST_MAX))

    def _is_exempt(self, path: str) -> bool:
        if not any(path == each or path.startswith(each + "/") for each in self._exempt):
            return False
        # An application may resolve such a path to another one, which may not be exempt.
        return not {".", "..", ""} & set(path.strip("/").split("/"))


def _check_extractor(client_of: Extractor) -> Extractor:
    """A mistake that is easily made, and would otherwise be an error of every request."""
    if client_of in _MAKERS:
        name = client_of.__name__
        raise Invalid(f"{name} makes an extractor and is none itself: call it, client_of={name}(…)")
    if not callable(client_of):
        raise Invalid(f"client_of is a function from a call to a client's id, not {client_of!r:.100}")
    return client_of


def _check_path(path: str) -> str:
    trimmed = path.rstrip("/")
    if not trimmed.startswith("/"):
        raise Invalid(f"an exempt path is a path such as /health, not {path!r}; leave the throttle out to exempt all")
    return trimmed
