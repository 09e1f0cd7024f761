"""The APIs of an indexer as ASGI applications.

storetheindex listens on three ports, one per API: `find_app`, `ingest_app` and `admin_app`. `indexer_app` serves all
three on one port; their paths are disjoint, and the admin routes still need the token.
"""

from starlette.applications import Starlette

from argosy.base.clock import Clock
from argosy.base.metrics import Metrics
from argosy.ipni.ports import Indexer
from argosy.ipni.web.admin import admin_app, admin_routes
from argosy.ipni.web.find.fast_path import FindFastPath
from argosy.ipni.web.find.http import find_app, find_routes
from argosy.ipni.web.http import EXCEPTION_HANDLERS
from argosy.ipni.web.ingest import ingest_app, ingest_routes
from argosy.ipni.web.measured_finds import MeasuredFinds

__all__ = ["admin_app", "find_app", "indexer_app", "ingest_app"]


def indexer_app(
    indexer: Indexer,
    *,
    clock: Clock,
    metrics: Metrics,
    admin_token: str | None = None,
    is_private_network: bool = False,
) -> FindFastPath:
    """Find, ingest and admin on one listener."""
    finder = MeasuredFinds(indexer, clock=clock, metrics=metrics)
    rest = Starlette(
        routes=[
            *find_routes(indexer, finder, clock=clock),
            *ingest_routes(indexer),
            *admin_routes(indexer, metrics=metrics, admin_token=admin_token, is_private_network=is_private_network),
        ],
        exception_handlers=EXCEPTION_HANDLERS,
    )
    rest.router.redirect_slashes = False
    return FindFastPath(finder, rest)
