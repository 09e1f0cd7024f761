"""The role `gateway`: HTTP APIs, MCP and web pages over all search nodes.

With an indexer in the same process, or with indexers in its settings, the gateway answers finds too. Only the find
paths are served here: the indexer's announcements and administration stay on its own ports, because not everybody who
may search may use them.
"""

from collections.abc import Callable, Sequence
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from argosy.app.process import Process, with_catalog
from argosy.base.clock import SystemClock
from argosy.base.http import json_response
from argosy.base.metrics import Metrics
from argosy.gateway.service import Gateway
from argosy.gateway.settings import ApiSettings, GatewaySettings
from argosy.gateway.ui import WebUi
from argosy.gateway.ui.files import FileHolder, HolderLookup
from argosy.gateway.ui.links import folder_url
from argosy.gateway.v1.catalog_service import CatalogService
from argosy.gateway.v1.http import v1_routes
from argosy.gateway.zoekt.http import zoekt_routes
from argosy.ipni.formats.metadata import decode_label
from argosy.ipni.formats.multihash import SHA2_256, wrap
from argosy.ipni.ports import FindApi
from argosy.ownership.settings import OwnershipSettings
from argosy.ownership.view import FleetWatcher
from argosy.registry import catalog as catalog_rows
from argosy.search.fleet.ports import Node, Nodes
from argosy.search.fleet.remote_node import RemoteNodes
from argosy.search.settings import FetchSettings
from argosy.throttle.fair_throttle import FairThrottle
from argosy.throttle.settings import ThrottleSettings
from argosy.throttle.sync import ThrottleSync

# The find paths of an indexer. `/` and its other pages are left out: on this port they are the gateway's own.
FIND_PATHS = (
    "/cid/{name:path}",
    "/encrypted/{name:path}",
    "/health",
    "/ipni/v0/sample/{name:path}",
    "/metadata/{name:path}",
    "/multihash",
    "/multihash/{name:path}",
    "/providers",
    "/providers/{name:path}",
    "/routing/v1/{name:path}",
)


class NodeDirectory:
    """Nodes by address. The node of this process is called directly, all others over the network."""

    def __init__(self, local: dict[str, Node], remote: Nodes) -> None:
        self._local = local
        self._remote = remote

    def at(self, address: str) -> Node:
        return self._local.get(address) or self._remote.at(address)


class IndexedHolders:
    """Implements `HolderLookup` on this process's indexer; repositories in the catalog link to their page here."""

    def __init__(self, indexer: FindApi, is_known: Callable[[str], bool]) -> None:
        self._indexer = indexer
        self._is_known = is_known

    async def holders(self, digest: bytes) -> Sequence[FileHolder]:
        [found] = await self._indexer.find([wrap(SHA2_256, digest)])
        labels = [(decode_label(result.metadata), result.provider.id) for result in found]
        return [
            FileHolder(provider)
            if label is None
            else FileHolder(label.name, label.version, folder_url(label.name) if self._is_known(label.name) else "")
            for label, provider in labels
        ]


async def gateway(process: Process) -> None:
    """Makes the process a gateway."""
    loaded, this = process.loaded, process.this
    catalog = await with_catalog(process)
    watcher = FleetWatcher(process.store)
    # The task of a watcher fails the process if it fails: without leases every route would be stale.
    process.tasks.append(watcher.run())
    remote = RemoteNodes(fleet_token=this.fleet_token, tracer=process.tracer)
    process.closing.push_async_callback(remote.close)
    # In one process searches go to the node directly, without a socket and without encoding.
    local = {} if process.local_node is None else {process.node_address: process.local_node}
    gateway = Gateway(
        NodeDirectory(local, remote),
        watcher.view,
        catalog,
        loaded.get(GatewaySettings),
        ownership=loaded.get(OwnershipSettings),
        metrics=process.metrics,
        tracer=process.tracer,
    )
    process.gateway = gateway
    process.ready.append(gateway.is_ready)
    throttle = await _open_throttle(process)
    web_ui = WebUi(gateway, throttle=throttle, holders=_add_finds(process))
    process.closing.callback(web_ui.close)
    process.error_page = web_ui.error_page
    assert process.registry is not None, "the catalog has opened it"
    registry = process.registry

    async def record_push(name: str) -> None:
        await registry.run(catalog_rows.record_push(name))

    catalog_service = CatalogService(registry, notify=record_push, allow_local=loaded.get(FetchSettings).allow_local)
    process.routes += v1_routes(
        gateway, catalog_service, admin_token=this.admin_token, settings=loaded.get(ApiSettings), throttle=throttle
    )
    process.routes += zoekt_routes(
        gateway,
        names=lambda: catalog.specs,
        search_page=web_ui.search_page,
        print_page=web_ui.print_page,
        throttle=throttle,
        is_ready=process.is_ready,
    )
    process.routes += [*web_ui.routes(), _scale_route(gateway)]
    process.status = partial(gateway.status, is_fresh=True)


def _add_finds(process: Process) -> HolderLookup | None:
    """Adds the find routes, over the indexers of the settings or else over the indexer of this process."""
    from argosy.app.roles.content import open_content_gateway
    from argosy.gateway.content.http import content_routes

    if (content := open_content_gateway(process)) is not None:
        process.routes += content_routes(content)
        return None
    if process.indexer is None:
        return None
    process.routes += find_routes(process.indexer, metrics=process.metrics)
    catalog = process.catalog
    return IndexedHolders(process.indexer, lambda name: catalog is not None and name in catalog.specs)


def find_routes(indexer: FindApi, *, metrics: Metrics) -> list[BaseRoute]:
    """The find paths of an indexer in this process, answered without a network."""
    from argosy.ipni.web.app import find_app  # loads the indexer's whole HTTP side

    find = find_app(indexer, clock=SystemClock(), metrics=metrics)
    return [Route(path, find) for path in FIND_PATHS]


def _scale_route(gateway: Gateway) -> Route:
    async def scale(_: Request) -> Response:
        return json_response(gateway.scale())

    return Route("/scale", scale)


async def _open_throttle(process: Process) -> FairThrottle | None:
    """Fair among clients; with a shared store, over all gateways."""
    if not process.loaded.get(GatewaySettings).with_admission:
        return None
    settings = process.loaded.get(ThrottleSettings)
    throttle = FairThrottle(settings.config())
    if settings.store is not None:
        await process.closing.enter_async_context(ThrottleSync.open(throttle, settings, metrics=process.metrics))
    return throttle
