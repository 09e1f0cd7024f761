"""The evaluator's scenarios: who wants how much of a resource that has how much, and how fairly it was shared out.

Poisson arrivals from seeded randomness, one token bucket as the resource. The figure is Jain's index over each client's
successes divided by what it was entitled to: its max-min fair share of the capacity.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import NamedTuple

from argosy.throttle.model import Outcome


@dataclass(frozen=True)
class Class:
    """Clients of one kind."""

    name: str
    clients: int
    rate: float                     # requests per second of each
    begins_s: float = 0.0
    ends_s: float = math.inf


@dataclass(frozen=True)
class Scenario:
    """A resource and those who want it."""

    duration_s: float
    capacity: float                 # per second, and as much at once
    classes: tuple[Class, ...]


NOISY = Scenario(300, 100, (Class("steady", 180, 0.5), Class("aggressive", 20, 10)))
FLASH = Scenario(120, 300, (Class("shopper", 500, 1),))
SURGE = Scenario(360, 120, (Class("interactive", 100, 1), Class("batch", 10, 30, 90, 270)))


class Request(NamedTuple):
    """Somebody wants something."""

    at: float
    client: str


class Figures(NamedTuple):
    """How a run went."""

    jain: float
    utilisation: float
    worst: float                    # of all clients, the least part of its entitlement that one got
    failures: int


@cache
def arrivals(scenario: Scenario, seed: int) -> tuple[Request, ...]:
    """All requests of a scenario, in order."""
    random, found = Random(seed), []
    for kind in scenario.classes:
        for number in range(kind.clients):
            at, end = kind.begins_s, min(kind.ends_s, scenario.duration_s)
            while (at := at - math.log(1.0 - random.random()) / kind.rate) < end:
                found.append(Request(at, f"{kind.name}-{number:03d}"))
    return tuple(sorted(found))


def run(
    scenario: Scenario,
    seed: int,
    register: Callable[[Request], bool],
    report: Callable[[Request, Outcome], None],
) -> Figures:
    """Plays a scenario. `register` says whether a request is throttled; throttled ones do not reach the resource."""
    requests = arrivals(scenario, seed)
    demand: dict[str, int] = {}
    got: dict[str, int] = {}
    tokens, filled_at, failures = scenario.capacity, 0.0, 0
    for request in requests:
        demand[request.client] = demand.get(request.client, 0) + 1
        if register(request):
            continue
        tokens = min(scenario.capacity, tokens + (request.at - filled_at) * scenario.capacity)
        filled_at = request.at
        if tokens >= 1:
            tokens -= 1
            got[request.client] = got.get(request.client, 0) + 1
            report(request, Outcome.SUCCESS)
        else:
            failures += 1
            report(request, Outcome.FAILURE)
    capacity = min(scenario.capacity * (scenario.duration_s + 1), len(requests))
    share = fair_shares(demand, capacity)
    ratios = [got.get(client, 0) / share[client] for client in demand]
    jain = sum(ratios) ** 2 / (len(ratios) * sum(ratio * ratio for ratio in ratios))
    return Figures(jain, sum(got.values()) / capacity, min(ratios), failures)


def fair_shares(demand: dict[str, int], capacity: float) -> dict[str, float]:
    """The max-min fair share of each: nobody gets more than he wants, and what is left is shared out again."""
    shares, left = {}, capacity
    for position, (client, wanted) in enumerate(sorted(demand.items(), key=lambda each: each[1])):
        shares[client] = min(float(wanted), left / (len(demand) - position))
        left -= shares[client]
    return shares
