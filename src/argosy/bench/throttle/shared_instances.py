"""Real threads on a real server: how soon all instances are equal, and what a request feels of the sharing."""

import random
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
from argosy.sim.throttle_checkers import EQUAL
from argosy.sim.throttle_world import spread
from argosy.throttle import FairThrottle, Outcome, ThrottleSettings, ThrottleSync

CLIENTS = 60
BLAMED_S = 1.5  # how long instances write before the last write
CONVERGED_S_MAX = 30.0
LOOK_S = 0.02


def convergence_s(server: Valkey, instances: int, settings: ThrottleSettings) -> float:
    """Seconds from the last write until all buckets of all instances are equal."""
    with _blamed(instances, settings) as throttles:
        return _equal_after_s(throttles, "after the last write")


def restore_s(server: Valkey, instances: int, settings: ThrottleSettings) -> float:
    """Seconds from the server's forgetting everything until a newcomer has learnt all of it from the server again."""
    with _blamed(instances, settings) as throttles:
        _equal_after_s(throttles, "after the last write")
        newcomer = FairThrottle()
        with Redis.from_url(server.url) as client:
            client.flushall()
        started = time.monotonic()
        with ThrottleSync.open(newcomer, replace(settings, cold_start_s=0.0)):
            _equal_after_s([*throttles, newcomer], "after the server has forgotten everything")
            return time.monotonic() - started


@contextmanager
def _blamed(instances: int, settings: ThrottleSettings) -> Iterator[list[FairThrottle]]:
    """Instances that share, and have just written for a while."""
    throttles = [FairThrottle() for _ in range(instances)]
    with ExitStack() as stack:
        for throttle in throttles:
            stack.enter_context(ThrottleSync.open(throttle, settings))
        until = time.monotonic() + BLAMED_S
        while time.monotonic() < until:
            random.choice(throttles).report(f"client-{random.randrange(CLIENTS)}", Outcome.FAILURE)
            time.sleep(0.001)
        yield throttles


def _equal_after_s(throttles: Sequence[FairThrottle], since: str) -> float:
    started = time.monotonic()
    while spread(throttles) > EQUAL:
        if time.monotonic() > started + CONVERGED_S_MAX:
            raise Unavailable(f"{len(throttles)} instances are not equal {CONVERGED_S_MAX:g} s {since}")
        time.sleep(LOOK_S)
    return time.monotonic() - started


def tail_us(seconds: float, settings: ThrottleSettings | None) -> float:
    """The 99.9th percentile of a congested decision; with settings, while the throttle shares."""
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
def noise(settings: ThrottleSettings) -> Iterator[None]:
    """Other instances, in a process of their own, which keep the shared rows changing."""
    assert settings.store is not None
    command = [sys.executable, "-m", "argosy.bench.throttle.noise", settings.store, settings.namespace, str(CLIENTS)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            raise Unavailable("the process that keeps the rows changing did not start")
        yield
    finally:
        process.kill()
        process.communicate()
