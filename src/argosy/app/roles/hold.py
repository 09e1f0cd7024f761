"""The role `hold`: a node that owns units without serving anything, for users of leases only."""

from collections.abc import Iterable

from argosy.app.process import Process
from argosy.ownership.backends.cgroup import CgroupMemory
from argosy.ownership.http import ownership_routes
from argosy.ownership.model import Lease, Unit, UnitSpec
from argosy.ownership.node_service import OwnershipNode
from argosy.ownership.settings import OwnershipSettings


class StaticCatalog:
    """A fixed catalog from the settings."""

    def __init__(self, names: Iterable[str]) -> None:
        self._specs = [UnitSpec(name) for name in dict.fromkeys(names)]

    async def units(self) -> list[UnitSpec]:
        return self._specs


class NoWorkload:
    """A workload that does nothing and takes no memory."""

    async def warm(self, lease: Lease) -> int:
        return 0

    async def drop(self, unit: Unit) -> None:
        return None


async def hold(process: Process) -> None:
    """Sets up a node that owns the units of its settings."""
    settings = process.loaded.get(OwnershipSettings)
    node = OwnershipNode(
        process.store,
        StaticCatalog(settings.units),
        NoWorkload(),
        CgroupMemory(limit_bytes=process.this.memory_limit_bytes),
        node_id=process.this.id or "",
        address=process.this.address or "",
        settings=settings,
        metrics=process.metrics,
        tracer=process.tracer,
    )
    process.node = node
    process.ready.append(node.is_ready)
    process.routes += ownership_routes(node, admin_token=process.this.admin_token)
