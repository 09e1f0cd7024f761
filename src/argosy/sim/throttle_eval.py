"""`argosy throttle eval`: how fair the throttle is in the scenarios of `throttle_load`, without it and with it, on one
instance and on many.

As in the original's evaluator, windows do not rotate during a run. Many instances are in front of one resource, and
every request goes to one of them at random; they share their state through the in-memory store, or do not.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from multiprocessing import get_context

import msgspec

from argosy.base.clock import Random, seeded_random
from argosy.base.errors import Invalid
from argosy.sim.checkers.throttle import EQUAL
from argosy.sim.throttle_load import Allocation, NoThrottle, Request, Scenario, arrivals, play
from argosy.sim.throttle_world import WALL_AT_START, RowsOf, ThrottleWorld, spread
from argosy.throttle.fair_throttle import FairThrottle
from argosy.throttle.model import Config, Outcome, preset
from argosy.throttle.settings import ThrottleSettings

NONE = "none"  # instead of a preset: every request is admitted
NO_ROTATION_S = 86_400.0  # longer than any scenario, so that windows do not rotate
INSTANCES_MAX = 1000
SEEDS_MAX = 1000
FIGURES = ("entitlement_jain", "raw_jain", "utilisation", "mean_ratio", "worst_ratio", "failed", "throttled")

CONVERGENCE_INSTANCES = 16
CONVERGENCE_CLIENTS = 50
CONVERGENCE_STEP_S = 0.05

Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class Setup:
    """One way to run a scenario."""

    preset: str
    instances: int = 1
    is_shared: bool = False

    @property
    def name(self) -> str:
        if self.instances == 1:
            return self.preset
        return f"{self.preset}, {self.instances} {'sharing' if self.is_shared else 'alone'}"


@dataclass(frozen=True)
class Mean:
    """A figure over all seeds."""

    mean: float
    deviation: float


@dataclass(frozen=True)
class ScenarioEvaluation:
    """One scenario with one setup."""

    scenario: str
    setup: Setup
    figures: dict[str, Mean]
    ratios: tuple[float, ...]  # of the first seed: each client's share of its entitlement

    @property
    def jain(self) -> float:
        return self.figures["entitlement_jain"].mean


@dataclass(frozen=True)
class Convergence:
    """How instances converge after the last write."""

    instances: int
    flush_s: float
    poll_s: float
    spreads: tuple[tuple[float, float], ...]  # seconds after the last write, greatest difference of any bucket
    equal_after_s: float | None


@dataclass(frozen=True)
class EvalReport:
    """The results of `argosy throttle eval`."""

    seeds: int
    classes: dict[str, tuple[int, ...]]  # of each scenario: how many clients each class has
    evaluations: tuple[ScenarioEvaluation, ...]
    convergence: Convergence

    def to_json(self) -> bytes:
        """The same report is always the same bytes."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2)

    def of(self, scenario: str, setup: Setup) -> ScenarioEvaluation | None:
        return next((each for each in self.evaluations if (each.scenario, each.setup) == (scenario, setup)), None)


class ThrottleFleet:
    """Several throttles; each request goes to one of them at random."""

    def __init__(self, world: ThrottleWorld, throttles: Sequence[FairThrottle], routes: Random) -> None:
        self._world = world
        self._throttles = throttles
        self._routes = routes
        self._chosen = throttles[0]

    def admit(self, request: Request) -> bool:
        self._world.advance(request.at_s)
        if len(self._throttles) > 1:
            self._chosen = self._throttles[self._routes.randrange(0, len(self._throttles))]
        return not self._chosen.register(request.client).throttled

    def on_result(self, request: Request, is_served: bool) -> None:
        self._chosen.report(request.client, Outcome.SUCCESS if is_served else Outcome.FAILURE)


def static_preset(name: str) -> Config:
    """A preset whose windows do not rotate during a scenario."""
    return replace(preset(name), window_s=NO_ROTATION_S)


def run_once(
    scenario: Scenario,
    requests: Sequence[Request],
    setup: Setup,
    seed: int,
    *,
    settings: ThrottleSettings | None = None,
    rows_of: RowsOf | None = None,
) -> Allocation:
    """Play a scenario with one setup."""
    if setup.preset == NONE:
        return play(scenario, requests, NoThrottle())
    # A window of its own for each seed, and with it other hashes: which clients collide is random too.
    started_at = WALL_AT_START - seed % SEEDS_MAX * NO_ROTATION_S
    config, chosen = static_preset(setup.preset), settings or ThrottleSettings()
    world = ThrottleWorld(config, chosen, seed=seed, started_at=started_at, rows_of=rows_of)
    names = [f"i{number}" for number in range(setup.instances)]
    throttles = [world.add().throttle if setup.is_shared else world.unshared_throttle(name) for name in names]
    return play(scenario, requests, ThrottleFleet(world, throttles, seeded_random(f"{seed}/routes")))


def setups(instances: Sequence[int]) -> Iterator[Setup]:
    """No throttle, each preset, and the standard one on several instances, alone and sharing."""
    yield from (Setup(NONE), Setup("standard"), Setup("strict"))
    for number in instances:
        if number > 1:
            yield Setup("standard", number, is_shared=False)
            yield Setup("standard", number, is_shared=True)


def evaluate(
    scenarios: Sequence[Scenario],
    *,
    seeds: int,
    instances: Sequence[int],
    jobs: int = 1,
    progress: Progress = lambda part, text: None,
) -> EvalReport:
    """Run every scenario with every setup, over all seeds."""
    if not 1 <= seeds <= SEEDS_MAX:
        raise Invalid(f"the number of seeds must be 1 to {SEEDS_MAX}, not {seeds}")
    if not all(1 <= number <= INSTANCES_MAX for number in instances):
        raise Invalid(f"the number of instances must be 1 to {INSTANCES_MAX}, not {', '.join(map(str, instances))}")
    ways = list(setups(instances))
    runs = [(each, each.seed + n, way) for each in scenarios for n in range(seeds) for way in ways]
    # A sharing instance applies the changes of all others, so its cost grows with their number.
    # Weighted, so that the progress bar moves evenly.
    total, done = sum(_cost(way) for _, _, way in runs), 0
    found: dict[tuple[str, Setup], list[Allocation]] = {(each.name, way): [] for each in scenarios for way in ways}
    for (scenario, _, way), allocation in zip(runs, _allocations(runs, jobs), strict=True):
        found[scenario.name, way].append(allocation)
        done += _cost(way)
        progress(done / total, f"{scenario.name}: {way.name}")
    evaluations = tuple(_evaluate(name, way, allocations) for (name, way), allocations in found.items())
    classes = {each.name: tuple(kind.clients for kind in each.classes) for each in scenarios}
    return EvalReport(seeds, classes, evaluations, converge(CONVERGENCE_INSTANCES))


def _cost(way: Setup) -> int:
    return 1 + way.instances * way.is_shared


def _allocations(runs: Sequence[tuple[Scenario, int, Setup]], jobs: int) -> Iterator[Allocation]:
    """In the order of the runs, whichever is done first."""
    if jobs == 1:
        yield from map(_allocation, runs)
        return
    # Fresh interpreters, as in `chaos`.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_allocation, runs)


def _allocation(run: tuple[Scenario, int, Setup]) -> Allocation:
    scenario, seed, way = run
    return run_once(scenario, _requests(scenario, seed), way, seed)


@lru_cache(maxsize=2)  # runs of one seed follow each other
def _requests(scenario: Scenario, seed: int) -> list[Request]:
    return arrivals(scenario, seed)


def _evaluate(scenario: str, setup: Setup, runs: Sequence[Allocation]) -> ScenarioEvaluation:
    figures = {
        name: Mean(round(statistics.fmean(values), 5), round(statistics.pstdev(values), 5))
        for name in FIGURES
        for values in [[float(getattr(run, name)) for run in runs]]
    }
    return ScenarioEvaluation(scenario, setup, figures, tuple(round(ratio, 4) for ratio in runs[0].ratios))


def converge(instances: int, *, seed: int = 1, settings: ThrottleSettings | None = None) -> Convergence:
    """Every instance records failures for a while; then no instance writes, and all become equal."""
    chosen = settings or ThrottleSettings()
    world = ThrottleWorld(Config(), chosen, seed=seed)
    throttles = [world.add().throttle for _ in range(instances)]
    dice = seeded_random(f"{seed}/blame")
    while world.now < 2 * chosen.poll_s:
        world.advance(world.now + 0.01)
        dice.choice(throttles).report(f"client-{dice.randrange(0, CONVERGENCE_CLIENTS)}", Outcome.FAILURE)
    last, spreads, equal_after_s = world.now, [(0.0, spread(throttles))], None
    while equal_after_s is None and world.now < last + 10 * (chosen.flush_s + chosen.poll_s):
        world.advance(world.now + CONVERGENCE_STEP_S)
        spreads.append((round(world.now - last, 3), spread(throttles)))
        if spreads[-1][1] <= EQUAL:
            equal_after_s = spreads[-1][0]
    return Convergence(instances, chosen.flush_s, chosen.poll_s, tuple(spreads), equal_after_s)
