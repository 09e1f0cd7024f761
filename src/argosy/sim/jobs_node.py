"""A simulated machine of the job broker, the wire on which clients reach it, and disks that a checker watches."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TypeVar

from argosy.base.clock import Random
from argosy.base.errors import ArgosyError, Unavailable
from argosy.base.kv import Batch
from argosy.jobs.backends.memory import DiskKV, MemoryDisk, MemoryShardStore
from argosy.jobs.backends.shard_map_store import MemoryShardMapStore
from argosy.jobs.cluster.node import JobsNode
from argosy.jobs.settings import JobsSettings
from argosy.ownership.node_service import OwnershipNode
from argosy.sim.checkers.jobs import JobsChecker
from argosy.sim.link import Direction, Link
from argosy.sim.loop import OUTSIDE, Process, SimLoop
from argosy.sim.network import SimulatedStore
from argosy.sim.node import SimNode, Uncounted
from argosy.sim.plan import WorldPlan
from argosy.sim.space import SimSpace
from argosy.sim.trace import Trace
from argosy.throttle.limits.backends.memory import MemoryLimiter

T = TypeVar("T")

WALL_SKEW_S_MAX = 1.5  # of two machines: times of rows are their writers'
QUICK_S = (0.001, 0.02)  # until a batch is durable
SLOW_S = (0.2, 1.5)  # now and then
SLOW_CHANCE = 0.03


class WatchedDisk(MemoryDisk):
    """Tells what becomes durable, at that instant."""

    def __init__(self, shard: str, disks: "WatchedShards") -> None:
        super().__init__(delay=disks.delay)
        self._shard = shard
        self._disks = disks

    async def commit(self, writer: DiskKV, batch: Batch) -> None:
        await super().commit(writer, batch)
        self._disks.on_commit(self._shard, batch)


class WatchedShards(MemoryShardStore):
    """The object storage that all machines share."""

    def __init__(self, checker: JobsChecker, trace: Trace, random: Random) -> None:
        super().__init__()
        self._checker = checker
        self._trace = trace
        self._random = random

    async def delay(self) -> None:
        is_slow = self._random.random() < SLOW_CHANCE
        await asyncio.sleep(self._random.uniform(*(SLOW_S if is_slow else QUICK_S)))

    async def shard(self, shard: str, *, may_serve: Callable[[], bool] = lambda: True) -> DiskKV:
        if shard not in self.disks:
            self.disks[shard] = WatchedDisk(shard, self)
        return await super().shard(shard, may_serve=may_serve)

    async def delete(self, shard: str) -> None:
        await super().delete(shard)
        self._trace.add(f"{shard} is deleted")
        self._checker.on_removed(shard)

    def on_commit(self, shard: str, batch: Batch) -> None:
        self._trace.add(f"{shard} keeps {len(batch)} rows")
        self._checker.on_commit(shard, batch.ops())


class JobsPlane:
    """What all machines of a world share."""

    def __init__(self, settings: JobsSettings, shards: WatchedShards, limiter: MemoryLimiter) -> None:
        self.settings = settings
        self.shards = shards
        self.maps = MemoryShardMapStore()
        self.limiter = limiter
        self.on_bug: Callable[[str], None] = lambda text: None
        self._ids = count(1)

    def new_id(self) -> str:
        return f"00000000-0000-4000-8000-{next(self._ids):012x}"


class JobsMachine(SimNode):
    """Runs a real `JobsNode`. Its `link` goes to the ownership store, its `wire` to clients and workers."""

    def __init__(
        self,
        name: str,
        plan: WorldPlan,
        spaces: list[SimSpace],
        loop: SimLoop,
        dice: Callable[[str], Random],
        plane: JobsPlane,
    ) -> None:
        super().__init__(name, plan, spaces, loop, dice)
        self.wire = Link(loop, dice(f"wire {name}"), plan.quality)
        self.jobs: JobsNode | None = None
        self.clock.wall_offset_s = dice(f"wall {name}").uniform(-WALL_SKEW_S_MAX, WALL_SKEW_S_MAX)
        self._plane = plane
        self._starting: JobsNode | None = None

    def stop(self) -> None:
        self.jobs = self._starting = None
        super().stop()

    async def call(self, do: Callable[[JobsNode], Awaitable[T]], *, timeout_s: float) -> T:
        """Asks as over a network: request and answer may be late or lost, and what was asked may still happen."""
        answer: asyncio.Future[T] = self._loop.create_future()

        async def serve(node: JobsNode) -> None:
            try:
                result = await do(node)
            except ArgosyError as error:
                refuse(error)
            except Exception as bug:  # for the world to judge; the caller hears nothing
                self._plane.on_bug(f"{self.name} failed with {type(bug).__name__}: {bug}")
            else:
                self.wire.send(Direction.DOWN, lambda: succeed(result), broke)

        def succeed(result: T) -> None:
            if not answer.done():
                answer.set_result(result)

        def refuse(error: ArgosyError) -> None:
            self.wire.send(Direction.DOWN, lambda: fail(error), broke)

        def fail(error: ArgosyError) -> None:
            if not answer.done():
                answer.set_exception(error)

        def arrive() -> None:
            if self.process is None or self.jobs is None:
                refuse(Unavailable(f"{self.name} refuses connections"))
            else:
                self.process.spawn(serve(self.jobs))

        def broke() -> None:
            fail(Unavailable(f"the connection to {self.name} broke"))

        self.wire.send(Direction.UP, arrive, broke)
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise Unavailable(f"{self.name} has not answered for {timeout_s:g} s") from None

    def _take_part(self, space: SimSpace) -> OwnershipNode:
        store = SimulatedStore(self.name, space.server, self.link, self._loop, timeout_s=self._plan.call_timeout_s)
        self._stores.append(store)
        node = JobsNode(
            store,
            self._plane.shards,
            self._plane.maps,
            self._plane.limiter,
            node_id=self.name,
            address=self.name,
            settings=self._plane.settings,
            shared=space.plan.settings,
            clock=self.clock,
            random=self._dice(f"node {self.name} run {self._run}"),
            new_id=self._plane.new_id,
            metrics=Uncounted(),
        )
        node.ownership.observers.append(self._reporter(space))
        self._starting = node
        return node.ownership

    async def _live(self, process: Process) -> None:
        node = self._starting
        assert node is not None
        why: Exception | None = None
        try:
            await node.start()
            self.jobs = node
            await node.run()
        except Exception as trouble:  # for the world to judge
            why = trouble
        self._loop.call_soon(self._ended, process, why, context=OUTSIDE)
