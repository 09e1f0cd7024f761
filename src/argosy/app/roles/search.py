"""The role `search`: bids for repositories with its free memory, holds their indexes in memory and searches them."""

import asyncio
import sys
from functools import partial

from argosy.app.process import Process, with_catalog
from argosy.app.startup import Display
from argosy.base import logs
from argosy.base.clock import SystemClock
from argosy.ownership.backends.cgroup import CgroupMemory
from argosy.ownership.http import ownership_routes
from argosy.ownership.model import SUCCESSOR, LeaseState
from argosy.ownership.node_service import OwnershipNode
from argosy.ownership.settings import OwnershipSettings
from argosy.search import precompiler
from argosy.search.backends.remote import RemoteFetcher
from argosy.search.fleet.http import node_routes
from argosy.search.fleet.local_node import LocalNode
from argosy.search.fleet.remote_node import RemoteNodes
from argosy.search.fleet.search_node import SearchNode, quiesce
from argosy.search.index_set import IndexSet
from argosy.search.ports import Advertiser
from argosy.search.settings import FetchSettings, SearchSettings

log = logs.get("app")

# A thread that encodes a large result yields to the event loop, which serves small ones, after this time. Python's 5 ms
# would be added several times to each request.
SWITCH_S = 0.0005


async def search(process: Process) -> None:
    """Sets up a search node."""
    sys.setswitchinterval(SWITCH_S)
    loaded, this = process.loaded, process.this
    catalog = await with_catalog(process)
    process.display.set_step("loading search kernels", hint="compiling them, once on each machine")
    # Kernels of the first query are compiled or loaded before the node joins the fleet, the others while it serves.
    rest = await asyncio.to_thread(precompiler.prepare, partial(_show_compiling, process.display))
    if rest is not None:
        process.closing.callback(rest.stop)
    process.display.set_step("starting")
    indexes = IndexSet()
    process.closing.callback(indexes.close)
    others = RemoteNodes(fleet_token=this.fleet_token, tracer=process.tracer)
    process.closing.push_async_callback(others.close)
    search_node = SearchNode(
        catalog,
        # Its mirrors are shared with other nodes of this machine (decision 0024).
        RemoteFetcher(loaded.get(FetchSettings)),
        indexes,
        node_id=this.id or "",
        address=process.node_address,
        settings=loaded.get(SearchSettings),
        memory=CgroupMemory(limit_bytes=this.memory_limit_bytes),
        nodes=others,
        advertiser=await _advertiser(process),
        metrics=process.metrics,
        tracer=process.tracer,
    )
    process.closing.push_async_callback(search_node.close)
    node = OwnershipNode(
        process.store,
        catalog,
        search_node,
        search_node,
        node_id=this.id or "",
        address=process.node_address,
        settings=loaded.get(OwnershipSettings),
        metrics=process.metrics,
        tracer=process.tracer,
        capabilities=("search",),
    )
    search_node.join(node, claimed_after_s=node.claim_wait_s)
    catalog.observers.append(node.catalog_changed)
    local_node = LocalNode(
        indexes,
        search_node,
        node_id=this.id or "",
        address=process.node_address,
        # Any slot, also a replica's: replicas serve requests (decision 0017).
        may_answer=node.holds_any,
        holder_of=lambda name: _holder(node, name),
        is_draining=lambda: any(lease.state is LeaseState.DRAINING for lease in node.own_leases()),
        in_thread=asyncio.to_thread,
        clock=SystemClock(),
        settings=loaded.get(SearchSettings),
        tracer=process.tracer,
    )
    # A search that is reading an index finishes before the index is dropped.
    search_node.before_drop = partial(quiesce, local_node, SystemClock())
    process.node = node
    process.local_node = local_node
    process.tasks.append(search_node.run())
    process.ready.append(node.is_ready)
    process.routes += node_routes(local_node, fleet_token=this.fleet_token, tracer=process.tracer)
    process.routes += ownership_routes(node, admin_token=this.admin_token)


async def _advertiser(process: Process) -> Advertiser | None:
    """The content publisher, imported only if the settings turn it on."""
    if not process.loaded.get(SearchSettings).advertise:
        return None
    from argosy.app.content_publisher import open_content_publisher

    return await open_content_publisher(process)


def _show_compiling(display: Display, done: int, total: int) -> None:
    """Called from the thread that waits for the compilation."""
    display.set_step(f"compiling search kernels, once on each machine: {done} of {total}")
    if done in (0, total):
        log.info("compiling search kernels" if done == 0 else "search kernels compiled", kernels=total)


def _holder(node: OwnershipNode, name: str) -> str | None:
    """The address of the known owner of the repository: the primary before a replica."""
    leases = {lease.unit.replica: lease for lease in node.leases() if lease.unit.name == name}
    leases.pop(SUCCESSOR, None)
    return leases[min(leases)].address if leases else None
