"""A cluster of brokers in virtual time: nodes that can be killed, stopped and cut off, and clients that call them over
a network of tasks. For one scenario at a time; everything at once, with workers, is `argosy sim jobs`."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from argosy.base.clock import Random, seeded_random
from argosy.base.errors import ArgosyError, Conflict, NotOwner, Unavailable
from argosy.base.metrics import Metrics
from argosy.jobs.backends.memory import MemoryShardStore, delay_of
from argosy.jobs.backends.shard_map_store import MemoryShardMapStore
from argosy.jobs.cluster.node import JobsNode
from argosy.jobs.model import JobView, NewJob
from argosy.jobs.ports import ShardCalls
from argosy.jobs.settings import JobsSettings
from argosy.jobs.shard.audit import audit
from argosy.ownership.backends.memory import MemoryOwnershipStore
from argosy.ownership.events import WatchEvent
from argosy.ownership.model import Space
from argosy.sim.loop import SimClock, SimLoop, SimProcess, run
from argosy.throttle.limits.backends.memory import MemoryLimiter
from tests.jobs.cluster.auditor import Auditor

T = TypeVar("T")

CALL_S_MAX = 5.0  # a client's timeout
PATIENCE_S = 600.0  # of virtual time


class Link:
    """One node's link to the ownership store; it can be cut."""

    def __init__(self, store: MemoryOwnershipStore) -> None:
        self._store = store
        self.is_cut = False
        self.calls = 0

    @property
    def space(self) -> Space:
        return self._store.space

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **named: Any) -> Any:
            self.calls += 1
            if self.is_cut:
                raise Unavailable("the link is cut")
            return await getattr(self._store, name)(*args, **named)

        return call

    async def watch(self) -> AsyncIterator[WatchEvent]:
        if self.is_cut:
            raise Unavailable("the link is cut")
        async for fact in self._store.watch():
            if self.is_cut:
                raise Unavailable("the link is cut")
            yield fact


@dataclass
class SimNode:
    node: JobsNode
    process: SimProcess
    link: Link
    running: "asyncio.Task[None]"


class World:
    def __init__(self, loop: SimLoop, seed: str = "1", **changes: Any) -> None:
        self.loop = loop
        self.random: Random = seeded_random(f"world {seed}")
        self.settings = JobsSettings(**{"shards": 4, "with_tenants": True, "retention_ms": 0, **changes})
        self.clock = SimClock(loop.time)
        self.store = MemoryOwnershipStore(
            Space("shards", is_auctioned=False), clock=self.clock, random=seeded_random(f"store {seed}")
        )
        self.maps = MemoryShardMapStore()
        self.shards = MemoryShardStore(delay=delay_of(lambda: self.random.uniform(0.001, 0.02)))
        self.limiter = MemoryLimiter(clock=self.clock)
        self.nodes: dict[str, SimNode] = {}
        self.metrics: dict[str, Metrics] = {}
        self.auditor = Auditor()
        self._ids = count(1)
        self._starts = count(1)

    # -- nodes ------------------------------------------------------------------------------------------------------

    async def start(self, *names: str) -> None:
        for name in names:
            process, link = SimProcess(name, self.loop), Link(self.store)
            skew_s = self.random.uniform(-0.3, 0.3)
            node = JobsNode(
                link,
                self.shards,
                self.maps,
                self.limiter,
                node_id=name,
                address=name,
                settings=self.settings,
                clock=SimClock(self.loop.time, drift=self.random.uniform(-0.002, 0.002), wall_offset_s=skew_s),
                random=seeded_random(f"{name} {next(self._starts)}"),
                new_id=self._new_id,
                metrics=self.metrics.setdefault(name, Metrics()),
            )
            await process.spawn(node.start())
            self.nodes[name] = SimNode(node, process, link, process.spawn(node.run()))

    def kill(self, name: str) -> None:
        self.nodes.pop(name).process.kill()

    async def drain(self, name: str) -> None:
        leaving = self.nodes.pop(name)
        await leaving.process.spawn(leaving.node.drain())
        await leaving.running

    def stop(self, name: str) -> SimNode:
        self.nodes[name].process.pause()
        return self.nodes[name]

    def cont(self, name: str) -> None:
        self.nodes[name].process.resume()

    async def call(self, name: str, coro: Coroutine[Any, Any, T]) -> T:
        """As over a network: a dead or stopped node does not respond."""
        at = self.nodes.get(name)
        if at is None:
            coro.close()
            raise Unavailable(f"{name} is unreachable")
        task = at.process.spawn(coro)
        done, _ = await asyncio.wait([task], timeout=CALL_S_MAX)
        if not done:
            task.add_done_callback(lambda late: late.cancelled() or late.exception())
            raise Unavailable(f"{name} timed out after {CALL_S_MAX} s")
        return task.result()

    def _new_id(self) -> str:
        return f"00000000-0000-4000-8000-{next(self._ids):012x}"

    # -- observation ------------------------------------------------------------------------------------------------

    async def wait_until(
        self, is_so: Callable[[], bool], what: str, *, within_s: float = PATIENCE_S, poll_s: float = 0.05
    ) -> float:
        deadline = self.clock.now() + within_s
        while not is_so():
            assert self.clock.now() < deadline, f"timed out after {within_s} s: {what}"
            await self.clock.sleep(poll_s)
        return self.clock.now()

    def serving(self) -> dict[str, list[str]]:
        """Shard to the nodes that currently serve it."""
        found: dict[str, list[str]] = defaultdict(list)
        for name, each in self.nodes.items():
            if not each.process.is_paused:
                for shard_id, _ in each.node.local():
                    found[shard_id].append(name)
        return found

    def newest(self) -> JobsNode:
        """The node with the newest map: shards are only ever split."""
        return max((each.node for each in self.nodes.values()), key=lambda node: len(node.topology().shards))

    def all_served(self) -> bool:
        return all(len(self.serving().get(place.id, ())) == 1 for place in self.newest().topology().shards)

    def owner(self, shard_id: str) -> str:
        return self.serving()[shard_id][0]

    def any_node(self) -> str:
        return self.random.choice(sorted(self.nodes))

    # -- clients ----------------------------------------------------------------------------------------------------

    async def at_shard_of(self, tenant: str, do: Callable[[ShardCalls], Awaitable[T]]) -> T:
        """Find the shard as a client does: call any node, follow hints, retry."""
        hint: str | None = None
        deadline = self.clock.now() + PATIENCE_S
        while True:
            name = hint if hint in self.nodes else self.any_node()
            hint = None
            try:
                return await self.call(name, self._lease_from(name, tenant, do))
            except NotOwner as elsewhere:
                hint = elsewhere.hint
            except Unavailable:
                pass
            assert self.clock.now() < deadline, f"no answer for {tenant} within {PATIENCE_S} s"
            await self.clock.sleep(self.random.uniform(0.05, 0.3))

    async def _lease_from(self, name: str, tenant: str, do: Callable[[ShardCalls], Awaitable[T]]) -> T:
        node = self.nodes[name].node
        return await do(node.shard(node.shard_of(tenant)))

    async def enqueue(self, job: NewJob) -> None:
        async def put(shard: ShardCalls) -> None:
            (answer,) = await shard.enqueue([job])
            if isinstance(answer, ArgosyError) and not isinstance(answer, Conflict):
                raise answer  # a Conflict means that an earlier attempt was applied and its response lost

        await self.at_shard_of(job.tenant, put)
        self.auditor.acknowledged[job.id] = job.tenant

    async def view(self, job: str) -> JobView:
        tenant = self.auditor.acknowledged[job]
        return await self.at_shard_of(tenant, lambda shard: shard.get(tenant, job, with_attempts=True))

    # -- audit ------------------------------------------------------------------------------------------------------

    async def violations(self) -> list[str]:
        """The findings of the shards' own audit."""
        found: list[str] = []
        for name, each in self.nodes.items():
            for open_shard in list(each.node._host.open.values()):
                found += await self.call(name, audit(open_shard.shard))
        return found


def in_virtual_time(
    seed: str = "1", **changes: Any
) -> Callable[[Callable[[World], Coroutine[Any, Any, None]]], Callable[[], None]]:
    """Makes a test of an `async def test_…(world)`: the whole scenario runs on the simulator's loop."""

    def decorate(scenario: Callable[[World], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        def test() -> None:
            run_scenario(scenario, seed, **changes)

        test.__name__, test.__doc__, test.__module__ = scenario.__name__, scenario.__doc__, scenario.__module__
        return test

    return decorate


def run_scenario(scenario: Callable[[World], Coroutine[Any, Any, None]], seed: str, **changes: Any) -> None:
    async def main(loop: SimLoop) -> None:
        await scenario(World(loop, seed, **changes))

    run(main)
