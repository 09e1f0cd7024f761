"""Fair admission of searches: the throttle's middleware on the routes that search.

No client is throttled while capacity suffices. The middleware identifies the client, rejects with 429 and Retry-After,
and reports the outcome when the response is complete. It cannot see whether capacity was short: a search cut by its
deadline is a 200, and a 503 may only mean that a repository is being indexed, for which no client is to blame. So the
status of an error counts for nothing here, and the APIs call `record_result` and `record_error`.
"""

from collections.abc import Callable, MutableMapping
from typing import Any

from starlette.middleware import Middleware
from starlette.responses import Response

from argosy.base.errors import ArgosyError
from argosy.gateway.ports import Overloaded, Unserved
from argosy.search.model import LimitHit, Missing, MissingReason, SearchResult
from argosy.throttle.fair_throttle import FairThrottle
from argosy.throttle.middleware import FairAdmission, OutcomeRules, by_address, by_api_key, first_of, report_outcome
from argosy.throttle.middleware.rules import CostOf
from argosy.throttle.model import Outcome

Scope = MutableMapping[str, Any]

# A key before the address, so that users behind one proxy are not one client. Keys are not verified here: a client with
# many keys is many clients, which a deployment that cares prevents in the proxy in front of it.
CLIENT_OF = first_of(by_api_key(), by_address())
_OUTCOMES = OutcomeRules(failure_statuses=frozenset(), failure_exceptions=())


def admission(
    throttle: FairThrottle | None,
    *,
    respond: Callable[[ArgosyError, Scope], Response] | None = None,
    cost_of: CostOf | None = None,
) -> list[Middleware]:
    """The middleware of a route that searches; none without a throttle (`gateway.with_admission = false`).

    `respond` makes the 429 of an API with an error format of its own.
    """
    if throttle is None:
        return []
    return [
        Middleware(FairAdmission, throttle, client_of=CLIENT_OF, cost_of=cost_of, outcomes=_OUTCOMES, respond=respond)
    ]


# A search cut by its time limit is a 200, so the status alone would hide from the throttle that capacity is short.
def record_result(scope: Scope, answer: SearchResult) -> None:
    """Report a failure to the throttle if the nodes could not finish in time; the request itself has succeeded."""
    if LimitHit.WALL_TIME in answer.limits_hit or _has_timed_out(answer.missing):
        report_outcome(scope, Outcome.FAILURE)


def record_error(scope: Scope, error: ArgosyError) -> None:
    """Report a failure to the throttle if the gateway was full or no node responded in time."""
    if isinstance(error, Overloaded) or (isinstance(error, Unserved) and _has_timed_out(error.missing)):
        report_outcome(scope, Outcome.FAILURE)


def _has_timed_out(missing: tuple[Missing, ...]) -> bool:
    return any(each.why is MissingReason.TIMED_OUT for each in missing)
