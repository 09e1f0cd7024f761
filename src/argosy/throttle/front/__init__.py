"""The throttle in front of an application: middleware that asks before each request and reports after it.

    app.add_middleware(FairAdmission, throttle=FairThrottle(), client_of=first_of(by_api_key(), by_address()))

Reading order: `calls` (a request, of either kind of server), `extract` (who is asking), `door` (must it be asked),
`outcome` (what an answer says about the resource), `headers` and `quota` (what clients are told), `service` (the
decisions), then `http` for ASGI and `wsgi/` for WSGI.
"""

from argosy.throttle.front.calls import Call
from argosy.throttle.front.extract import (
    Extractor,
    all_of,
    by_address,
    by_api_key,
    by_header,
    by_path,
    first_of,
)
from argosy.throttle.front.http import FairAdmission, LimitAdmission
from argosy.throttle.front.outcome import Outcomes
from argosy.throttle.front.quota import Quota

__all__ = [
    "Call",
    "Extractor",
    "FairAdmission",
    "LimitAdmission",
    "Outcomes",
    "Quota",
    "all_of",
    "by_address",
    "by_api_key",
    "by_header",
    "by_path",
    "first_of",
]
