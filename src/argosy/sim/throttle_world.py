"""Throttles in virtual time that share their state through one store, with delays, skewed clocks and partitions.

The throttles, the state machines of the exchange and the store are those of production. Time, the network and the
clocks are simulated. The store is the in-memory one, or any other that `rows_of` opens: a real server then has the
rows, and the world still provides the time.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from argosy.base.clock import Random, seeded_random
from argosy.base.errors import Unavailable
from argosy.throttle.backends.memory import MemoryRowServer
from argosy.throttle.blue import decay
from argosy.throttle.exchange import ExchangeFailed, ExchangeReplied, StoreExchange
from argosy.throttle.fair_throttle import FairThrottle
from argosy.throttle.model import Config
from argosy.throttle.ports import RowId, RowStore, SyncBatch
from argosy.throttle.rows import row_rules
from argosy.throttle.settings import ThrottleSettings
from argosy.throttle.sync import SyncMachine, ThreadSafeStorage

WALL_AT_START = 1_699_920_000.0  # midnight, so that windows of any usual length start with the world

RowsOf = Callable[[str], RowStore]
Place = tuple[int, int, int]  # seed, row, column


class ThrottleClock:
    """The world's time, as one instance sees it."""

    def __init__(self, world: "ThrottleWorld", skew_s: float = 0.0) -> None:
        self._world = world
        self.skew_s = skew_s

    def now(self) -> float:
        return self._world.now

    def wall(self) -> float:
        return self._world.started_at + self._world.now + self.skew_s

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(f"a request waits for {seconds} s")  # THR-2


@dataclass(eq=False)
class Instance:
    """One process of the fleet."""

    name: str
    throttle: FairThrottle
    storage: ThreadSafeStorage
    member: SyncMachine
    rows: RowStore
    clock: ThrottleClock
    is_cut_off: bool = False  # from the store
    seen_writes: int = 0  # of the store, when it last answered a pull
    pulls: int = 0  # answered since that write


@dataclass
class ThrottleWorld:
    """Carries batches to the store and replies back, each within `delay_s`; calls `on_exchange` with every batch."""

    config: Config = field(default_factory=Config)
    settings: ThrottleSettings = field(default_factory=ThrottleSettings)
    seed: int = 1
    delay_s: tuple[float, float] = (0.001, 0.01)
    started_at: float = WALL_AT_START
    rows_of: RowsOf | None = None
    on_exchange: Callable[[Instance], None] = lambda instance: None
    is_prompt: bool = False  # instances start to share at once, and not at a random time within a flush
    now: float = 0.0
    is_store_down: bool = False
    loses_replies: bool = False  # batches take effect, and their replies are lost
    writes: int = 0  # batches so far that may have changed the store

    def __post_init__(self) -> None:
        self.store = MemoryRowServer(ThrottleClock(self))
        self.instances: list[Instance] = []
        self._random: Random = seeded_random(f"{self.seed}/network")
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._entries = 0

    def unshared_throttle(self, name: str = "i0") -> FairThrottle:
        """A throttle that shares nothing, with the random numbers that an instance of this name would have."""
        return FairThrottle(self.config, clock=ThrottleClock(self), random=seeded_random(f"{self.seed}/{name}"))

    def add(self, *, skew_s: float = 0.0, settings: ThrottleSettings | None = None) -> Instance:
        """Add an instance, by default with the settings of the world."""
        name, chosen = f"i{len(self.instances)}", settings or self.settings
        clock, dice = ThrottleClock(self, skew_s), seeded_random(f"{self.seed}/{name}/sharing")
        throttle = FairThrottle(self.config, clock=clock, random=seeded_random(f"{self.seed}/{name}"))
        storage = ThreadSafeStorage(StoreExchange(self.config, chosen, dice, instance=name))
        member = SyncMachine(throttle, storage, chosen, random=dice)
        rows = self.rows_of(name) if self.rows_of else self.store.client(row_rules(self.config), instance=name)
        instance = Instance(name, throttle, storage, member, rows, clock)
        self.instances.append(instance)
        wait_s = 0.0 if self.is_prompt else dice.uniform(0.0, chosen.flush_s)
        self.schedule(self.now + wait_s, lambda: self._step(instance))
        return instance

    def advance(self, to: float) -> None:
        """Run everything that is due until then."""
        while self._agenda and self._agenda[0][0] <= to:
            self.now, _, action = heapq.heappop(self._agenda)
            action()
        self.now = max(self.now, to)

    def schedule(self, at: float, action: Callable[[], None]) -> None:
        """Schedule an action; actions of the same instant run in the order in which they were scheduled."""
        # The counter makes heap entries of the same instant comparable, and keeps their order.
        self._entries += 1
        heapq.heappush(self._agenda, (max(at, self.now), self._entries, action))

    def _step(self, instance: Instance, event: ExchangeReplied | ExchangeFailed | None = None) -> None:
        for batch in instance.member.handle(event, self.now):
            self.schedule(self.now + self._delay_s(), lambda batch=batch: self._serve(instance, batch))  # type: ignore[misc]
        deadline = instance.member.deadline()
        # Timers are not cancelled: one that fires early only checks again.
        if deadline is not None:
            self.schedule(deadline, lambda: self._step(instance))

    def _delay_s(self) -> float:
        return self._random.uniform(*self.delay_s)

    def _serve(self, instance: Instance, batch: SyncBatch) -> None:
        # The count after this batch, which the reply includes.
        event, writes = self._answer(instance, batch), self.writes
        self.schedule(self.now + self._delay_s(), lambda: self._arrive(instance, event, writes))

    def _answer(self, instance: Instance, batch: SyncBatch) -> ExchangeReplied | ExchangeFailed:
        self.on_exchange(instance)
        if self.is_store_down or instance.is_cut_off:
            return ExchangeFailed()
        try:
            reply = instance.rows.exchange(batch)
        except Unavailable:
            return ExchangeFailed()
        # Counted although the reply may be lost: the store has changed.
        self.writes += bool(batch.pushes or batch.restores)
        if self.loses_replies:
            return ExchangeFailed()
        # The time of the world is that of the store, also on a real server.
        true_ms = (self.started_at + self.now) * 1000
        timed = replace(reply, server_ms=true_ms, at_ms=instance.clock.wall() * 1000, round_trip_s=2 * self.delay_s[1])
        return ExchangeReplied(timed)

    def _arrive(self, instance: Instance, event: ExchangeReplied | ExchangeFailed, writes: int) -> None:
        """A partition that started in the meantime loses the reply."""
        if instance.is_cut_off:
            event = ExchangeFailed()
        if isinstance(event, ExchangeReplied) and event.reply.pulled:
            if instance.seen_writes != writes:
                instance.seen_writes, instance.pulls = writes, 0
            instance.pulls += 1
        self._step(instance, event)


def buckets(throttle: FairThrottle) -> dict[Place, tuple[float, int]]:
    """Every bucket of both windows above zero, exactly as stored: probability and time of the last update."""
    # A bucket of a window that has ended must not be compared.
    throttle.rotate()
    return {
        (seed, row, bucket.col_id): (bucket.prob, bucket.last_update_time_ms)
        for seed in throttle.seeds
        for row in range(throttle.config.levels)
        for bucket in throttle.contents(RowId(seed, row), above=0.0)
    }


def spread(throttles: Sequence[FairThrottle]) -> float:
    """The greatest difference between the same buckets of several throttles, decayed to one instant.

    A throttle whose clock is ahead may be a window ahead of the others; only windows that they share are compared.
    """
    standing = [(set(throttle.seeds), buckets(throttle)) for throttle in throttles]
    latest_ms = max((at_ms for _, each in standing for _, at_ms in each.values()), default=0)
    per_ms, widest = throttles[0].config.decay_per_ms, 0.0
    for place in set().union(*[found for _, found in standing]):
        values = [
            decay(*found.get(place, (0.0, 0)), latest_ms, per_ms) for seeds, found in standing if place[0] in seeds
        ]
        widest = max(widest, max(values) - min(values))
    return widest
