"""The front door: admits, routes, scatters, gathers, shows.

    gateway = Gateway(nodes, onlooker.view, catalog)
    answer = await gateway.search(parse("needle").query, Options())

Reading order: `model` and `ports`, then the way of a query: `narrow` (which repositories it can be about), `route` (who
holds them), `choice` and `breaker` (whom to ask), `scatter` (the machine: ask, ask again, stop waiting), `client` (the
machine at work), `driver` (whom to ask first, and how much at a time), `merge` and `trimming` (many answers, one
answer), `cache` and `worker` (not asking twice), `service` (the gateway itself). Beside it: `overview` (the fleet at
one instant), `admission` (who may come in), `teller` (metrics and logs). A name is loaded when it is asked for: whoever
only reads the settings waits for no web framework.
"""

from typing import TYPE_CHECKING

from argosy.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from argosy.gateway.admission import AlwaysAdmit, FairAdmission, admit_request, client_of
    from argosy.gateway.errors import Overloaded, Unserved
    from argosy.gateway.service import Gateway
    from argosy.gateway.settings import GatewaySettings

__all__ = [
    "AlwaysAdmit",
    "FairAdmission",
    "Gateway",
    "GatewaySettings",
    "Overloaded",
    "Unserved",
    "admit_request",
    "client_of",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "argosy.gateway.admission": ("FairAdmission", "AlwaysAdmit", "admit_request", "client_of"),
        "argosy.gateway.errors": ("Overloaded", "Unserved"),
        "argosy.gateway.service": ("Gateway",),
        "argosy.gateway.settings": ("GatewaySettings",),
    },
)
