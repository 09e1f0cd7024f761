"""Many things at once, in virtual time: announcements, polls, freezes, absences, lost answers and restarts.

In any order, no publisher has more active indexers than configured, and after all repairs each has as many as
there can be.
"""

import asyncio
from collections.abc import Awaitable, Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.base.clock import Random, seeded_random
from argosy.base.metrics import Metrics
from argosy.ipni.assigner.configuration import Configuration, PoolEntry
from argosy.ipni.assigner.service import AssignerService
from argosy.ipni.assigner.telemetry import POLLS
from argosy.sim.loop import SimClock, SimLoop, run
from tests.ipni.assigner.doubles import Double, announcement, peer

NAMES = ["a", "b", "c", "d"]
PUBLISHERS = ["p1", "p2", "p3"]
ENTRIES = tuple(PoolEntry(name, f"{name}-find", f"{name}-ingest") for name in NAMES)


class Slow(Double):
    """A double that delays every call."""

    random: Random = seeded_random(0)

    async def _enter(self, call: str) -> None:
        await asyncio.sleep(self.random.uniform(0.001, 0.5))
        await super()._enter(call)


class World:
    """Four indexers, and an assigner that may be replaced at any time."""

    def __init__(self, loop: SimLoop, replication: int, seed: int) -> None:
        self.clock = SimClock(loop.time)
        self.random = seeded_random(seed)
        self.replication = replication
        self.configuration = Configuration(ENTRIES, replication=replication, poll_s=0.0)
        self.doubles = {name: Slow(name) for name in NAMES}
        for double in self.doubles.values():
            double.random = self.random
        self.heads = 0
        self.service = self.assigner()

    def assigner(self) -> AssignerService:
        return AssignerService(
            self.configuration,
            lambda entry: self.doubles[entry.admin_url],
            lambda url: self.doubles[url],
            clock=self.clock,
            random=self.random,
            metrics=Metrics(),
        )

    async def announce(self, name: str) -> None:
        self.heads += 1
        self.service.announce(announcement(PUBLISHERS[NAMES.index(name) % len(PUBLISHERS)], self.heads))

    async def poll(self, _: str) -> None:
        await self.service.poll()

    async def pause(self, _: str) -> None:
        await self.clock.sleep(self.random.uniform(0.0, 2.0))

    async def settle(self, _: str) -> None:
        await self.service.wait_idle()

    async def restart(self, _: str) -> None:
        await self.service.close()
        self.service = self.assigner()

    async def freeze(self, name: str) -> None:
        self.doubles[name].is_frozen = True

    async def switch(self, name: str) -> None:
        self.doubles[name].is_offline = not self.doubles[name].is_offline

    async def lose(self, name: str) -> None:
        self.doubles[name].is_losing = not self.doubles[name].is_losing

    def active(self, publisher: str) -> int:
        return sum(peer(publisher) in each.allowed and not each.is_frozen for each in self.doubles.values())

    def check(self) -> None:
        for publisher in PUBLISHERS:
            assert self.active(publisher) <= self.replication

    async def repair(self) -> None:
        """Ends all faults: every indexer is reachable, and every publisher is announced once more."""
        for double in self.doubles.values():
            double.is_offline = double.is_losing = False
        for name in NAMES:
            await self.announce(name)
        for _ in range(2):
            await self.service.poll()
            await self.service.wait_idle()


CALLS = ["announce", "announce", "poll", "pause", "settle", "restart", "freeze", "switch", "lose"]
steps = st.lists(st.tuples(st.sampled_from(CALLS), st.sampled_from(NAMES)), max_size=20)


@settings(max_examples=60, deadline=None)
@given(steps=steps, replication=st.integers(1, 3), seed=st.integers(0, 1000))
def test_nothing_is_over_assigned_and_all_faults_are_repaired(
    steps: list[tuple[str, str]], replication: int, seed: int
) -> None:
    async def main(loop: SimLoop) -> World:
        world = World(loop, replication, seed)
        for call, name in steps:
            act: Callable[[str], Awaitable[None]] = getattr(world, call)
            await act(name)
            world.check()
        await world.repair()
        world.check()
        return world

    world = run(main)
    active = sum(not double.is_frozen for double in world.doubles.values())
    for publisher in PUBLISHERS:
        assert world.active(publisher) == min(replication, active)
    pool_state = world.service.pool_state
    for name, double in world.doubles.items():
        answer = pool_state.report(name)
        assert answer is not None
        assert (dict(answer.assigned), answer.is_frozen) == (double.allowed, double.is_frozen)
    assert world.service.short == () or active < replication
    owed = [publisher for publishers in pool_state.pending_handoffs().values() for publisher in publishers]
    assert owed == [] or active < replication


def test_the_periodic_poll_detects_freezes() -> None:
    async def main(loop: SimLoop) -> list[float]:
        world = World(loop, 1, 7)
        world.configuration = Configuration(ENTRIES[:2], poll_s=300.0)
        world.service = world.assigner()
        running = asyncio.ensure_future(world.service.run())
        await world.clock.sleep(10.0)
        await world.announce("a")
        await world.service.wait_idle()
        first = next(double for double in world.doubles.values() if double.allowed)
        first.is_frozen = True
        seen = []
        for _ in range(2):
            await world.clock.sleep(200.0)
            seen.append(sum(len(double.handoffs) for double in world.doubles.values()))
        running.cancel()
        await asyncio.wait([running])
        await world.service.close()
        return [*seen, world.service.telemetry.metrics.value(POLLS)]

    assert run(main) == [0, 1, 2.0]
