"""Gateway: the front end of the fleet. It admits, routes, scatters and merges queries and serves the APIs and the web
UI.

    gateway = Gateway(nodes, watcher.view, catalog)
    result = await gateway.search(parse("needle").query, Options())

Reading order: `ports`; then the path of a query: `admission` (who may search), `service` (the gateway itself), `cache`,
`route` (which repositories can match and which nodes hold them), `dispatcher` and `adaptive_limiter` (how many queries
run at a time), `load_balancer` (which replica to use), `scatter_machine` (send, retry, hedge, stop) and
`scatter_runner` (its I/O), `merge`. Beside them: `fleet_status`, `telemetry`. Sub-packages: `v1` (JSON API), `zoekt`
(zoekt's API and pages), `ui` (web UI), `content` (find by content hash over many indexers).

Names are imported on first use, so reading the settings does not load the web framework.
"""

from typing import TYPE_CHECKING

from argosy.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from argosy.gateway.ports import Overloaded, Unserved
    from argosy.gateway.service import Gateway
    from argosy.gateway.settings import GatewaySettings

__all__ = [
    "Gateway",
    "GatewaySettings",
    "Overloaded",
    "Unserved",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "argosy.gateway.ports": ("Overloaded", "Unserved"),
        "argosy.gateway.service": ("Gateway",),
        "argosy.gateway.settings": ("GatewaySettings",),
    },
)
