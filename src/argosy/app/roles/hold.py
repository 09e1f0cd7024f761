"""The role `hold`: a node without a plane, for those who use leases alone. Its units take no memory."""

from collections.abc import Iterable

from argosy.app.process import Process
from argosy.ownership.backends.cgroup import CgroupMemory
from argosy.ownership.http import ownership_routes
from argosy.ownership.model import Lease, Unit, UnitSpec
from argosy.ownership.node_service import OwnershipNode
from argosy.ownership.settings import OwnershipSettings


class StaticCatalog:
    """A catalog written down in the settings."""

    def __init__(self, names: Iterable[str]) -> None:
        self._specs = [UnitSpec(name) for name in dict.fromkeys(names)]

    async def units(self) -> list[UnitSpec]:
        return self._specs


class BareHolding:
    """The workload of a node that has no plane to serve."""

    async def warm(self, lease: Lease) -> int:
        return 0

    async def drop(self, unit: Unit) -> None:
        return None


async def hold(process: Process) -> None:
    """Makes the process a node that holds what its settings name."""
    settings = process.loaded.get(OwnershipSettings)
    node = OwnershipNode(
        process.store,
        StaticCatalog(settings.units),
        BareHolding(),
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
