"""A small world in virtual time: instances that share their state through one store, with delays, skew and outages."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from argosy.base.clock import seeded_random
from argosy.base.errors import Unavailable
from argosy.throttle.backends.memory import MemoryStore
from argosy.throttle.blue import decay
from argosy.throttle.client import Storage
from argosy.throttle.exchange import Exchange, Failed, Replied
from argosy.throttle.model import Config
from argosy.throttle.ports import Cell, Order, Reply, Rows
from argosy.throttle.rows import rules_of
from argosy.throttle.service import FairThrottle
from argosy.throttle.settings import ThrottleSettings
from argosy.throttle.worker import Member

EPOCH_S = 1_700_000_100.0           # a multiple of 300 s, so that default windows begin with the world


class WorldClock:
    """The world's time, as one instance sees it."""

    def __init__(self, world: "World", skew_s: float = 0.0) -> None:
        self._world = world
        self.skew_s = skew_s

    def now(self) -> float:
        return self._world.now

    def wall(self) -> float:
        return EPOCH_S + self._world.now + self.skew_s

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody sleeps in this world")


@dataclass
class Instance:
    """One process of the fleet."""

    name: str
    throttle: FairThrottle
    storage: Storage
    member: Member
    rows: Rows
    clock: WorldClock
    is_cut_off: bool = False
    events: list[Replied | Failed] = field(default_factory=list)


@dataclass
class World:
    """Runs orders through the store: each takes `delay_s` there and `delay_s` back."""

    config: Config = field(default_factory=Config)
    settings: ThrottleSettings = field(default_factory=lambda: ThrottleSettings(flush_s=1.0, poll_s=1.0))
    delay_s: float = 0.01
    seed: int = 1
    now: float = 0.0
    is_store_away: bool = False
    loses_replies: bool = False         # what was ordered has happened, but nobody is told

    def __post_init__(self) -> None:
        self.store = MemoryStore(WorldClock(self))
        self.instances: list[Instance] = []
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._entries = 0

    def alone(self) -> FairThrottle:
        """A throttle that shares nothing, with the dice of the first instance."""
        return FairThrottle(self.config, clock=WorldClock(self), random=seeded_random(f"{self.seed}/i0"))

    def add(self, *, skew_s: float = 0.0, settings: ThrottleSettings | None = None) -> Instance:
        name = f"i{len(self.instances)}"
        clock = WorldClock(self, skew_s)
        throttle = FairThrottle(self.config, clock=clock, random=seeded_random(f"{self.seed}/{name}"))
        chosen, dice = settings or self.settings, seeded_random(f"{self.seed}/{name}/sync")
        storage = Storage(Exchange(self.config, chosen, dice, instance=name))
        member = Member(throttle, storage, chosen, random=dice)
        rows = self.store.client(rules_of(self.config), instance=name)
        instance = Instance(name, throttle, storage, member, rows, clock)
        self.instances.append(instance)
        self._plan(self.now, lambda: self._turn(instance))
        return instance

    def advance(self, to: float) -> None:
        """Lets everything happen that is due until then."""
        while self._agenda and self._agenda[0][0] <= to:
            self.now, _, happen = heapq.heappop(self._agenda)
            happen()
        self.now = max(self.now, to)

    def _plan(self, at: float, happen: Callable[[], None]) -> None:
        self._entries += 1
        heapq.heappush(self._agenda, (max(at, self.now), self._entries, happen))

    def _turn(self, instance: Instance, event: Replied | Failed | None = None) -> None:
        orders = instance.member.handle(event, self.now)
        if event is not None:
            instance.events.append(event)
        for order in orders:
            self._plan(self.now + self.delay_s, lambda order=order: self._serve(instance, order))  # type: ignore[misc]
        deadline = instance.member.deadline()
        if deadline is not None:
            self._plan(deadline, lambda: self._turn(instance))

    def _serve(self, instance: Instance, order: Order) -> None:
        try:
            if self.is_store_away or instance.is_cut_off:
                raise Unavailable("the store is away")
            reply = self._told(instance, instance.rows.exchange(order))
            event: Replied | Failed = Failed() if self.loses_replies else Replied(reply)
        except Unavailable:
            event = Failed()
        self._plan(self.now + self.delay_s, lambda: self._turn(instance, event))

    def _told(self, instance: Instance, reply: Reply) -> Reply:
        """The reply, with the instance's own view of when it came."""
        return replace(reply, at_ms=instance.clock.wall() * 1000, round_trip_s=2 * self.delay_s)


def buckets(throttle: FairThrottle) -> dict[tuple[int, int, int], tuple[float, int]]:
    """Every bucket of both windows above zero, exactly as it is kept: probability, and as of when."""
    throttle.turn()
    return {
        (seed, row, bucket.col_id): (bucket.prob, bucket.last_update_time_ms)
        for seed in throttle.seeds
        for row in range(throttle.config.levels)
        for bucket in throttle.contents(Cell(seed, row), above=0.0)
    }


def difference(one: FairThrottle, two: FairThrottle) -> float:
    """The greatest difference between the same buckets of two throttles, as of one instant."""
    first, second = buckets(one), buckets(two)
    now_ms = max([at_ms for _, at_ms in (*first.values(), *second.values())], default=0)

    def value(found: dict[tuple[int, int, int], tuple[float, int]], place: tuple[int, int, int]) -> float:
        return decay(*found.get(place, (0.0, 0)), now_ms, one.config.decay_per_ms)

    return max([abs(value(first, place) - value(second, place)) for place in first.keys() | second.keys()], default=0.0)
