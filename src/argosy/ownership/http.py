"""HTTP routes of ownership: scale signal, leases, members, and drain for operators.

`GET /v1/units/NAME` returns 200 with the lease if this node may serve the unit now, else 421 with the holder's address
if known. No GET route calls the store.

`GET /scale` is for autoscalers: read `desired_nodes`. `POST /v1/drain` changes the fleet, so it requires the admin
token; without a configured token it is disabled.
"""

from dataclasses import asdict

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from argosy.base.errors import Unavailable
from argosy.base.http import check_admin, json_response
from argosy.ownership.model import Lease, Unit
from argosy.ownership.node_service import OwnershipNode


def ownership_routes(node: OwnershipNode, *, admin_token: str | None) -> list[Route]:
    """Routes to mount in any Starlette application that has `base.http.EXCEPTION_HANDLERS`."""

    async def scale(_: Request) -> Response:
        if not node.is_ready():
            raise Unavailable("node not ready: ownership view not synced; retry")
        return json_response(node.scale())

    async def leases(_: Request) -> Response:
        rows = [_lease_row(lease) for lease in sorted(node.leases(), key=lambda lease: lease.unit)]
        return json_response({"leases": rows, "has_synced": node.is_ready()})

    async def unit(request: Request) -> Response:
        return json_response(_lease_row(node.require_lease(Unit(request.path_params["name"]))))

    async def members(_: Request) -> Response:
        rows = [asdict(member) for member in sorted(node.members(), key=lambda member: member.node)]
        return json_response({"members": rows, "has_synced": node.is_ready()})

    async def drain(request: Request) -> Response:
        check_admin(request, admin_token)
        response = json_response({"draining": node.node_id}, 202)
        response.background = BackgroundTask(node.drain)  # runs after the response has been sent
        return response

    return [
        Route("/scale", scale),
        Route("/v1/leases", leases),
        Route("/v1/units/{name:path}", unit),
        Route("/v1/members", members),
        Route("/v1/drain", drain, methods=["POST"]),
    ]


def _lease_row(lease: Lease) -> dict[str, object]:
    """Without the session token: with it, a client could act as the node."""
    unit = lease.unit
    row = {"unit": unit.name, "replica": unit.replica, "node": lease.node, "address": lease.address}
    return {**row, "epoch": lease.epoch, "state": lease.state.value}
