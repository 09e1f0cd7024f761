"""The bench of the throttle: which figures, with which goals."""

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from argosy.base.backends.servers import Valkey
from argosy.base.errors import ArgosyError
from argosy.bench.harness import REPEATS, REPEATS_QUICK, Bench, Figure
from argosy.bench.throttle import decisions, fairness, shared_instances
from argosy.sim.throttle_eval import NONE, Setup
from argosy.sim.throttle_load import SCENARIOS
from argosy.sim.throttle_reference import published
from argosy.throttle import ThrottleSettings

INSTANCES = 16
SLACK_S = 1.0  # what convergence may take beyond one flush and one poll


@dataclass(frozen=True)
class Plan:
    """How much is done in one run."""

    rounds: int  # of a thousand decisions
    tail_s: float  # of one round, long enough for a poll
    tail_rounds: int
    seeds: int
    fleet_s: float  # of virtual time
    fleet_seeds: int


FULL = Plan(rounds=20, tail_s=2.0, tail_rounds=15, seeds=20, fleet_s=300, fleet_seeds=4)
QUICK = Plan(rounds=10, tail_s=1.2, tail_rounds=7, seeds=20, fleet_s=200, fleet_seeds=2)

HEALTHY = Figure("decide.healthy", "ns CPU", "lower")
HEALTHY_RATIO = Figure("decide.healthy.of_token_bucket", "ratio", "lower", goal=1.0)
# A client that is turned away is not reported; one that is let through is, and that is the dearest there is.
CONGESTED = Figure("decide.congested", "ns CPU", "lower")
CONGESTED_RATIO = Figure("decide.congested.of_limits_memory", "ratio", "lower", goal=1.0)
ADMITTED = Figure("decide.congested_admitted", "ns CPU", "lower")
ADMITTED_SHARED = Figure("decide.congested_admitted_shared", "ns CPU", "lower")
ADMITTED_RATIO = Figure("decide.congested_admitted.of_limits_memory", "ratio", "lower", goal=1.0)
WAIT = Figure("decide.wait", "ns", "lower")
WAIT_RATIO = Figure("decide.wait.limits_valkey_over_ours", "ratio", "higher", goal=30.0)
TAIL = Figure("hot_path.p999", "µs", "lower")
TAIL_RATIO = Figure("hot_path.p999.sharing_over_alone", "ratio", "lower", goal=3.0)
CONVERGENCE = Figure("converge.valkey", "s", "lower", goal=0.25 + 1.0 + SLACK_S)
GAP = Figure("fleet.noisy.jain_gap", "", "lower", goal=0.02)
SHARED = Figure("fleet.noisy.jain_shared", "", "higher")
UNSHARED = Figure("fleet.noisy.jain_unshared", "", "lower", goal=0.40)
RESTORE = Figure("restore.valkey_emptied", "s", "lower", goal=0.25 + 1.0 + SLACK_S)
NOISY = Figure("fair.noisy.jain", "", "higher", goal=0.66)
NOISY_MIN = Figure("fair.noisy.jain_min", "", "higher")
NOISY_USE = Figure("fair.noisy.utilisation", "", "higher", goal=0.99)
STRICT = Figure("fair.noisy.strict.jain", "", "higher", goal=0.84)
SURGE = Figure("fair.surge.jain", "", "higher", goal=0.99)
# The evaluation that the original has published, with its dice and its hashes.
PUBLISHED = Figure("fair.noisy.published.jain", "", "higher", goal=0.66)
PUBLISHED_USE = Figure("fair.noisy.published.utilisation", "", "higher", goal=0.99)
PUBLISHED_STRICT = Figure("fair.noisy.published.strict.jain", "", "higher", goal=0.84)

ON_VALKEY = (WAIT, WAIT_RATIO, TAIL, TAIL_RATIO, CONVERGENCE, RESTORE, GAP, SHARED, UNSHARED)


async def throttle(bench: Bench) -> None:
    """What a decision costs, how fair it is, and how well instances share; token-bucket and limits beside it."""
    plan = QUICK if bench.is_quick else FULL
    measure_cpu(bench, plan)
    measure_published(bench)
    measure_fairness(bench, plan)
    if not bench.wants(*[figure.id for figure in ON_VALKEY]):
        return
    try:
        server = Valkey()
    except ArgosyError as error:
        bench.give_up(ON_VALKEY, error)
        return
    with server:
        measure_waiting(bench, plan, server)
        measure_together(bench, plan, server)
        measure_fleet(bench, plan, server)


def repeats(bench: Bench) -> int:
    return REPEATS_QUICK if bench.is_quick else REPEATS


def measure_cpu(bench: Bench, plan: Plan) -> None:
    figures = (HEALTHY, HEALTHY_RATIO, CONGESTED, CONGESTED_RATIO, ADMITTED, ADMITTED_SHARED, ADMITTED_RATIO)
    if not bench.wants(*[figure.id for figure in figures]):
        return
    rounds, found = plan.rounds, _Found()
    for _ in range(repeats(bench)):
        found.add("healthy", decisions.healthy_ns(rounds))
        found.add("token-bucket", decisions.token_bucket_ns(rounds))
        found.add("congested", decisions.turned_away_ns(rounds))
        found.add("admitted", decisions.congested_ns(rounds))
        found.add("admitted, shared", decisions.congested_ns(rounds, is_shared=True))
        found.add("limits fixed", decisions.limits_memory_ns(rounds))
        found.add("limits moving", decisions.limits_memory_ns(rounds, is_moving=True))
    limits = found.only("limits fixed", "limits moving")
    bench.record(HEALTHY, found["healthy"], found.only("token-bucket"))
    bench.record(HEALTHY_RATIO, found.ratios("healthy", "token-bucket"))
    bench.record(CONGESTED, found["congested"], limits)
    bench.record(CONGESTED_RATIO, found.ratios("congested", "limits fixed"))
    bench.record(ADMITTED, found["admitted"], limits)
    bench.record(ADMITTED_SHARED, found["admitted, shared"], limits)
    bench.record(ADMITTED_RATIO, found.ratios("admitted", "limits fixed"))


def measure_waiting(bench: Bench, plan: Plan, server: Valkey) -> None:
    """What a request waits for, in real time: ours never for the server."""
    if not bench.wants(WAIT.id, WAIT_RATIO.id):
        return
    found, clock = _Found(), time.perf_counter_ns
    for _ in range(repeats(bench)):
        found.add("ours", decisions.congested_ns(plan.rounds, is_shared=True, clock=clock))
        found.add("limits on Valkey", decisions.limits_redis_ns(server, max(2, plan.rounds // 5), clock=clock))
    bench.record(WAIT, found["ours"], found.only("limits on Valkey"))
    bench.record(WAIT_RATIO, found.ratios("limits on Valkey", "ours"))


def measure_together(bench: Bench, plan: Plan, server: Valkey) -> None:
    if bench.wants(TAIL.id, TAIL_RATIO.id):
        found, settings = _Found(), _settings(server)
        with shared_instances.noise(settings):
            # Many short rounds: a busy machine spoils some of them, and the median of the rounds is none of those.
            for number in range(plan.tail_rounds):
                ways = {"alone": None, "sharing": settings}
                for name in sorted(ways, reverse=bool(number % 2)):  # neither always comes first
                    found.add(name, shared_instances.tail_us(plan.tail_s, ways[name]))
        bench.record(TAIL, found["sharing"], found.only("alone"))
        bench.record(TAIL_RATIO, found.ratios("sharing", "alone"))
    for figure, seconds in ((CONVERGENCE, shared_instances.convergence_s), (RESTORE, shared_instances.restore_s)):
        if bench.wants(figure.id):
            times = range(repeats(bench))
            try:
                bench.record(figure, [seconds(server, INSTANCES, _settings(server)) for _ in times])
            except ArgosyError as error:
                bench.give_up([figure], error)


def measure_fleet(bench: Bench, plan: Plan, server: Valkey) -> None:
    """Sixteen instances before one resource: sharing through the server, and each for itself; and one alone."""
    if not bench.wants(GAP.id, SHARED.id, UNSHARED.id):
        return
    scenario, seeds = replace(SCENARIOS["noisy"], duration_s=plan.fleet_s), plan.fleet_seeds
    many = Setup("standard", INSTANCES, is_shared=True)
    shared = fairness.jains(fairness.through_server(server, scenario, many, seeds, ThrottleSettings()))
    alone = fairness.jains(fairness.allocations(scenario, Setup("standard", INSTANCES), seeds))
    one = fairness.jains(fairness.allocations(scenario, Setup("standard"), seeds))
    _tell_mean(bench, SHARED, shared, {"one instance": one})
    bench.record(GAP, [abs(fmean(shared) - fmean(one))])
    _tell_mean(bench, UNSHARED, alone, {"one instance": one})
    bench.notes.append(
        f"fleet: {plan.fleet_s:g} s of virtual time, {seeds} seed(s); every exchange goes to the real server"
    )


def measure_published(bench: Bench) -> None:
    """One run, the same for everybody: it shows that our arithmetic is the original's."""
    if not bench.wants(PUBLISHED.id, PUBLISHED_USE.id, PUBLISHED_STRICT.id):
        return
    noisy = SCENARIOS["noisy"]
    without, standard, strict = published(noisy, None), published(noisy), published(noisy, "strict")
    peers = {"no throttle": [without.entitlement_jain]}
    bench.record(PUBLISHED, [standard.entitlement_jain], peers)
    bench.record(PUBLISHED_USE, [standard.utilisation])
    bench.record(PUBLISHED_STRICT, [strict.entitlement_jain], peers)


def measure_fairness(bench: Bench, plan: Plan) -> None:
    """The scenarios on one instance, over seeds."""
    noisy, surge, seeds = SCENARIOS["noisy"], SCENARIOS["surge"], plan.seeds
    if bench.wants(NOISY.id, NOISY_MIN.id, NOISY_USE.id, STRICT.id):
        without = {"no throttle": fairness.jains(fairness.allocations(noisy, Setup(NONE), seeds))}
        runs = fairness.allocations(noisy, Setup("standard"), seeds)
        _tell_mean(bench, NOISY, fairness.jains(runs), without)
        bench.record(NOISY_MIN, [min(fairness.jains(runs))])
        _tell_mean(bench, NOISY_USE, [run.utilisation for run in runs])
        _tell_mean(bench, STRICT, fairness.jains(fairness.allocations(noisy, Setup("strict"), seeds)), without)
    if bench.wants(SURGE.id):
        without = {"no throttle": fairness.jains(fairness.allocations(surge, Setup(NONE), seeds))}
        _tell_mean(bench, SURGE, fairness.jains(fairness.allocations(surge, Setup("standard"), seeds)), without)
    if bench.wants(NOISY.id, NOISY_MIN.id, NOISY_USE.id, STRICT.id, SURGE.id):
        bench.notes.append(
            f"fair: the mean of {seeds} seeds from the original's on, with Python's random numbers and own hashes each"
        )


def _tell_mean(
    bench: Bench, figure: Figure, values: Sequence[float], peers: Mapping[str, Sequence[float]] | None = None
) -> None:
    """The mean over seeds, which is what the goals are about; each seed's value is in the details."""
    means = {name: [fmean(found)] for name, found in (peers or {}).items()}
    bench.record(figure, [fmean(values)], means)
    bench.details[figure.id] = [round(value, 4) for value in values]


class _Found:
    """Values by name, one for each repeat."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = {}

    def add(self, name: str, value: float) -> None:
        self._values.setdefault(name, []).append(value)

    def __getitem__(self, name: str) -> list[float]:
        return self._values[name]

    def only(self, *names: str) -> Mapping[str, list[float]]:
        return {name: self._values[name] for name in names}

    def ratios(self, over: str, under: str) -> list[float]:
        """Within each repeat, so that both had the same machine."""
        return [one / other for one, other in zip(self._values[over], self._values[under], strict=True)]


def _settings(server: Valkey) -> ThrottleSettings:
    return ThrottleSettings(store=server.url, namespace=f"bench-{secrets.token_hex(4)}", call_timeout_s=5.0)
