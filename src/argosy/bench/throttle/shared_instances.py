"""Instances that share through a real Valkey: convergence, the effect on requests, and fairness.

Convergence and latency run with real threads in real time. Fairness takes minutes of load, so it runs in virtual time;
the server is still real, its scripts do the arithmetic, and every exchange crosses the network stack.

    python -m argosy.bench.throttle.shared_instances STORE NAMESPACE CLIENTS

runs instances that keep the shared rows changing. It prints `ready` when it has started, and runs until it is killed.
"""

import itertools
import random
import secrets
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from redis import Redis

from argosy.base.backends.servers import Valkey
from argosy.base.errors import Unavailable
from argosy.sim.checkers.throttle import EQUAL
from argosy.sim.throttle_eval import Setup, run_once, static_preset
from argosy.sim.throttle_load import Allocation, Scenario, arrivals
from argosy.sim.throttle_world import spread
from argosy.throttle import FairThrottle, Outcome, RowStore, ThrottleSettings, ThrottleSync
from argosy.throttle.factory import open_row_store
from argosy.throttle.rows import row_rules

CLIENTS = 60
WRITE_S = 1.5  # how long instances write before the last write
CONVERGENCE_S_MAX = 30.0
POLL_S = 0.02
NOISE_INSTANCES = 3
NOISE_PAUSE_S = 0.005  # between two outcomes: about what the admitted requests of a congested fleet report
CALL_TIMEOUT_S = 10.0  # virtual time does not advance during a call, so a busy machine only slows the run down


# -- convergence ------------------------------------------------------------------------------------------------------


def convergence_s(server: Valkey, instances: int, settings: ThrottleSettings) -> float:
    """Seconds from the last write until all buckets of all instances are equal."""
    with _instances_with_blame(instances, settings) as throttles:
        return _wait_equal_s(throttles, "after the last write")


def restore_s(server: Valkey, instances: int, settings: ThrottleSettings) -> float:
    """Seconds from emptying the server until a new instance has received all state from the server again."""
    with _instances_with_blame(instances, settings) as throttles:
        _wait_equal_s(throttles, "after the last write")
        newcomer = FairThrottle()
        with Redis.from_url(server.url) as client:
            client.flushall()
        started = time.monotonic()
        with ThrottleSync.open(newcomer, replace(settings, cold_start_s=0.0)):
            _wait_equal_s([*throttles, newcomer], "after the server was emptied")
            return time.monotonic() - started


@contextmanager
def _instances_with_blame(instances: int, settings: ThrottleSettings) -> Iterator[list[FairThrottle]]:
    """Sharing instances that have just recorded failures for a while."""
    throttles = [FairThrottle() for _ in range(instances)]
    with ExitStack() as stack:
        for throttle in throttles:
            stack.enter_context(ThrottleSync.open(throttle, settings))
        until = time.monotonic() + WRITE_S
        while time.monotonic() < until:
            random.choice(throttles).report(f"client-{random.randrange(CLIENTS)}", Outcome.FAILURE)
            time.sleep(0.001)
        yield throttles


def _wait_equal_s(throttles: Sequence[FairThrottle], since: str) -> float:
    started = time.monotonic()
    while spread(throttles) > EQUAL:
        if time.monotonic() > started + CONVERGENCE_S_MAX:
            raise Unavailable(f"{len(throttles)} instances are not equal {CONVERGENCE_S_MAX:g} s {since}")
        time.sleep(POLL_S)
    return time.monotonic() - started


# -- latency of a request ---------------------------------------------------------------------------------------------


def tail_us(seconds: float, settings: ThrottleSettings | None) -> float:
    """The 99.9th percentile of a congested decision; with settings, while the throttle shares.

    The tail and not the median: a thread that shares takes the lock for moments, which only a few decisions meet.
    """
    throttle = FairThrottle()
    clients = [f"client-{number}" for number in range(CLIENTS)]
    for client in clients:
        for _ in range(12):
            throttle.report(client, Outcome.FAILURE)
    if settings is None:
        return _percentile_us(throttle, clients, seconds)
    with ThrottleSync.open(throttle, settings):
        return _percentile_us(throttle, clients, seconds)


def _percentile_us(throttle: FairThrottle, clients: list[str], seconds: float) -> float:
    register, report, now, outcome = throttle.register, throttle.report, time.perf_counter_ns, Outcome.SUCCESS
    # An array of integers: a list of objects would make the garbage collector part of the tail.
    found, until = array("q"), now() + int(seconds * 1e9)
    started = now()
    while started < until:
        for client in clients:
            started = now()
            register(client)
            report(client, outcome)
            found.append(now() - started)
    ordered = sorted(found)
    return ordered[int(len(ordered) * 0.999)] / 1000


@contextmanager
def run_noise(settings: ThrottleSettings) -> Iterator[None]:
    """Other instances that keep the shared rows changing, in a process of their own: in this one they would compete
    for the interpreter lock with the decisions that are measured."""
    assert settings.store is not None
    command = [sys.executable, "-m", __name__, settings.store, settings.namespace, str(CLIENTS)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            raise Unavailable("the process that keeps the rows changing did not start")
        yield
    finally:
        process.kill()
        process.communicate()


def main(store: str, namespace: str, clients: int) -> None:
    settings = ThrottleSettings(store=store, namespace=namespace)
    throttles = [FairThrottle() for _ in range(NOISE_INSTANCES)]
    with ExitStack() as stack:
        for throttle in throttles:
            stack.enter_context(ThrottleSync.open(throttle, settings))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        for number in itertools.count():
            throttles[number % NOISE_INSTANCES].report(f"client-{number % clients}", Outcome.FAILURE)
            time.sleep(NOISE_PAUSE_S)


# -- fairness ---------------------------------------------------------------------------------------------------------


def allocations(scenario: Scenario, setup: Setup, seeds: int) -> list[Allocation]:
    """One run for each seed, from the scenario's own seed on."""
    numbers = range(scenario.seed, scenario.seed + seeds)
    return [run_once(scenario, arrivals(scenario, seed), setup, seed) for seed in numbers]


def jain_indices(runs: Sequence[Allocation]) -> list[float]:
    return [run.entitlement_jain for run in runs]


def allocations_through_server(
    server: Valkey, scenario: Scenario, setup: Setup, seeds: int, settings: ThrottleSettings
) -> list[Allocation]:
    """The same, with instances that share through the server."""
    numbers = range(scenario.seed, scenario.seed + seeds)
    return [_allocation_through_server(server, scenario, setup, seed, settings) for seed in numbers]


def _allocation_through_server(
    server: Valkey, scenario: Scenario, setup: Setup, seed: int, settings: ThrottleSettings
) -> Allocation:
    config = static_preset(setup.preset)
    stores: list[RowStore] = []
    of_run = ThrottleSettings(namespace=f"bench-{secrets.token_hex(4)}", call_timeout_s=CALL_TIMEOUT_S)

    def rows_of(instance: str) -> RowStore:
        stores.append(open_row_store(server.url, row_rules(config), instance=instance, settings=of_run))
        return stores[-1]

    try:
        return run_once(scenario, arrivals(scenario, seed), setup, seed, settings=settings, rows_of=rows_of)
    finally:
        for rows in stores:
            rows.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
