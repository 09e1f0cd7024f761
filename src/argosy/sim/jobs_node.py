"""A simulated machine of the job broker, the link on which clients reach it, and disks that a checker observes."""

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
from argosy.sim.loop import OUTSIDE, SimLoop, SimProcess
from argosy.sim.network import SimulatedStore
from argosy.sim.node import NoMetrics, SimNode
from argosy.sim.plan import WorldPlan
from argosy.sim.space import SimSpace
from argosy.sim.trace import Trace
from argosy.throttle.limits.backends.memory import MemoryLimiter

T = TypeVar("T")

WALL_SKEW_S_MAX = 1.5  # between two machines: the times in rows are those of their writers
QUICK_S = (0.001, 0.02)  # until a batch is durable
SLOW_S = (0.2, 1.5)  # with SLOW_CHANCE
SLOW_CHANCE = 0.03


class ObservedDisk(MemoryDisk):
    """Reports a batch at the instant at which it becomes durable."""

    def __init__(self, shard: str, disks: "ObservedShards") -> None:
        super().__init__(delay=disks.delay)
        self._shard = shard
        self._disks = disks

    async def commit(self, writer: DiskKV, batch: Batch) -> None:
        await super().commit(writer, batch)
        self._disks.on_commit(self._shard, batch)


class ObservedShards(MemoryShardStore):
    """The object storage that all machines share, with delays."""

    def __init__(self, checker: JobsChecker, trace: Trace, random: Random) -> None:
        super().__init__()
        self._checker = checker
        self._trace = trace
        self._random = random

    async def delay(self) -> None:
        # Rare slow batches: an acknowledgement before durability would go unnoticed on a disk that is always fast.
        is_slow = self._random.random() < SLOW_CHANCE
        await asyncio.sleep(self._random.uniform(*(SLOW_S if is_slow else QUICK_S)))

    async def shard(self, shard: str, *, may_serve: Callable[[], bool] = lambda: True) -> DiskKV:
        if shard not in self.disks:
            self.disks[shard] = ObservedDisk(shard, self)
        return await super().shard(shard, may_serve=may_serve)

    async def delete(self, shard: str) -> None:
        await super().delete(shard)
        self._trace.add(f"{shard} is deleted")
        self._checker.on_removed(shard)

    def on_commit(self, shard: str, batch: Batch) -> None:
        self._trace.add(f"{shard} stores {len(batch)} rows")
        self._checker.on_commit(shard, batch.ops())


class SharedJobsState:
    """What all machines of a world share."""

    def __init__(self, settings: JobsSettings, shards: ObservedShards, limiter: MemoryLimiter) -> None:
        self.settings = settings
        self.shards = shards
        self.maps = MemoryShardMapStore()
        self.limiter = limiter
        self.on_bug: Callable[[str], None] = lambda text: None
        self._ids = count(1)

    def new_id(self) -> str:
        return f"00000000-0000-4000-8000-{next(self._ids):012x}"


class JobsMachine(SimNode):
    """Runs a real `JobsNode`. Its `link` goes to the ownership store, its `wire` to clients and workers.

    Two links, because a partition between a node and the store is another failure than one between a node and its
    clients.
    """

    def __init__(
        self,
        name: str,
        plan: WorldPlan,
        spaces: list[SimSpace],
        loop: SimLoop,
        dice: Callable[[str], Random],
        shared_state: SharedJobsState,
    ) -> None:
        super().__init__(name, plan, spaces, loop, dice)
        self.wire = Link(loop, dice(f"wire {name}"), plan.quality)
        self.jobs: JobsNode | None = None
        self.clock.wall_offset_s = dice(f"wall {name}").uniform(-WALL_SKEW_S_MAX, WALL_SKEW_S_MAX)
        self._shared_state = shared_state
        self._starting: JobsNode | None = None

    def stop(self) -> None:
        self.jobs = self._starting = None
        super().stop()

    async def call(self, do: Callable[[JobsNode], Awaitable[T]], *, timeout_s: float) -> T:
        """A call over the network: request and response may be late or lost, and the call may still take effect."""
        answer: asyncio.Future[T] = self._loop.create_future()

        async def serve(node: JobsNode) -> None:
            try:
                result = await do(node)
            except ArgosyError as error:
                respond_error(error)
            except Exception as bug:  # reported as a violation; the caller gets no response
                self._shared_state.on_bug(f"{self.name} failed with {type(bug).__name__}: {bug}")
            else:
                self.wire.send(Direction.DOWN, lambda: resolve(result), broke)

        def resolve(result: T) -> None:
            if not answer.done():
                answer.set_result(result)

        def respond_error(error: ArgosyError) -> None:
            self.wire.send(Direction.DOWN, lambda: fail(error), broke)

        def fail(error: ArgosyError) -> None:
            if not answer.done():
                answer.set_exception(error)

        def arrive() -> None:
            if self.process is None or self.jobs is None:
                respond_error(Unavailable(f"{self.name} refuses connections"))
            else:
                self.process.spawn(serve(self.jobs))

        def broke() -> None:
            fail(Unavailable(f"the connection to {self.name} broke"))

        self.wire.send(Direction.UP, arrive, broke)
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise Unavailable(f"{self.name} sent no response for {timeout_s:g} s") from None

    def _create_member(self, space: SimSpace) -> OwnershipNode:
        store = SimulatedStore(self.name, space.server, self.link, self._loop, timeout_s=self._plan.call_timeout_s)
        self._stores.append(store)
        node = JobsNode(
            store,
            self._shared_state.shards,
            self._shared_state.maps,
            self._shared_state.limiter,
            node_id=self.name,
            address=self.name,
            settings=self._shared_state.settings,
            shared=space.plan.settings,
            clock=self.clock,
            random=self._dice(f"node {self.name} run {self._run}"),
            new_id=self._shared_state.new_id,
            metrics=NoMetrics(),
        )
        node.ownership.observers.append(self._serving_observer(space))
        self._starting = node
        return node.ownership

    async def _run_members(self, process: SimProcess) -> None:
        node = self._starting
        assert node is not None
        why: Exception | None = None
        try:
            await node.start()
            # Only now: calls that arrive while the node starts are refused, as by a port that nothing listens on.
            self.jobs = node
            await node.run()
        except Exception as trouble:  # the world reports it if it is a bug
            why = trouble
        self._loop.call_soon(self._on_end, process, why, context=OUTSIDE)
