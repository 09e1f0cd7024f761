"""`argosy sim throttle`: a hundred throttles in front of one resource, with clocks that disagree, partitions, outages
and a store that loses its data.

Everything about a world follows from its seed, so a violation is reported with the command that replays it. Some seeds
are run twice and must leave the same trace both times.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from multiprocessing import get_context

from argosy.base.clock import Random, seeded_random
from argosy.base.errors import Invalid
from argosy.sim.chaos import REPEAT_EVERY, SEEDS_MAX, ChaosReport, SeedViolations
from argosy.sim.checkers.throttle import ThrottleChecker
from argosy.sim.throttle_load import LimitedResource
from argosy.sim.throttle_world import Instance, ThrottleWorld, buckets
from argosy.sim.trace import Violation, ViolationLog
from argosy.throttle.model import Config, Outcome
from argosy.throttle.settings import ThrottleSettings

INSTANCES = 100
INSTANCES_MAX = 10_000
HORIZON_S = 20.0  # all faults are over by then, and so is the load
# All must settle within this time after the faults. The longest pause of an instance is that between two probes of an
# unreachable store, 5 s.
SETTLE_S_MAX = 30.0
FAULTS_MAX = 6
SKEW_S_MAX = 30.0  # of a clock at the start
STEP_S_MAX = 4.0  # of a clock that is set while it runs
# All buckets of all instances are checked, which is too much work after every request.
CHECK_EVERY_S = 2.0
CAPACITY_PER_S = 40.0
QUIET, NOISY = 20, 4  # clients
QUIET_PER_S, NOISY_PER_S = 1.0, 25.0
WINDOWS_S = (10.0, 60.0, 300.0)  # the shortest rotates several times in a run
DECAYS_PER_S = (0.0, 0.01, 0.1)

Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class ThrottleSeedResult:
    """The result of one seed."""

    seed: int
    violations: tuple[Violation, ...]
    fingerprint: str
    settled_after_s: float | None


@dataclass(frozen=True)
class ThrottleFault:
    """A fault and its span."""

    kind: str  # down, no_replies, cut, slow, lose_data, step
    begins_s: float
    ends_s: float


def draw_faults(random: Random) -> list[ThrottleFault]:
    # Drawn as often as they are listed.
    kinds = ("down", "no_replies", "cut", "cut", "slow", "lose_data", "step", "step")
    found = []
    for _ in range(random.randrange(0, FAULTS_MAX + 1)):
        begins_s = random.uniform(1.0, HORIZON_S - 1.0)
        found.append(
            ThrottleFault(random.choice(kinds), begins_s, min(HORIZON_S, begins_s + random.uniform(0.2, 12.0)))
        )
    return sorted(found, key=lambda fault: fault.begins_s)


class ThrottleChaos:
    """One seed's world, its load and its faults."""

    def __init__(self, seed: int, instances: int) -> None:
        self._random = seeded_random(f"{seed}/chaos")
        config = Config(
            buckets=self._random.choice((16, 200)),
            window_s=self._random.choice(WINDOWS_S),
            decay_per_s=self._random.choice(DECAYS_PER_S),
        )
        self.world = ThrottleWorld(config, ThrottleSettings(flush_s=0.5, poll_s=1.0), seed=seed)
        self.violations = ViolationLog(lambda: self.world.now)
        self.checker = ThrottleChecker(self.violations, self.world)
        for _ in range(instances):
            self.world.add(skew_s=self._random.choice((0.0, self._random.uniform(-SKEW_S_MAX, SKEW_S_MAX))))
        self._faults = draw_faults(self._random)
        for fault in self._faults:
            self._schedule(fault)
        self._digest = blake2b(digest_size=16)

    @property
    def fingerprint(self) -> str:
        """Of every decision, and of the final value of every bucket: equal runs have equal fingerprints."""
        return self._digest.hexdigest()

    def run(self) -> float | None:
        """Run everything; returns how long it took to settle, or None if it did not."""
        self._load()
        self._heal()
        settled_after_s = self._settle()
        self.checker.check_buckets()
        # Sorted, because the order of a dict depends on the order in which rows arrived.
        for instance in self.world.instances:
            for place, (probability, at_ms) in sorted(buckets(instance.throttle).items()):
                self._digest.update(struct.pack("<QIIdQ", *place, probability, at_ms))
        return settled_after_s

    # -- load -------------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        world, random, resource = self.world, self._random, LimitedResource(CAPACITY_PER_S)
        clients = [f"quiet-{n}" for n in range(QUIET)], [f"noisy-{n}" for n in range(NOISY)]
        per_s = QUIET * QUIET_PER_S + NOISY * NOISY_PER_S
        noisy_part, check_at = NOISY * NOISY_PER_S / per_s, CHECK_EVERY_S
        while world.now < HORIZON_S:
            world.advance(world.now + random.uniform(0.0, 2.0 / per_s))
            client = random.choice(clients[random.random() < noisy_part])
            self._request(random.choice(world.instances), client, resource)
            if world.now >= check_at:
                self.checker.check_buckets()
                check_at += CHECK_EVERY_S

    def _request(self, instance: Instance, client: str, resource: LimitedResource) -> None:
        with self.checker.request(instance):
            decision = instance.throttle.register(client)
            if not decision.throttled:
                is_served = resource.take(self.world.now)
                instance.throttle.report(client, Outcome.SUCCESS if is_served else Outcome.FAILURE)
        self.checker.on_decision(instance, decision)
        self._digest.update(struct.pack("<?d", decision.throttled, decision.probability))

    # -- faults -----------------------------------------------------------------------------------------------------

    def _schedule(self, fault: ThrottleFault) -> None:
        world, random = self.world, self._random
        if fault.kind == "cut":
            chosen = [each for each in world.instances if random.random() < 0.3]
            world.schedule(fault.begins_s, lambda: _cut(chosen, True))
            world.schedule(fault.ends_s, lambda: _cut(chosen, False))
        elif fault.kind == "step":
            stepped, step_s = random.choice(world.instances), random.uniform(-STEP_S_MAX, STEP_S_MAX)
            world.schedule(fault.begins_s, lambda: _step(stepped, step_s))
        elif fault.kind == "lose_data":
            world.schedule(fault.begins_s, world.store.forget)
        else:
            world.schedule(fault.begins_s, partial(self._set, fault.kind, True))
            world.schedule(fault.ends_s, partial(self._set, fault.kind, False))

    def _set(self, kind: str, is_on: bool) -> None:
        if kind == "down":
            self.world.is_store_down = is_on
        elif kind == "no_replies":
            self.world.loses_replies = is_on
        else:
            self.world.delay_s = (0.1, 0.4) if is_on else (0.001, 0.01)

    def _heal(self) -> None:
        self.world.advance(HORIZON_S)
        for kind in ("down", "no_replies", "slow"):
            self._set(kind, False)
        _cut(self.world.instances, False)

    def _settle(self) -> float | None:
        while not self.checker.has_settled():
            if self.world.now > HORIZON_S + SETTLE_S_MAX:
                self.violations.add(
                    "THR-1", f"{SETTLE_S_MAX:g} s after the last fault some instances have not pulled all writes"
                )
                return None
            self.world.advance(self.world.now + 0.1)
        had_outage = any(fault.kind in ("down", "no_replies", "cut", "lose_data") for fault in self._faults)
        self.checker.check_converged(had_outage=had_outage)
        return self.world.now - HORIZON_S


def _cut(instances: Sequence[Instance], is_cut_off: bool) -> None:
    for instance in instances:
        instance.is_cut_off = is_cut_off


def _step(instance: Instance, step_s: float) -> None:
    instance.clock.skew_s += step_s


# -- many seeds -------------------------------------------------------------------------------------------------------


def run_seed(seed: int, instances: int = INSTANCES) -> ThrottleSeedResult:
    chaos = ThrottleChaos(seed, instances)
    settled_after_s = chaos.run()
    return ThrottleSeedResult(seed, tuple(chaos.violations.entries), chaos.fingerprint, settled_after_s)


def judge_seed(seed: int, instances: int = INSTANCES) -> ThrottleSeedResult:
    """Run a seed, some seeds twice. An exception is a violation too, so that the other seeds are still run."""
    try:
        result = run_seed(seed, instances)
        if seed % REPEAT_EVERY == 0 and run_seed(seed, instances).fingerprint != result.fingerprint:
            differs = Violation("SAME", 0.0, "two runs of this seed left different traces")
            return ThrottleSeedResult(seed, (*result.violations, differs), result.fingerprint, result.settled_after_s)
        return result
    except Exception as bug:
        return ThrottleSeedResult(seed, (Violation("BUG", 0.0, f"{type(bug).__name__}: {bug}"),), "", None)


def run_throttle_chaos(
    first_seed: int,
    seeds: int,
    *,
    instances: int = INSTANCES,
    jobs: int = 1,
    progress: Progress = lambda part, text: None,
) -> ChaosReport:
    """Run seeds in `jobs` processes."""
    if not 1 <= seeds <= SEEDS_MAX or jobs < 1 or not 1 <= instances <= INSTANCES_MAX:
        raise Invalid(
            f"throttle chaos needs 1 to {SEEDS_MAX} seeds, 1 to {INSTANCES_MAX} instances and at least one job; got "
            f"{seeds}, {instances} and {jobs}"
        )
    found: list[ThrottleSeedResult] = []
    for result in _seed_results(range(first_seed, first_seed + seeds), instances, jobs):
        found.append(result)
        broken = sum(1 for each in found if each.violations)
        progress(len(found) / seeds, f"{len(found)} of {seeds} worlds, {broken} with violations")
    return _report(first_seed, instances, found)


def _seed_results(seeds: range, instances: int, jobs: int) -> Iterator[ThrottleSeedResult]:
    """In the order of the seeds, whichever is done first."""
    judge = partial(judge_seed, instances=instances)
    if jobs == 1:
        yield from map(judge, seeds)
        return
    # Fresh interpreters, as in `chaos`.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(judge, seeds)


def _report(first_seed: int, instances: int, found: Sequence[ThrottleSeedResult]) -> ChaosReport:
    settled = [each.settled_after_s for each in found if each.settled_after_s is not None]
    replay = "argosy sim throttle --instances {} --first-seed {} --seeds 1"
    return ChaosReport(
        first_seed=first_seed,
        seeds=len(found),
        repeated=sum(each.seed % REPEAT_EVERY == 0 for each in found),
        violations=tuple(
            SeedViolations(each.seed, tuple(map(str, each.violations)), replay.format(instances, each.seed))
            for each in found
            if each.violations
        ),
        slowest_settling_s=max(settled, default=None),
        fingerprint=blake2b(" ".join(each.fingerprint for each in found).encode(), digest_size=16).hexdigest(),
    )
