"""What a world is made of: spaces, nodes, links, and what goes wrong."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from argosy.ownership.model import Space, Unit, UnitSpec
from argosy.ownership.settings import OwnershipSettings
from argosy.search.settings import SearchSettings
from argosy.sim.clocks import DRIFT_MAX
from argosy.sim.faults import Fault
from argosy.sim.link import LinkQuality


@dataclass(frozen=True)
class SearchPlan:
    """How fast repositories come to a search node, and how it keeps them fresh."""

    budget_bytes: int  # of each node, for repositories alone
    index_bytes_per_s: float
    fetch_bytes_per_s: float
    stream_bytes_per_s: float  # a finished index, from one node to another
    search: SearchSettings = field(default_factory=SearchSettings)
    damage_chance: float = 0.0  # that a check finds an index damaged
    commit_mean_s: float = 0.0  # between two commits anywhere; 0: nobody works
    grows: tuple[float, float] = (1.0, 1.0)  # what a commit makes of an index's size, as a factor of the first one

    def settings(self) -> SearchSettings:
        return replace(self.search, budget_bytes=self.budget_bytes)


@dataclass(frozen=True)
class SpacePlan:
    """One space: its settings name it and say how its units are placed."""

    settings: OwnershipSettings
    specs: tuple[UnitSpec, ...]
    sizes: Mapping[str, int]  # true bytes, which the specs may not know
    warm_failure_chance: float = 0.0
    search: SearchPlan | None = None  # the units are repositories, and real search nodes hold them

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
