"""A node of the job broker: serves the shards whose leases it holds, and names the owners of the others.

    node = JobsNode(ownership_store, shard_store, map_store, limiter, node_id="n1", address="10.0.0.1:7450")
    await node.start()
    task = asyncio.create_task(node.run())
    ...
    await node.shard(node.shard_of("acme")).enqueue([NewJob("mail", tenant="acme")])
    ...
    await node.drain()

No call waits for the ownership store or the shard map: a watch and periodic reads keep copies of both in memory.
"""

import asyncio
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Self

from argosy.base.backends.ids import new_uuid
from argosy.base.clock import Clock, Random, SystemClock, system_random
from argosy.base.errors import Conflict, Forbidden, Invalid, NotOwner, Unavailable
from argosy.base.kv import Batch
from argosy.base.metrics import Metrics
from argosy.base.tasks import cancel_all
from argosy.base.tracing import NO_TRACER, Tracer
from argosy.jobs import keys
from argosy.jobs.cluster.poller import Poller
from argosy.jobs.cluster.ports import ShardStore, Split
from argosy.jobs.cluster.shard_host import OpenShard, ShardHost
from argosy.jobs.cluster.shard_map import ShardMapCache, ShardMapStore, check_tenant_name
from argosy.jobs.cluster.splitter import Splitter
from argosy.jobs.ports import (
    ClusterMember,
    ClusterTopology,
    RowReader,
    ShardCalls,
    ShardInfo,
    ShardStats,
    SplitStatus,
    StagedStore,
    StorageInfo,
)
from argosy.jobs.settings import JobsSettings
from argosy.jobs.telemetry import JobsTelemetry
from argosy.ownership.model import Unit
from argosy.ownership.node_service import OwnershipNode
from argosy.ownership.ports import OwnershipStore
from argosy.ownership.ring import Ring
from argosy.ownership.settings import OwnershipSettings
from argosy.throttle.limits.ports import RateLimiter

RECONCILE_S = 0.25  # between two comparisons of leases and map, both in memory
SHARD_IDS_CACHED = 1024  # checked ids; every call names one
ACQUIRING = "shard not ready: acquisition in progress"
BARRIER = keys.key(keys.META, "flushed")


class NoMemoryProbe:
    """Ownership's memory probe; shards are placed by the ring, not by free memory."""

    def free_bytes(self) -> int:
        return 0


class JobsNode:
    """Implements `Broker`."""

    def __init__(
        self,
        ownership: OwnershipStore,
        store: ShardStore,
        maps: ShardMapStore,
        limiter: RateLimiter,
        *,
        node_id: str,
        address: str,
        settings: JobsSettings | None = None,
        shared: OwnershipSettings | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        new_id: Callable[[], str] = new_uuid,
        metrics: Metrics | None = None,
        tracer: Tracer = NO_TRACER,
        capabilities: tuple[str, ...] = ("jobs",),
    ) -> None:
        self._settings = settings or JobsSettings()
        self._clock, self._random = clock or SystemClock(), random or system_random()
        self._new_id = new_id
        self._store = store
        self._address = address
        self._ring = Ring(())
        metrics = metrics or Metrics()
        self._telemetry = JobsTelemetry(metrics, node=node_id)
        self._maps = ShardMapCache(maps)
        self._host = ShardHost(
            store,
            self._maps,
            limiter,
            self._telemetry,
            options=self._settings.options(),
            clock=self._clock,
            random=self._random,
            new_id=new_id,
        )
        self.ownership = OwnershipNode(
            ownership,
            self._maps,
            self._host,
            NoMemoryProbe(),
            node_id=node_id,
            address=address,
            settings=self._settings.ownership(shared or OwnershipSettings()),
            clock=self._clock,
            random=self._random,
            metrics=metrics,
            tracer=tracer,
            capabilities=capabilities,
        )
        self._host.bind_leases(holds=self.ownership.holds, check=self._check_held, release=self.ownership.release)
        # After a split the ring must place the children at once, not at the next read of the catalog.
        self._maps.observers.append(self.ownership.catalog_changed)
        self._splitter = Splitter(
            self._host,
            store,
            self._maps,
            self._telemetry,
            node=node_id,
            clock=self._clock,
            new_id=new_id,
            check=self._check_held,
            release=self.ownership.release,
        )
        self._poller = Poller(self._open_shards, self._random, self._telemetry)
        # Straight to the poller: a method that forwards would cost every poll a call.
        self.lease = self._poller.lease
        self._host.observers.append(self._poller.wake_all)

    # -- lifecycle
    # -------------------------------------------------------------------------------------------------------

    async def start(self) -> Self:
        """Reads the shard map, or creates the first version."""
        await self._maps.start(self._settings.shards, self._new_id, self._host.now_ms())
        return self

    async def run(self) -> None:
        """Runs until `drain` has finished or this task is cancelled."""
        reconciling = asyncio.ensure_future(self._reconcile())
        try:
            await self.ownership.run()
        finally:
            await cancel_all([reconciling])
            await self.close()

    async def drain(self) -> None:
        """Leaves the ring first; after a pause for calls in progress, releases the shards."""
        await self.ownership.drain()

    async def close(self) -> None:
        """Closes all shards; acknowledged changes are durable."""
        # Splits first: they use the shards that are closed next.
        await self._splitter.close()
        await self._host.close()

    def is_ready(self) -> bool:
        return self.ownership.is_ready()

    async def _reconcile(self) -> None:
        """Refreshes the map when a lease names a shard that it lacks, and resumes interrupted splits."""
        while True:
            await self._clock.sleep(RECONCILE_S)
            held = {lease.unit.name for lease in self.ownership.leases()}
            try:
                # A lease on an unknown shard means that a split was committed: read the map now, not in two seconds.
                if not held <= self._maps.current.ids():
                    await self._maps.refresh()
            except (Invalid, Unavailable) as why:  # Invalid: written by a later release, or damaged
                self._telemetry.record_map_failure(why)
            known = self._maps.current.ids()
            self._telemetry.record_map(known=len(known), unowned=len(known - held))
            self._splitter.resume()

    # -- who serves what --------------------------------------------------------------------------------------------

    @property
    def is_tenanted(self) -> bool:
        return self._settings.with_tenants

    def shard(self, shard_id: str) -> ShardCalls:
        return self._open(shard_id).calls

    def local(self) -> list[tuple[str, ShardCalls]]:
        return [(shard_id, opened.calls) for shard_id, opened in self._open_shards().items()]

    def shard_of(self, tenant: str) -> str:
        check_tenant_name(tenant)
        return self._maps.current.of_tenant(tenant).id

    def rows(self, shard_id: str) -> RowReader:
        return self._open(shard_id).rows

    def topology(self) -> ClusterTopology:
        leases = {lease.unit.name: lease for lease in self.ownership.leases()}
        shards = []
        for spec in self._maps.current.shards:
            # A shard without a lease is in the topology without a node: clients see that it exists and is not served.
            lease = leases.get(spec.id)
            node, address = (lease.node, lease.address) if lease is not None else ("", "")
            shards.append(ShardInfo(spec.id, spec.range.start, spec.range.end, node, address))
        members = sorted(self.ownership.members(), key=lambda member: member.node)
        nodes = tuple(ClusterMember(member.node, member.address) for member in members)
        return ClusterTopology(tuple(shards), nodes, self.ownership.node_id, self._address)

    def _open_shards(self) -> dict[str, OpenShard]:
        return {
            shard_id: opened
            for shard_id, opened in self._host.open.items()
            if not opened.guard.is_closed and self.ownership.holds(Unit(shard_id))
        }

    def _open(self, shard_id: str) -> OpenShard:
        _check_id(shard_id)
        opened = self._host.open.get(shard_id)
        if opened is None:
            self._check_held(Unit(shard_id))  # raises NotOwner with a hint if another node has it
            raise Unavailable(ACQUIRING)
        opened.guard.check()
        return opened

    def _check_held(self, unit: Unit) -> None:
        """Raises unless this node holds the shard: NotOwner with the holder, Unavailable while it is acquired here."""
        if self.ownership.holds(unit):
            return
        # From the node's own copy of all leases: the design forbids a request to the store on the request path, where
        # silo reads the members for every redirect.
        lease = next((lease for lease in self.ownership.leases() if lease.unit == unit), None)
        if lease is not None and lease.node != self.ownership.node_id:
            raise NotOwner(f"shard {unit} is served by {lease.node}", hint=lease.address, node=lease.node)
        if unit.name not in self._maps.current.ids():
            raise NotOwner(f"shard {unit} not in the shard map: it may have been split; refresh the map")
        # The ring places it here, so the client should wait: any other node would send it back.
        if lease is not None or self._owner(unit.name) == self.ownership.node_id:
            raise Unavailable(ACQUIRING)
        raise NotOwner(f"shard {unit} is moving to another node; retry")

    def _owner(self, shard_id: str) -> str | None:
        """The node on which the ring places the shard. It serves only once it has the lease."""
        names = frozenset(member.node for member in self.ownership.members())
        # Rebuilt only when the members change: this is on the path of every redirect.
        if names != self._ring.nodes:
            self._ring = Ring(names)
        return self._ring.owner(shard_id)

    # -- calls about all shards, or about the shard itself ------------------------------------------------------------

    async def split(self, shard_id: str, point: str) -> SplitStatus:
        """Starts a split, at the middle of the range without a point. On return the request is durable: if the shard
        moves meanwhile, its next holder carries it out, with other ids for the children than returned here.
        """
        _check_id(shard_id)
        try:
            return _to_split_status(await self._splitter.begin(shard_id, point))
        except NotOwner as why:
            raise Conflict(f"shard {shard_id} is not served here ({why}); send the request to its owner") from why

    def split_status(self, shard_id: str) -> SplitStatus:
        _check_id(shard_id)
        split = self._splitter.status(shard_id)
        return SplitStatus() if split is None else _to_split_status(split)

    async def stats(self, shard_id: str) -> ShardStats:
        opened = self._open(shard_id)
        live, done = await count(opened.rows, keys.LIVE), await count(opened.rows, keys.DONE)
        progress = opened.progress
        return ShardStats(live + done, done, progress.status, opened.spec.created_at, progress.done_at)

    async def flush(self, shard_id: str) -> None:
        await self._open(shard_id).store.stage(Batch().put(BARRIER, b""))

    async def compact(self, shard_id: str) -> None:
        self._open(shard_id)
        await self._store.compact(shard_id)

    async def storage(self, shard_id: str) -> StorageInfo:
        self._open(shard_id)
        return await self._store.storage(shard_id)

    async def force_release(self, shard_id: str) -> bool:
        """Releases a shard held here, which is then reopened. The lease of a failed node expires by itself."""
        _check_id(shard_id)
        is_held = any(lease.unit.name == shard_id for lease in self.ownership.own_leases())
        if is_held:
            self.ownership.release(Unit(shard_id))
        return is_held

    async def reset(self) -> int:
        if not self._settings.dev_mode:
            raise Forbidden("reset is disabled; set jobs.dev_mode")
        served = self._open_shards()
        for shard_id, opened in served.items():
            opened.guard.close(Unavailable(ACQUIRING))
            await opened.shard.close()
            await _delete_all(opened)
            # Reopened by the next holder with an empty queue state, instead of emptying the state in place.
            self.ownership.release(Unit(shard_id))
        return len(served)


def _to_split_status(split: Split) -> SplitStatus:
    return SplitStatus(split.phase, split.left, split.right, split.point, split.node, split.requested_at)


RESET_ROWS = 1000  # deleted in one batch


async def _delete_all(opened: OpenShard) -> None:
    while True:
        batch = Batch()
        # From the store, not from the view: rows of a sibling that are not yet cleaned go too.
        async for key, _ in opened.store.scan(b"\x01", None, limit=RESET_ROWS):
            batch.delete(key)
        if not len(batch):
            return
        await opened.store.stage(batch)


@lru_cache(SHARD_IDS_CACHED)
def _check_id(shard_id: str) -> None:
    with suppress(ValueError):
        uuid.UUID(shard_id)
        return
    raise Invalid(f"invalid shard ID: {shard_id[:80]!r} is no UUID")


COUNT_MAX = 100_000  # of each kind; a second of reading


async def count(store: StagedStore, kind: int) -> int:
    found = 0
    async for _ in store.scan(*keys.under(kind), limit=COUNT_MAX):
        found += 1
    return found
