"""The store behind a faulty link."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from argosy.base.clock import seeded_random
from argosy.base.errors import Unavailable
from argosy.ownership.backends.memory import MemoryOwnershipStore
from argosy.ownership.events import MemberChanged, Snapshot, WatchEvent
from argosy.ownership.model import Member, SessionRole, Space, Unit
from argosy.sim.link import Direction, Link, LinkQuality
from argosy.sim.loop import SimClock, SimLoop, run
from argosy.sim.network import SimulatedStore, StoreCall, StoreServer

UP, DOWN = Direction.UP, Direction.DOWN
GOOD = LinkQuality(latency_s=0.01, jitter_s=0.0)


class Bench:
    """One node, one link, one store."""

    def __init__(self, loop: SimLoop, quality: LinkQuality = GOOD, *, seed: int = 1) -> None:
        self.loop = loop
        self.memory = MemoryOwnershipStore(
            Space("shards", False), clock=SimClock(loop.time), random=seeded_random(seed)
        )
        self.server = StoreServer(self.memory, seeded_random(seed))
        self.link = Link(loop, seeded_random(seed), quality)
        self.store = SimulatedStore("n1", self.server, self.link, loop, timeout_s=1.0)
        self.served: list[str] = []
        self.server.call_observers.append(self._tap)

    def _tap(self, served: StoreCall) -> None:
        self.served.append(served.call)

    async def fails(self, call: Awaitable[object]) -> float:
        """How long until the call fails."""
        began = self.loop.time()
        with pytest.raises(Unavailable):
            await call
        return self.loop.time() - began


def on_bench(scenario: Callable[[Bench], Awaitable[None]], quality: LinkQuality = GOOD) -> None:
    async def main(loop: SimLoop) -> None:
        await scenario(Bench(loop, quality))

    run(main)


def test_a_call_takes_one_latency_each_way() -> None:
    async def scenario(bench: Bench) -> None:
        session = await bench.store.open_session(SessionRole.HOLDER, Member("n1", "a:1"), ttl_s=30)
        assert bench.loop.time() == pytest.approx(0.02)
        assert (await bench.store.claim(session, Unit("u"))).epoch == 1
        assert bench.store.calls == 2
        assert bench.store.space.name == "shards"

    on_bench(scenario)


def test_a_request_that_never_arrives_is_unavailable_after_the_timeout() -> None:
    async def scenario(bench: Bench) -> None:
        bench.link.block(UP)
        assert await bench.fails(bench.store.sweep()) == pytest.approx(1.0)
        assert bench.served == []

    on_bench(scenario)


def test_a_lost_reply_is_unavailable_though_the_effect_happened() -> None:
    async def scenario(bench: Bench) -> None:
        bench.link.block(DOWN)
        assert await bench.fails(bench.store.sweep()) == pytest.approx(1.0)
        assert bench.served == ["sweep"]

    on_bench(scenario)


def test_requests_into_a_partition_may_arrive_after_their_timeout() -> None:
    async def scenario(bench: Bench) -> None:
        bench.link.block(UP)
        for _ in range(20):
            await bench.fails(bench.store.sweep())
        assert bench.served == []
        bench.link.heal(UP)
        await asyncio.sleep(1)
        assert 3 < len(bench.served) < 17

    on_bench(scenario)


def test_a_late_request_takes_effect_after_its_sender_gave_up() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.fails(bench.store.sweep())
        assert bench.served == []
        await asyncio.sleep(50)
        assert bench.served == ["sweep"]

    on_bench(scenario, LinkQuality(late_chance=1.0, late_s_max=50.0))


def test_a_lagging_link_delivers_out_of_order() -> None:
    async def scenario(bench: Bench) -> None:
        bench.link.lag_chance = 1.0
        arrived: list[int] = []
        for i in range(20):
            bench.link.send(UP, lambda i=i: arrived.append(i), lambda: None)  # type: ignore[misc]
        await asyncio.sleep(9)
        assert sorted(arrived) == list(range(20))
        assert arrived != sorted(arrived)

    on_bench(scenario, LinkQuality(late_s_max=8.0))


def test_a_slow_link_is_never_slower_than_a_keepalive_would_bear() -> None:
    async def scenario(bench: Bench) -> None:
        bench.link.slowness = 1e6
        assert max(bench.link.latency() for _ in range(100)) == GOOD.keepalive_s

    on_bench(scenario)


def test_a_link_that_loses_everything_answers_nothing() -> None:
    async def scenario(bench: Bench) -> None:
        spans = [await bench.fails(bench.store.sweep()) for _ in range(20)]
        assert bench.served == []
        assert any(span < 0.5 for span in spans), "some broken connections are noticed at once"
        assert any(span > 0.9 for span in spans), "others only by the timeout"

    on_bench(scenario, LinkQuality(loss_chance=1.0))


def test_an_unavailable_store_serves_nothing_and_returns_with_or_without_its_data() -> None:
    async def scenario(bench: Bench) -> None:
        session = await bench.store.open_session(SessionRole.HOLDER, Member("n1", "a:1"), ttl_s=30)
        await bench.store.claim(session, Unit("u"))
        bench.server.stop()
        await bench.fails(bench.store.renew(session))
        bench.server.start(has_lost_data=False)
        assert len(await bench.store.renew(session)) == 1
        bench.server.stop()
        bench.server.start(has_lost_data=True)
        assert bench.memory.snapshot().leases == ()
        assert bench.served.count("renew") == 1

    on_bench(scenario)


class Listener:
    def __init__(self, bench: Bench) -> None:
        self.facts: list[WatchEvent] = []
        self.broke_at: float | None = None
        self.task = asyncio.ensure_future(self._listen(bench))

    async def _listen(self, bench: Bench) -> None:
        try:
            async for fact in bench.store.watch():
                self.facts.append(fact)
        except Unavailable:
            self.broke_at = bench.loop.time()

    def members(self) -> list[str]:
        return [fact.member.node for fact in self.facts if isinstance(fact, MemberChanged)]


async def _join(bench: Bench, *names: str) -> None:
    for name in names:
        await bench.memory.open_session(SessionRole.MEMBER, Member(name, "a:1"), ttl_s=1e6)


def test_a_watch_starts_with_a_snapshot_and_is_in_order() -> None:
    async def scenario(bench: Bench) -> None:
        listener = Listener(bench)
        await asyncio.sleep(1)
        assert isinstance(listener.facts[0], Snapshot)
        names = [f"m{i}" for i in range(50)]
        await _join(bench, *names)
        await asyncio.sleep(1)
        assert listener.members() == names

    on_bench(scenario, LinkQuality(latency_s=0.001, jitter_s=0.1))


def test_a_stalled_watch_delivers_late_if_the_partition_is_short() -> None:
    async def scenario(bench: Bench) -> None:
        listener = Listener(bench)
        await asyncio.sleep(1)
        bench.link.block(DOWN)
        await _join(bench, "m1", "m2")
        await asyncio.sleep(5)
        assert listener.members() == []
        bench.link.heal(DOWN)
        await asyncio.sleep(1)
        assert listener.members() == ["m1", "m2"]
        assert listener.broke_at is None

    on_bench(scenario)


@pytest.mark.parametrize("direction", [UP, DOWN])
def test_a_watch_breaks_when_keepalives_go_unanswered(direction: Direction) -> None:
    async def scenario(bench: Bench) -> None:
        listener = Listener(bench)
        await asyncio.sleep(1)
        bench.link.block(direction)
        await asyncio.sleep(30)
        assert listener.broke_at == pytest.approx(1 + GOOD.keepalive_s)
        assert bench.memory.observers == []

    on_bench(scenario)


def test_a_watch_breaks_during_an_outage_and_cannot_be_opened_meanwhile() -> None:
    async def scenario(bench: Bench) -> None:
        listener = Listener(bench)
        await asyncio.sleep(1)
        bench.server.stop()
        await asyncio.sleep(1)
        assert listener.broke_at == pytest.approx(1.01)
        again = Listener(bench)
        await asyncio.sleep(2)
        assert again.broke_at is not None
        assert again.facts == []

    on_bench(scenario)


def test_a_reader_that_is_cancelled_leaves_no_subscription() -> None:
    async def scenario(bench: Bench) -> None:
        listener = Listener(bench)
        await asyncio.sleep(1)
        listener.task.cancel()
        await asyncio.sleep(1)
        assert bench.memory.observers == []
        assert not bench.server.streams

    on_bench(scenario)
