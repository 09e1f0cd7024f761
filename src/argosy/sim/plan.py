"""What a world is made of: spaces, nodes, links, and what goes wrong."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from argosy.ownership.model import Space, Unit, UnitSpec
from argosy.ownership.settings import OwnershipSettings
from argosy.sim.clocks import DRIFT_MAX
from argosy.sim.faults import Fault
from argosy.sim.link import LinkQuality


@dataclass(frozen=True)
class SpacePlan:
    """One space: its settings name it and say how its units are placed."""

    settings: OwnershipSettings
    specs: tuple[UnitSpec, ...]
    sizes: Mapping[str, int]            # true bytes, which the specs may not know
    warm_failure_chance: float = 0.0

    @property
    def space(self) -> Space:
        return Space(self.settings.space, is_auctioned=self.settings.placement == "auction")

    def primaries(self) -> list[Unit]:
        return [Unit(spec.name) for spec in self.specs]


@dataclass(frozen=True)
class WorldPlan:
    """Everything about a world; the same plan is the same world."""

    seed: int
    nodes: tuple[str, ...]
    spaces: tuple[SpacePlan, ...]
    node_bytes: int
    index_bytes_per_s: float
    quality: LinkQuality = field(default_factory=LinkQuality)
    drift_max: float = DRIFT_MAX
    call_timeout_s: float = 10.0
    faults: tuple[Fault, ...] = ()
