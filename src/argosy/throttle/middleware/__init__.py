"""The throttle in front of an application: middleware that asks before each request and reports after it.

    app.add_middleware(FairAdmission, throttle=FairThrottle(), client_of=first_of(by_api_key(), by_address()))

Reading order: `calls` (a request, of either kind of server), `extract` (who is asking), `door` (must it be asked),
`outcome` (what an answer says about the resource), `headers` and `quota` (what clients are told), `service` (the
decisions), then `http` for ASGI and `wsgi/` for WSGI.
"""

from argosy.throttle.middleware.admitters import Quota
from argosy.throttle.middleware.asgi import FairAdmission, LimitAdmission
from argosy.throttle.middleware.extractors import (
    Extractor,
    all_of,
    by_address,
    by_api_key,
    by_header,
    by_path,
    first_of,
)
from argosy.throttle.middleware.outcomes import OutcomeRules
from argosy.throttle.middleware.requests import HttpRequest

__all__ = [
    "Extractor",
    "FairAdmission",
    "HttpRequest",
    "LimitAdmission",
    "OutcomeRules",
    "Quota",
    "all_of",
    "by_address",
    "by_api_key",
    "by_header",
    "by_path",
    "first_of",
]
