"""`argosy up`: the product on one machine, with whatever repositories its user names."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from argosy.app.local_fleet import local_fleet, share_of
from argosy.app.roles import Role, run
from argosy.app.settings import NodeSettings
from argosy.app.stores import reach_registry
from argosy.base.errors import Conflict
from argosy.base.settings import Loaded
from argosy.ownership.backends.cgroup import CgroupMemory
from argosy.registry import catalog
from argosy.registry.settings import RegistrySettings
from argosy.search.catalog.addresses import Address
from argosy.search.settings import FetchSettings, SearchSettings


def run_up(loaded: Loaded, addresses: Sequence[Address], *, nodes: int | None = None, port: int | None = None) -> None:
    """Adds what is named to the catalog and serves all that is in it, until told to stop."""
    this, fetching = loaded.get(NodeSettings), loaded.get(FetchSettings)
    loaded = loaded.changed(
        {
            NodeSettings: this if port is None else replace(this, port=port),
            # Whoever starts this may read what it reads.
            FetchSettings: replace(fetching, allow_local=True),
        }
    )
    asyncio.run(_wish(loaded, addresses))
    if nodes is None:
        run(loaded, [Role.SEARCH, Role.GATEWAY])
        return
    free_bytes = CgroupMemory(limit_bytes=this.memory_limit_bytes).free_bytes()
    with local_fleet(loaded, nodes, share_of(loaded.get(SearchSettings), free_bytes)) as shared:
        run(shared, [Role.GATEWAY])


async def _wish(loaded: Loaded, addresses: Sequence[Address]) -> None:
    registry = await reach_registry(loaded.get(RegistrySettings))
    try:
        for address in addresses:
            try:
                await registry.run(catalog.add(address.name, address.url))
            except Conflict:
                known = await registry.run(catalog.read_by_url(address.url))
                if known is None:       # not the same repository, but another one of that name
                    raise
    finally:
        await registry.close()
