"""Load scenarios on a limited resource, and how fairly its capacity was divided.

The three scenarios are those of the Go original's evaluator: its capacities, its classes of clients, Poisson arrivals
drawn client by client, and one token bucket as the resource. The random numbers are Python's, so single figures differ
from the original's as one seed differs from another.

Fairness is Jain's index over what each client got, divided by what it was entitled to: its max-min fair share of the
capacity. It is 1 if all got the same share of theirs, and 1/n if one got everything. The raw index is over what each
got.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from argosy.base.clock import seeded_random
from argosy.base.errors import Invalid

NS = 1_000_000_000  # arrivals are cut to whole nanoseconds, as in the original


@dataclass(frozen=True)
class ClientClass:
    """Clients of one kind, each with `rate_per_s` requests while it is active."""

    name: str
    clients: int
    rate_per_s: float
    begins_s: float = 0.0
    ends_s: float = math.inf


@dataclass(frozen=True)
class Scenario:
    """A resource and its clients. `seed` is the original's; further runs use the numbers after it."""

    name: str
    seed: int
    duration_s: float
    capacity_per_s: float  # and the size of the burst
    classes: tuple[ClientClass, ...]

    @property
    def clients(self) -> int:
        return sum(each.clients for each in self.classes)


SCENARIOS = {
    each.name: each
    for each in (
        Scenario("noisy", 1000, 300, 100, (ClientClass("steady", 180, 0.5), ClientClass("aggressive", 20, 10))),
        Scenario("flash", 1001, 120, 300, (ClientClass("shopper", 500, 1),)),
        Scenario("surge", 1002, 360, 120, (ClientClass("interactive", 100, 1), ClientClass("batch", 10, 30, 90, 270))),
    )
}


def scenario(name: str) -> Scenario:
    """The scenario of this name."""
    if name not in SCENARIOS:
        raise Invalid(f"scenario {name!r} not found; available: {', '.join(SCENARIOS)}")
    return SCENARIOS[name]


class Request(NamedTuple):
    """A request. The number is the client's position in the scenario, which orders requests of the same instant."""

    at_s: float
    number: int
    client: str


class RandomSource(Protocol):
    """The source of random numbers of a load."""

    def random(self) -> float: ...


def arrivals(wanted: Scenario, seed: int | RandomSource) -> list[Request]:
    """All requests of a scenario, in order."""
    random, found, number = seeded_random(seed) if isinstance(seed, int) else seed, [], 0
    for kind in wanted.classes:
        end_ns = int(min(kind.ends_s, wanted.duration_s) * NS)
        for place in range(kind.clients):
            name = f"{kind.name}-{place:03d}"
            at_ns = int(kind.begins_s * NS)
            # Exponential gaps are Poisson arrivals. Client by client, as the original draws them.
            while (at_ns := at_ns + int(-math.log(1.0 - random.random()) / kind.rate_per_s * NS)) < end_ns:
                found.append(Request(at_ns / NS, number, name))
            number += 1
    return sorted(found)


class LimitedResource:
    """A token bucket: full at first, filled at a steady rate."""

    def __init__(self, capacity_per_s: float) -> None:
        self._capacity_per_s = self._tokens = capacity_per_s
        self._filled_at_s = 0.0

    def take(self, now_s: float) -> bool:
        added = (now_s - self._filled_at_s) * self._capacity_per_s
        self._tokens = min(self._capacity_per_s, self._tokens + added)
        self._filled_at_s = now_s
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class AdmissionRule(Protocol):
    """Decides on each request to the resource."""

    def admit(self, request: Request) -> bool: ...

    def on_result(self, request: Request, is_served: bool) -> None:
        """Whether the resource had capacity left for an admitted request."""
        ...


class NoThrottle:
    """Admits everything."""

    def admit(self, request: Request) -> bool:
        return True

    def on_result(self, request: Request, is_served: bool) -> None:
        pass


@dataclass(frozen=True)
class Allocation:
    """The result of one run."""

    entitlement_jain: float
    raw_jain: float
    utilisation: float
    mean_ratio: float  # of what clients got to what they were entitled to
    worst_ratio: float
    requests: int
    served: int
    failed: int  # admitted, and the resource had no capacity left
    throttled: int
    ratios: tuple[float, ...]  # of each client, in the order of the scenario


def play(wanted: Scenario, requests: Iterable[Request], admission: AdmissionRule) -> Allocation:
    """Send all requests through an admission rule to the resource."""
    resource = LimitedResource(wanted.capacity_per_s)
    demand, got = [0] * wanted.clients, [0] * wanted.clients
    failed = throttled = 0
    for request in requests:
        demand[request.number] += 1
        if not admission.admit(request):
            throttled += 1
            continue
        is_served = resource.take(request.at_s)
        if is_served:
            got[request.number] += 1
        else:
            failed += 1
        admission.on_result(request, is_served)
    return _summarize(wanted, demand, got, failed=failed, throttled=throttled)


def _summarize(wanted: Scenario, demand: list[int], got: list[int], *, failed: int, throttled: int) -> Allocation:
    # One second more, because the bucket is full at the start.
    capacity = min(wanted.capacity_per_s * (wanted.duration_s + 1), sum(demand))
    shares = fair_shares(dict(enumerate(demand)), capacity)
    # A client without requests got all that it wanted, and is not part of the index.
    ratios = tuple(got[number] / shares[number] if demand[number] else 1.0 for number in range(len(demand)))
    active = [number for number in range(len(demand)) if demand[number]]
    return Allocation(
        entitlement_jain=jain(ratios[number] for number in active),
        raw_jain=jain(got[number] for number in active),
        utilisation=sum(got) / capacity,
        mean_ratio=sum(ratios) / len(ratios),
        worst_ratio=min(ratios),
        requests=sum(demand),
        served=sum(got),
        failed=failed,
        throttled=throttled,
        ratios=ratios,
    )


def jain(values: Iterable[float]) -> float:
    """Jain's index of fairness; 1 if no client got anything."""
    found = list(values)
    squares = sum(value * value for value in found)
    return float(sum(found)) ** 2 / (len(found) * squares) if squares else 1.0


def fair_shares(demand: Mapping[int, int], capacity: float) -> dict[int, float]:
    """The max-min fair share of each client: none gets more than it wants, and the rest is divided again."""
    shares, left = {}, capacity
    for place, (number, wanted) in enumerate(sorted(demand.items(), key=lambda each: each[1])):
        shares[number] = min(float(wanted), left / (len(demand) - place))
        left -= shares[number]
    return shares
