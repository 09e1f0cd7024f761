"""`argosy up`: the product on one machine, with whatever repositories its user names."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from argosy.app.console import open_display
from argosy.app.local_fleet import local_fleet, share_of
from argosy.app.roles import Role, run
from argosy.app.settings import LogSettings, NodeSettings, default_data_dir
from argosy.app.stores import reach_registry
from argosy.base.backends.servers import free_ports
from argosy.base.errors import Conflict, Invalid
from argosy.base.settings import Loaded
from argosy.ipni.sync.settings import SyncSettings
from argosy.ipni.web.settings import IndexerHttpSettings
from argosy.ownership.backends.cgroup import CgroupMemory
from argosy.registry import catalog
from argosy.registry.settings import RegistrySettings
from argosy.search.catalog.addresses import Address
from argosy.search.settings import FetchSettings, SearchSettings

LOOPBACK = ("127.0.0.1", "::1", "localhost")
AGAIN_S = 10.0          # a node may be up before the indexer is: it is soon told again, and repetitions cost nothing


def run_up(
    loaded: Loaded,
    addresses: Sequence[Address],
    *,
    nodes: int | None = None,
    port: int | None = None,
    is_verbose: bool = False,
    started_at: float | None = None,
) -> None:
    """Adds what is named to the catalog and serves all that is in it, until told to stop."""
    this, fetching = loaded.get(NodeSettings), loaded.get(FetchSettings)
    loaded = loaded.changed(
        {
            NodeSettings: this if port is None else replace(this, port=port),
            # Whoever starts this may read what it reads.
            FetchSettings: replace(fetching, allow_local=True),
        }
    )
    log_folder = Path(this.data_dir or default_data_dir()) / "logs"
    with open_display(loaded.get(LogSettings), log_folder, is_verbose=is_verbose, started_at=started_at) as display:
        asyncio.run(_wish(loaded, addresses))
        loaded = with_content_index(loaded)
        indexers = [Role.INDEXER] if loaded.get(SearchSettings).advertise else []
        if nodes is None:
            run(loaded, [Role.SEARCH, *indexers, Role.GATEWAY], display=display)
            return
        display.set_step(f"starting {nodes} search nodes")
        free_bytes = CgroupMemory(limit_bytes=this.memory_limit_bytes).free_bytes()
        with local_fleet(loaded, nodes, share_of(loaded.get(SearchSettings), free_bytes), log_folder) as fleet:
            display.set_children(fleet.children)
            run(fleet.loaded, [*indexers, Role.GATEWAY], display=display)


def with_content_index(loaded: Loaded) -> Loaded:
    """The settings with which nodes advertise what they hold to an indexer in this process, unless told not to."""
    search, http, sync = loaded.get(SearchSettings), loaded.get(IndexerHttpSettings), loaded.get(SyncSettings)
    if not search.advertise and ("search", "advertise") in loaded.sources:
        return loaded
    if ("ipni_http", "port") not in loaded.sources:
        http = replace(http, port=free_ports(1)[0])     # nobody needs to know it, and 3000 is often taken
    ingest_port = http.port if http.ingest_port is None else http.ingest_port
    if http.port == 0 or ingest_port == 0:
        raise Invalid("argosy up announces to its own indexer: give ipni_http.port and ipni_http.ingest_port a number")
    host = f"[{http.host}]" if ":" in http.host else http.host
    here = f"http://{host}:{ingest_port}"
    announcing = replace(
        search, advertise=True, announce_urls=(*search.announce_urls, here), announce_s=min(search.announce_s, AGAIN_S)
    )
    # The publishers are on this machine. Strangers that can announce here could make it read others there, too.
    reading = replace(sync, allow_private=sync.allow_private or http.host in LOOPBACK)
    return loaded.changed({SearchSettings: announcing, IndexerHttpSettings: http, SyncSettings: reading})


async def _wish(loaded: Loaded, addresses: Sequence[Address]) -> None:
    registry = await reach_registry(loaded.get(RegistrySettings))
    try:
        for address in addresses:
            try:
                await registry.run(catalog.add(address.name, address.url))
            except Conflict:
                known = await registry.run(catalog.read_by_url(address.url))
                if known is None:       # not the same repository, but another one of that name
                    raise Conflict(
                        f"another repository is called {address.name!r}: "
                        f"add this one by a name of its own, with `argosy repo add --name NAME {address.url}`"
                    ) from None
    finally:
        await registry.close()
