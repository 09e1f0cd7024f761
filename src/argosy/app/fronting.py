"""The role `gateway`: the front door over all search nodes, with its APIs and pages."""

from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from argosy.app.roles import Process, with_catalog
from argosy.base.http import json_response
from argosy.gateway.admission import FairAdmission, OpenDoor
from argosy.gateway.ports import Admission
from argosy.gateway.service import Gateway
from argosy.gateway.settings import GatewaySettings
from argosy.gateway.ui import Site
from argosy.gateway.ui.holders import Holders
from argosy.gateway.v1.catalog_service import CatalogDesk
from argosy.gateway.v1.http import v1_routes
from argosy.gateway.v1.settings import ApiSettings
from argosy.gateway.zoekt.http import zoekt_routes
from argosy.ownership.node_service import Onlooker
from argosy.ownership.settings import OwnershipSettings
from argosy.registry import catalog as catalog_rows
from argosy.search.fleet.client import FarNodes
from argosy.search.fleet.ports import Node, Nodes
from argosy.search.settings import FetchSettings
from argosy.throttle.service import FairThrottle
from argosy.throttle.settings import ThrottleSettings
from argosy.throttle.worker import Sharing


class NearAndFar:
    """Nodes by address; the one in this process is asked without a network."""

    def __init__(self, near: dict[str, Node], far: Nodes) -> None:
        self._near = near
        self._far = far

    def at(self, address: str) -> Node:
        return self._near.get(address) or self._far.at(address)


async def gateway(process: Process) -> None:
    """Makes the process a front door."""
    loaded, this = process.loaded, process.this
    catalog = await with_catalog(process)
    onlooker = Onlooker(process.store)
    process.tasks.append(onlooker.run())
    far = FarNodes(fleet_token=this.fleet_token, tracer=process.tracer)
    process.closing.push_async_callback(far.close)
    near = {} if process.desk is None else {process.node_address: process.desk}
    door = Gateway(
        NearAndFar(near, far),
        onlooker.view,
        catalog,
        loaded.get(GatewaySettings),
        ownership=loaded.get(OwnershipSettings),
        metrics=process.metrics,
        tracer=process.tracer,
    )
    process.gateway = door
    process.ready.append(door.is_ready)
    admission = await _admission(process)
    site = Site(door, admission=admission, holders=_with_finds(process))
    process.closing.callback(site.close)
    process.error_page = site.error_page
    assert process.registry is not None, "the catalog has opened it"
    registry = process.registry

    async def told(name: str) -> None:
        await registry.run(catalog_rows.note_pushed(name))

    desk = CatalogDesk(registry, told=told, allow_local=loaded.get(FetchSettings).allow_local)
    process.routes += v1_routes(
        door, desk, admin_token=this.admin_token, settings=loaded.get(ApiSettings), admission=admission
    )
    process.routes += zoekt_routes(
        door,
        names=lambda: catalog.wishes,
        search_page=site.search_page,
        print_page=site.print_page,
        admission=admission,
        is_ready=process.is_ready,
    )
    process.routes += [*site.routes(), _scale_route(door)]
    process.status = partial(door.status, is_fresh=True)


def _with_finds(process: Process) -> Holders | None:
    """Lets the door answer finds: over the indexers its settings name, or from this process's own, whose pages ask."""
    from argosy.app.content import content_door
    from argosy.gateway.content.http import content_routes

    if (door := content_door(process)) is not None:
        process.routes += content_routes(door)
        return None
    if process.indexer is None:
        return None
    from argosy.app.finding import IndexedHolders, find_routes

    process.routes += find_routes(process.indexer, metrics=process.metrics)
    catalog = process.catalog
    return IndexedHolders(process.indexer, lambda name: catalog is not None and name in catalog.wishes)


def _scale_route(door: Gateway) -> Route:
    async def scale(_: Request) -> Response:
        return json_response(door.scale())

    return Route("/scale", scale)


async def _admission(process: Process) -> Admission:
    """Fair among clients; with a shared store, fair over all front doors."""
    if not process.loaded.get(GatewaySettings).with_admission:
        return OpenDoor()
    settings = process.loaded.get(ThrottleSettings)
    throttle = FairThrottle(settings.config())
    if settings.store is not None:
        await process.closing.enter_async_context(Sharing.open(throttle, settings, metrics=process.metrics))
    return FairAdmission(throttle)
