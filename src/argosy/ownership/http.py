"""What a node tells over HTTP about ownership: the scale signal, the lease map, and, for operators, drain.

`GET /v1/units/NAME` asks the local question: 200 with the lease if this node may answer for the unit at this instant,
else 421 with the holder's address as far as it is known. No route here ever asks the store.

`GET /scale` answers an autoscaler: read `desired_nodes`. `POST /v1/drain` changes the fleet, so it needs the admin
token; without a configured token the route is closed.
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
            raise Unavailable("this node does not take part yet: ask again")
        return json_response(node.scale())

    async def leases(_: Request) -> Response:
        rows = [_lease_row(lease) for lease in sorted(node.leases(), key=lambda lease: lease.unit)]
        return json_response({"leases": rows, "is_current": node.is_ready()})

    async def unit(request: Request) -> Response:
        return json_response(_lease_row(node.serving(Unit(request.path_params["name"]))))

    async def members(_: Request) -> Response:
        rows = [asdict(member) for member in sorted(node.members(), key=lambda member: member.node)]
        return json_response({"members": rows, "is_current": node.is_ready()})

    async def drain(request: Request) -> Response:
        check_admin(request, admin_token)
        answer = json_response({"draining": node.node_id}, 202)
        answer.background = BackgroundTask(node.drain)  # the answer leaves before the node does
        return answer

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
