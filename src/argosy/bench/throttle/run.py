"""The throttle benchmark: its figures and goals, and what is measured in which order."""

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from argosy.base.backends.servers import Valkey
from argosy.base.errors import ArgosyError
from argosy.bench.harness import Bench, Figure
from argosy.bench.throttle import decisions, shared_instances
from argosy.bench.throttle.shared_instances import allocations, allocations_through_server, jain_indices
from argosy.sim.throttle_eval import NONE, Setup
from argosy.sim.throttle_load import SCENARIOS
from argosy.sim.throttle_reference import original_allocation
from argosy.throttle import ThrottleSettings

INSTANCES = 16
FLUSH_AND_POLL_S = 0.25 + 1.0  # of the default settings: a state travels in one flush and one poll
SLACK_S = 1.0  # what convergence may take beyond that


@dataclass(frozen=True)
class ThrottleSizes:
    """How much is measured."""

    rounds: int  # of a thousand decisions
    tail_s: float  # of one round, long enough for a poll
    tail_rounds: int
    seeds: int
    fleet_s: float  # of virtual time
    fleet_seeds: int


FULL = ThrottleSizes(rounds=20, tail_s=2.0, tail_rounds=15, seeds=20, fleet_s=300, fleet_seeds=4)
QUICK = ThrottleSizes(rounds=10, tail_s=1.2, tail_rounds=7, seeds=20, fleet_s=200, fleet_seeds=2)

HEALTHY = Figure("decide.healthy", "ns CPU", "lower")
HEALTHY_RATIO = Figure("decide.healthy.of_token_bucket", "ratio", "lower", goal=1.0)
# A throttled request is not reported; an admitted one is, and that is the most expensive path.
CONGESTED = Figure("decide.congested", "ns CPU", "lower")
CONGESTED_RATIO = Figure("decide.congested.of_limits_memory", "ratio", "lower", goal=1.0)
ADMITTED = Figure("decide.congested_admitted", "ns CPU", "lower")
ADMITTED_SHARED = Figure("decide.congested_admitted_shared", "ns CPU", "lower")
ADMITTED_RATIO = Figure("decide.congested_admitted.of_limits_memory", "ratio", "lower", goal=1.0)
WAIT = Figure("decide.wait", "ns", "lower")
WAIT_RATIO = Figure("decide.wait.limits_valkey_over_ours", "ratio", "higher", goal=30.0)
TAIL = Figure("hot_path.p999", "µs", "lower")
TAIL_RATIO = Figure("hot_path.p999.sharing_over_alone", "ratio", "lower", goal=3.0)
CONVERGENCE = Figure("converge.valkey", "s", "lower", goal=FLUSH_AND_POLL_S + SLACK_S)
GAP = Figure("fleet.noisy.jain_gap", "", "lower", goal=0.02)
SHARED = Figure("fleet.noisy.jain_shared", "", "higher")
UNSHARED = Figure("fleet.noisy.jain_unshared", "", "lower", goal=0.40)
RESTORE = Figure("restore.valkey_emptied", "s", "lower", goal=FLUSH_AND_POLL_S + SLACK_S)
NOISY = Figure("fair.noisy.jain", "", "higher", goal=0.66)
NOISY_MIN = Figure("fair.noisy.jain_min", "", "higher")
NOISY_USE = Figure("fair.noisy.utilisation", "", "higher", goal=0.99)
STRICT = Figure("fair.noisy.strict.jain", "", "higher", goal=0.84)
SURGE = Figure("fair.surge.jain", "", "higher", goal=0.99)
# The evaluation that the Go original has original_allocation, with its random numbers and its hashes.
PUBLISHED = Figure("fair.noisy.published.jain", "", "higher", goal=0.66)
PUBLISHED_USE = Figure("fair.noisy.published.utilisation", "", "higher", goal=0.99)
PUBLISHED_STRICT = Figure("fair.noisy.published.strict.jain", "", "higher", goal=0.84)

ON_VALKEY = (WAIT, WAIT_RATIO, TAIL, TAIL_RATIO, CONVERGENCE, RESTORE, GAP, SHARED, UNSHARED)


async def throttle(bench: Bench) -> None:
    """Cost and fairness of a decision, and state sharing; token-bucket and limits as peers."""
    sizes = QUICK if bench.is_quick else FULL
    peers = bench.load_peers()
    measure_cpu(bench, sizes, peers)
    measure_published(bench)
    measure_fairness(bench, sizes)
    if not bench.wants_any(ON_VALKEY):
        return
    try:
        server = Valkey()
    except ArgosyError as error:
        bench.record_error(ON_VALKEY, error)
        return
    with server:
        measure_wait(bench, sizes, server, peers)
        measure_sharing(bench, sizes, server)
        # In a thread: the row store runs an event loop of its own for each exchange, which this loop would not allow.
        await asyncio.to_thread(measure_fleet, bench, sizes, server)


def measure_cpu(bench: Bench, sizes: ThrottleSizes, peers: Any | None) -> None:
    ratios = (HEALTHY_RATIO, CONGESTED_RATIO, ADMITTED_RATIO)
    if not bench.wants_any((HEALTHY, CONGESTED, ADMITTED, ADMITTED_SHARED, *ratios)):
        return
    samples = Samples()
    own: dict[str, Callable[[int], float]] = {
        "healthy": decisions.healthy_ns,
        "congested": decisions.congested_ns,
        "admitted": decisions.admitted_ns,
        "admitted, shared": lambda rounds: decisions.admitted_ns(rounds, is_shared=True),
    }
    # Argosy and the peers in one loop, so that their values of a repeat are from the same second.
    runs = {**own, **({} if peers is None else peers.CPU_RUNS)}
    for _ in range(bench.repeats):
        for name, run in runs.items():
            samples.add(name, run(sizes.rounds))
    limits = samples.only("limits fixed", "limits moving")
    bench.record(HEALTHY, samples["healthy"], samples.only("token-bucket"))
    bench.record(CONGESTED, samples["congested"], limits)
    bench.record(ADMITTED, samples["admitted"], limits)
    bench.record(ADMITTED_SHARED, samples["admitted, shared"], limits)
    if peers is not None:
        bench.record(HEALTHY_RATIO, samples.ratios("healthy", "token-bucket"))
        bench.record(CONGESTED_RATIO, samples.ratios("congested", "limits fixed"))
        bench.record(ADMITTED_RATIO, samples.ratios("admitted", "limits fixed"))


def measure_wait(bench: Bench, sizes: ThrottleSizes, server: Valkey, peers: Any | None) -> None:
    """What a request waits for, in real time: with Argosy never for the server (THR-2)."""
    if not bench.wants(WAIT.id, WAIT_RATIO.id):
        return
    samples, clock = Samples(), time.perf_counter_ns
    for _ in range(bench.repeats):
        samples.add("argosy", decisions.admitted_ns(sizes.rounds, is_shared=True, clock=clock))
        if peers is not None:
            samples.add("limits on Valkey", peers.limits_redis_ns(server, max(2, sizes.rounds // 5), clock))
    bench.record(WAIT, samples["argosy"], samples.only("limits on Valkey"))
    if peers is not None:
        bench.record(WAIT_RATIO, samples.ratios("limits on Valkey", "argosy"))


def measure_sharing(bench: Bench, sizes: ThrottleSizes, server: Valkey) -> None:
    if bench.wants(TAIL.id, TAIL_RATIO.id):
        samples, settings = Samples(), _settings(server)
        with shared_instances.run_noise(settings):
            # Many short rounds: other load spoils some of them, and the median of the rounds is none of those.
            for number in range(sizes.tail_rounds):
                ways = {"alone": None, "sharing": settings}
                for name in sorted(ways, reverse=bool(number % 2)):  # neither is always first
                    samples.add(name, shared_instances.tail_us(sizes.tail_s, ways[name]))
        bench.record(TAIL, samples["sharing"], samples.only("alone"))
        bench.record(TAIL_RATIO, samples.ratios("sharing", "alone"))
    for figure, seconds in ((CONVERGENCE, shared_instances.convergence_s), (RESTORE, shared_instances.restore_s)):
        if bench.wants(figure.id):
            try:
                values = [seconds(server, INSTANCES, _settings(server)) for _ in range(bench.repeats)]
                bench.record(figure, values)
            except ArgosyError as error:
                bench.record_error([figure], error)


def measure_fleet(bench: Bench, sizes: ThrottleSizes, server: Valkey) -> None:
    """Sixteen instances in front of one resource: sharing through the server, each alone, and a single one."""
    if not bench.wants(GAP.id, SHARED.id, UNSHARED.id):
        return
    scenario, seeds = replace(SCENARIOS["noisy"], duration_s=sizes.fleet_s), sizes.fleet_seeds
    many = Setup("standard", INSTANCES, is_shared=True)
    shared = jain_indices(allocations_through_server(server, scenario, many, seeds, ThrottleSettings()))
    alone = jain_indices(allocations(scenario, Setup("standard", INSTANCES), seeds))
    one = jain_indices(allocations(scenario, Setup("standard"), seeds))
    _record_mean(bench, SHARED, shared, {"one instance": one})
    bench.record(GAP, [abs(fmean(shared) - fmean(one))])
    _record_mean(bench, UNSHARED, alone, {"one instance": one})
    bench.notes.append(
        f"fleet: {sizes.fleet_s:g} s of virtual time, {seeds} seed(s); every exchange goes to the real server"
    )


def measure_published(bench: Bench) -> None:
    """One deterministic run, the same on every machine: it shows that the arithmetic is that of the original."""
    if not bench.wants(PUBLISHED.id, PUBLISHED_USE.id, PUBLISHED_STRICT.id):
        return
    noisy = SCENARIOS["noisy"]
    without, standard, strict = (
        original_allocation(noisy, None),
        original_allocation(noisy),
        original_allocation(noisy, "strict"),
    )
    peers = {"no throttle": [without.entitlement_jain]}
    bench.record(PUBLISHED, [standard.entitlement_jain], peers)
    bench.record(PUBLISHED_USE, [standard.utilisation])
    bench.record(PUBLISHED_STRICT, [strict.entitlement_jain], peers)


def measure_fairness(bench: Bench, sizes: ThrottleSizes) -> None:
    """The scenarios on one instance, over seeds: with one seed, which clients collide would be a matter of luck."""
    noisy, surge, seeds = SCENARIOS["noisy"], SCENARIOS["surge"], sizes.seeds
    if bench.wants(NOISY.id, NOISY_MIN.id, NOISY_USE.id, STRICT.id):
        without = {"no throttle": jain_indices(allocations(noisy, Setup(NONE), seeds))}
        runs = allocations(noisy, Setup("standard"), seeds)
        _record_mean(bench, NOISY, jain_indices(runs), without)
        bench.record(NOISY_MIN, [min(jain_indices(runs))])
        _record_mean(bench, NOISY_USE, [run.utilisation for run in runs])
        _record_mean(
            bench,
            STRICT,
            jain_indices(allocations(noisy, Setup("strict"), seeds)),
            without,
        )
    if bench.wants(SURGE.id):
        without = {"no throttle": jain_indices(allocations(surge, Setup(NONE), seeds))}
        _record_mean(
            bench,
            SURGE,
            jain_indices(allocations(surge, Setup("standard"), seeds)),
            without,
        )
    if bench.wants(NOISY.id, NOISY_MIN.id, NOISY_USE.id, STRICT.id, SURGE.id):
        bench.notes.append(
            f"fair: the mean of {seeds} seeds from the original's on, each with random numbers and hashes of its own"
        )


def _record_mean(
    bench: Bench, figure: Figure, values: Sequence[float], peers: Mapping[str, Sequence[float]] | None = None
) -> None:
    """The mean over seeds, to which the goals apply; the value of each seed is in the details."""
    means = {name: [fmean(found)] for name, found in (peers or {}).items()}
    bench.record(figure, [fmean(values)], means)
    bench.details[figure.id] = [round(value, 4) for value in values]


class Samples:
    """Values by name, one for each repeat."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = {}

    def add(self, name: str, value: float) -> None:
        self._values.setdefault(name, []).append(value)

    def __getitem__(self, name: str) -> list[float]:
        return self._values[name]

    def only(self, *names: str) -> Mapping[str, list[float]]:
        """Those that were measured: without peers there are none of theirs."""
        return {name: self._values[name] for name in names if name in self._values}

    def ratios(self, over: str, under: str) -> list[float]:
        """Within each repeat, where both had the same machine."""
        return [one / other for one, other in zip(self._values[over], self._values[under], strict=True)]


def _settings(server: Valkey) -> ThrottleSettings:
    return ThrottleSettings(store=server.url, namespace=f"bench-{secrets.token_hex(4)}", call_timeout_s=5.0)
