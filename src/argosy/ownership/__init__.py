"""Who holds what, until when: leases with epochs, and three ways to place them (auction, ring, claim).

Reading order: `model` (the nouns), `ports` (what a store must do), `events` and `effects` (what a node hears and
orders), `promise`, `keeper` (do I hold this?), `view` (what a node knows), `bidder` and `closer` (auctions),
`reconcile` (ring and claim), `leaving` (release, hand-over, drain), `node` (all of them as one machine), `service`
(the machine at work), with `client` (orders to the store), `worker` (orders to the plane above) and `teller` (metrics
and logs). Beside them: `ring` and `assigner` (pure placement), `autoscale` (how many nodes), `backends/`.
"""

from argosy.ownership.autoscale import ScaleSignal
from argosy.ownership.model import Lease, LeaseState, Member, Space, Unit, UnitSpec
from argosy.ownership.node_service import FleetWatcher, OwnershipNode
from argosy.ownership.ports import Catalog, MemoryProbe, OwnershipStore, Workload
from argosy.ownership.ring import Ring
from argosy.ownership.settings import OwnershipSettings

__all__ = [
    "Catalog",
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
    "UnitSpec",
    "Workload",
]
