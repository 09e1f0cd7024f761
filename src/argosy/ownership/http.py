"""What a node tells over HTTP about ownership: the scale signal, the lease map, and, for operators, drain.

`GET /v1/units/NAME` asks the local question: 200 with the lease if this node may answer for the unit at this instant,
else 421 with the holder's address as far as it is known. No route here ever asks the store.

`GET /scale` answers an autoscaler: read `desired_nodes`. `POST /v1/drain` changes the fleet, so it needs the admin
token; without a configured token the route is closed.
"""

import hmac
from collections.abc import Mapping
from dataclasses import asdict

import msgspec
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from argosy.base.errors import NotOwner
from argosy.ownership.model import Lease, Unit
from argosy.ownership.service import OwnershipNode

RETRY_AFTER_S = 2       # how soon to ask again a node that does not yet take part


def ownership_routes(node: OwnershipNode, *, admin_token: str | None) -> list[Route]:
    """Routes to mount in any Starlette application."""

    async def scale(_: Request) -> Response:
        return _json(asdict(node.scale())) if node.is_ready() else _not_ready()

    async def leases(_: Request) -> Response:
        rows = [_lease_row(lease) for lease in sorted(node.leases(), key=lambda lease: lease.unit)]
        return _json({"leases": rows, "is_current": node.is_ready()})

    async def unit(request: Request) -> Response:
        try:
            return _json(_lease_row(node.serving(Unit(request.path_params["name"]))))
        except NotOwner as elsewhere:
            headers = {} if elsewhere.hint is None else {"x-argosy-owner": elsewhere.hint}
            return _error(elsewhere.status, str(elsewhere), headers)

    async def members(_: Request) -> Response:
        rows = [asdict(member) for member in sorted(node.members(), key=lambda member: member.node)]
        return _json({"members": rows, "is_current": node.is_ready()})

    async def drain(request: Request) -> Response:
        if not admin_token:
            return _error(403, "drain over http is closed: set node.admin_token to open it")
        given = request.headers.get("authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {admin_token}".encode()):
            return _error(401, "drain needs the header 'authorization: Bearer <admin token>'")
        # The answer leaves before the node does.
        return JSONResponse({"draining": node.node_id}, 202, background=BackgroundTask(node.drain))

    return [
        Route("/scale", scale),
        Route("/v1/leases", leases),
        Route("/v1/units/{name:path}", unit),
        Route("/v1/members", members),
        Route("/v1/drain", drain, methods=["POST"]),
    ]


def _lease_row(lease: Lease) -> dict[str, object]:
    """The token stays inside: whoever knows it could speak for the node."""
    unit = lease.unit
    row = {"unit": unit.name, "replica": unit.replica, "node": lease.node, "address": lease.address}
    return {**row, "epoch": lease.epoch, "state": lease.state.value}


def _json(body: object) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")


def _not_ready() -> Response:
    return _error(503, "this node does not take part yet: ask again", {"retry-after": str(RETRY_AFTER_S)})


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"error": {"status": status, "message": message}}, status, headers)
