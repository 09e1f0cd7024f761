"""Leases with fencing tokens: which node holds which unit, and until when.

    store = await open_ownership_store("redis://…", Space("repos", is_auctioned=True), clock=…, random=…, grace_s=30.0)
    node = OwnershipNode(store, catalog, workload, memory, node_id="n1", address="10.0.0.1:6070")

A unit's holder is chosen in one of three ways: by auction, by consistent hash ring, or by the first claim.

Reading order: `model` (the data, and the rules of auctions), `ports` (the store), `events` and `effects` (input and
output of the state machines), `session_keepalive`, `lease_keeper` (may this node serve the unit?), `view` (local copy
of the space, and `FleetWatcher`), `auction` (bidding and closing), `reconciler` (ring and claim), `drainer` (release,
handoff, drain), `node` (all of them as one state machine), `node_service` (runs it), with `store_client` (performs
effects) and `telemetry`. Beside them: `ring` and `assigner` (pure placement), `autoscale`, and `backends/`."""

from typing import TYPE_CHECKING

from argosy.base.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from argosy.ownership.autoscale import ScaleSignal
    from argosy.ownership.factory import open_ownership_store
    from argosy.ownership.model import Lease, LeaseState, Member, Space, Unit, UnitSpec
    from argosy.ownership.node_service import OwnershipNode
    from argosy.ownership.ports import MemoryProbe, OwnershipStore, UnitCatalog, Workload
    from argosy.ownership.ring import Ring
    from argosy.ownership.settings import OwnershipSettings
    from argosy.ownership.view import FleetWatcher

__all__ = [
    "FleetWatcher",
    "Lease",
    "LeaseState",
    "Member",
    "MemoryProbe",
    "OwnershipNode",
    "OwnershipSettings",
    "OwnershipStore",
    "Ring",
    "ScaleSignal",
    "Space",
    "Unit",
    "UnitCatalog",
    "UnitSpec",
    "Workload",
    "open_ownership_store",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "argosy.ownership.autoscale": ("ScaleSignal",),
        "argosy.ownership.factory": ("open_ownership_store",),
        "argosy.ownership.view": ("FleetWatcher",),
        "argosy.ownership.model": ("Lease", "LeaseState", "Member", "Space", "Unit", "UnitSpec"),
        "argosy.ownership.node_service": ("OwnershipNode",),
        "argosy.ownership.ports": ("MemoryProbe", "OwnershipStore", "UnitCatalog", "Workload"),
        "argosy.ownership.ring": ("Ring",),
        "argosy.ownership.settings": ("OwnershipSettings",),
    },
)
