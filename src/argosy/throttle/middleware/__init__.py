"""The throttle in front of an application: middleware that decides before each request and reports its outcome.

    app.add_middleware(FairAdmission, throttle=FairThrottle(), client_of=first_of(by_api_key(), by_address()))

Reading order: `requests` (a request of either kind of server), `extractors` (the client of a request), `rules` (whether
a request needs admission, and its cost), `outcomes` (what a response says about the resource), `headers` (the response
headers), `admitters` (the decisions), then `asgi` and `wsgi`.
"""

from argosy.throttle.middleware.admitters import Quota
from argosy.throttle.middleware.asgi import FairAdmission, LimitAdmission
from argosy.throttle.middleware.extractors import (
    Extractor,
    HttpRequest,
    all_of,
    by_address,
    by_api_key,
    by_header,
    by_path,
    first_of,
)
from argosy.throttle.middleware.rules import OutcomeRules, report_outcome

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
    "report_outcome",
]
