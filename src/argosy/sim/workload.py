"""The plane above ownership, simulated: indexes that take time and memory, a catalog, and a probe of free memory."""

from collections.abc import Callable, Mapping

from argosy.base.clock import Clock, Random
from argosy.base.errors import Unavailable
from argosy.ownership.model import Lease, Unit, UnitSpec

WARM_AT_LEAST_S = 0.2  # to fetch anything at all


class SimCatalog:
    """What should be held; shared by all nodes, and never away."""

    def __init__(self, specs: tuple[UnitSpec, ...]) -> None:
        self._specs = list(specs)

    async def units(self) -> list[UnitSpec]:
        return self._specs


class SimMemory:
    """One process' memory: implements `MemoryProbe`."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.held: dict[str, int] = {}

    def free_bytes(self) -> int:
        return max(0, self.budget_bytes - self.held_bytes())

    def held_bytes(self) -> int:
        return sum(self.held.values())


class SimWorkload:
    """Builds indexes by sleeping in proportion to their size; some builds fail."""

    def __init__(
        self,
        sizes: Mapping[str, int],
        memory: SimMemory,
        *,
        clock: Clock,
        random: Random,
        bytes_per_s: float,
        failure_chance: Callable[[], float],
    ) -> None:
        self._sizes = sizes
        self._memory = memory
        self._clock = clock
        self._random = random
        self._bytes_per_s = bytes_per_s
        self._failure_chance = failure_chance

    async def warm(self, lease: Lease) -> int:
        name = lease.unit.name
        size = self._sizes[name]
        if name not in self._memory.held:
            await self._clock.sleep(WARM_AT_LEAST_S + size / self._bytes_per_s)
            if self._random.random() < self._failure_chance():
                raise Unavailable(f"the mirror of {name!r} is away")
            self._memory.held[name] = size
        return size

    async def drop(self, unit: Unit) -> None:
        self._memory.held.pop(unit.name, None)
