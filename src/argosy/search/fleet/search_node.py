"""A search node: builds the indexes of the units it holds, keeps them fresh and verified, and evicts them.

    node = SearchNode(catalog, fetcher, index_set, node_id="n1", address="10.0.0.1:6070", memory=CgroupMemory())
    ownership = OwnershipNode(store, catalog, node, node, node_id="n1", address="10.0.0.1:6070")
    node.join(ownership)
    tasks = [asyncio.create_task(each.run()) for each in (catalog, node, ownership)]

To ownership it is the workload and the memory probe. `index_controller` decides; this module performs the effects.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Protocol, TypeVar

from argosy.base.clock import Clock, Random, SystemClock, system_random
from argosy.base.driver import Driver
from argosy.base.errors import ArgosyError, Invalid, NotFound, Unavailable
from argosy.base.metrics import Metrics
from argosy.base.retry import Backoff, retry
from argosy.base.tasks import run_until_first_ends, wait_for_first
from argosy.base.tracing import NO_TRACER, Tracer
from argosy.ownership.model import Lease, LeaseState, Unit
from argosy.ownership.ports import MemoryProbe
from argosy.search.fleet.build_executor import BuildExecutor
from argosy.search.fleet.effects import (
    Admit,
    Build,
    CheckOrigin,
    DiscardIndex,
    Effect,
    Fetch,
    Forget,
    LoadIndex,
    Receive,
    RecordFailure,
    RecordIndexed,
    Refuse,
    Release,
    Restore,
    Save,
    Stop,
    UnloadIndex,
    VerifyIndex,
)
from argosy.search.fleet.events import Event, IndexVerified, PushReceived, SpecChanged, UnitGained, UnitLost
from argosy.search.fleet.held_repo import HeldRepo, JobStage
from argosy.search.fleet.index_controller import IndexController
from argosy.search.fleet.index_provisioner import IndexProvisioner, reason_of
from argosy.search.fleet.local_node import LocalNode
from argosy.search.fleet.model import Phase, RepoSpec, RepoStatus
from argosy.search.fleet.ports import Fetcher, Nodes
from argosy.search.fleet.snapshots import Snapshots
from argosy.search.fleet.telemetry import SearchTelemetry
from argosy.search.index.index import Index
from argosy.search.index_set import IndexSet
from argosy.search.ports import Advertiser
from argosy.search.settings import SearchSettings

# Six attempts within some six seconds: a restart of the registry is bridged, and a longer outage only logged.
RECORD_BACKOFF = Backoff(first_s=0.2, ceiling_s=5.0, attempts_max=6)
MEASURE_S = 5.0  # interval of the gauges
QUIESCE_S = 5.0  # longest wait of a drop for the requests under way

T = TypeVar("T")

_ANSWERING = (LeaseState.READY, LeaseState.DRAINING)
_PHASES = {
    JobStage.WAITING: Phase.WAITING,
    JobStage.RESTORING: Phase.RECEIVING,
    JobStage.RECEIVING: Phase.RECEIVING,
    JobStage.FETCHING: Phase.FETCHING,
    JobStage.FETCHED: Phase.FETCHING,
    JobStage.BUILDING: Phase.INDEXING,
}


class NodeCatalog(Protocol):
    """What a node reads from and records in the catalog; `CatalogWatcher` implements it."""

    observers: list[Callable[[], None]]

    @property
    def specs(self) -> Mapping[str, RepoSpec]: ...

    async def record_indexed(self, name: str, *, commit: str, footprint_bytes: int) -> None: ...
    async def record_failure(self, name: str, why: str) -> None: ...


class NodeLeases(Protocol):
    """What a node needs from ownership; `OwnershipNode` implements it."""

    def leases(self) -> list[Lease]: ...
    def own_leases(self) -> list[Lease]: ...
    def release(self, unit: Unit) -> None: ...


async def _no_wait(name: str) -> None:
    pass


def _unknown_latency(unit: Unit) -> float:
    return 0.0


class SearchNode:
    """Implements `ownership.ports.Workload` and `MemoryProbe`."""

    def __init__(
        self,
        catalog: NodeCatalog,
        fetcher: Fetcher,
        index_set: IndexSet,
        *,
        node_id: str,
        address: str,
        settings: SearchSettings | None = None,
        memory: MemoryProbe | None = None,
        nodes: Nodes | None = None,
        executor: BuildExecutor | None = None,
        advertiser: Advertiser | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        metrics: Metrics | None = None,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        """Without `nodes` every index is built from its origin; without `memory` the settings must set a budget."""
        self._settings = settings or SearchSettings()
        self.index_set = index_set
        self.before_drop: Callable[[str], Awaitable[object]] = _no_wait  # waits for the requests under way
        self._node_id = node_id
        self._address = address
        self._catalog = catalog
        self._advertiser = advertiser
        self._tracer = tracer
        self._memory = memory
        self._clock = clock or SystemClock()
        self._random = random or system_random()
        self._controller = IndexController(self._settings, _budget_bytes(self._settings, memory), self._random)
        self._driver: Driver[Event, Effect] = Driver(self._controller, self._perform, clock=self._clock)
        self._telemetry = SearchTelemetry(metrics or Metrics(), node=node_id)
        self._executor = executor or BuildExecutor(self._settings)
        snapshots = self._settings.snapshot_dir
        self._snapshots = Snapshots(snapshots, bytes_max=self._settings.snapshot_bytes_max) if snapshots else None
        self._provisioner = IndexProvisioner(
            fetcher,
            nodes,
            index_set,
            self._executor,
            self._snapshots,
            post=self._driver.post,
            telemetry=self._telemetry,
            tracer=tracer,
            clock=self._clock,
        )
        self._snapshot_lock = asyncio.Lock()  # one snapshot at a time: they share one disk
        self._leases: NodeLeases | None = None
        self._claim_latency_s: Callable[[Unit], float] = _unknown_latency
        self._posted_specs: dict[str, RepoSpec | None] = {}  # the spec last posted to the controller, by name
        self._warming: dict[str, list[asyncio.Future[int]]] = {}
        self._dropping: dict[str, list[asyncio.Future[None]]] = {}
        self._is_closed = False

    def join(self, leases: NodeLeases, *, claimed_after_s: Callable[[Unit], float] = _unknown_latency) -> None:
        """Sets the source of leases. `claimed_after_s` returns how long a unit was unowned before this node held it."""
        self._leases = leases
        self._claim_latency_s = claimed_after_s

    # -- lifecycle --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Runs until this task is cancelled."""
        self._catalog.observers.append(self._on_catalog_change)
        try:
            await run_until_first_ends(self._driver.run(), self._update_gauges())
        finally:
            self._catalog.observers.remove(self._on_catalog_change)
            # Ownership waits for these calls, and would wait forever.
            self._fail_waiting()

    async def close(self) -> None:
        """Releases the threads, after `run` has ended. No index is built or dropped from now on."""
        self._fail_waiting()
        self._executor.close()

    # -- Workload and MemoryProbe of ownership ----------------------------------------------------------------------

    async def warm(self, lease: Lease) -> int:
        """Returns the index memory once the repository is served; Unavailable, with the reason, if it cannot be."""
        unit, name = lease.unit, lease.unit.name
        self._check_open()
        ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._warming.setdefault(name, []).append(ready)
        # Recorded before the first await: a catalog change from now on is compared with the spec posted here.
        spec = self._posted_specs[name] = self._catalog.specs.get(name)
        claim_latency_s = self._claim_latency_s(unit)
        self._telemetry.record_claim(name, claim_latency_s)
        self._provisioner.warm_traces[name] = self._tracer.inject()
        self._driver.post(UnitGained(unit, spec, self._sibling(lease), claim_latency_s))
        try:
            return await ready
        finally:
            self._provisioner.warm_traces.pop(name, None)
            waiting = self._warming.get(name, [])
            if ready in waiting:
                waiting.remove(ready)

    async def drop(self, unit: Unit) -> None:
        """Returns once the index is unloaded. Requests under way are answered before."""
        # After the end of `run` nothing is served any more, so there is nothing to wait for.
        if self._is_closed:
            return
        await self.before_drop(unit.name)  # a drop must not fail requests that were accepted under the lease
        self._posted_specs.pop(unit.name, None)
        dropped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._dropping.setdefault(unit.name, []).append(dropped)
        self._driver.post(UnitLost(unit.name))
        await dropped

    def free_bytes(self) -> int:
        """Memory this node can offer, within its budget and within what the process may use."""
        free_bytes = self._controller.free_bytes()
        return free_bytes if self._memory is None else min(free_bytes, self._memory.free_bytes())

    # -- IndexHost of the local node --------------------------------------------------------------------------------

    def budget_bytes(self) -> int:
        return self._controller.memory.budget_bytes

    def held_bytes(self) -> int:
        return self._controller.memory.held_bytes

    def statuses(self) -> tuple[RepoStatus, ...]:
        """Of every held repository, by name."""
        repos, offset_s = self._controller.repos, self._wall_offset_s()
        return tuple(
            status_of(self._controller, repos[name], self._provisioner.progress(repos[name].job), offset_s)
            for name in sorted(repos)
        )

    def record_searches(self, names: Collection[str]) -> None:
        """Counts one search of each repository."""
        self._controller.traffic.record(names, self._clock.now())

    def notify_push(self, name: str) -> None:
        """Checks the origin of a repository at once, after a push notification."""
        self._driver.post(PushReceived(name))

    def spec(self, name: str) -> RepoSpec | None:
        return self._catalog.specs.get(name)

    # -- effects ----------------------------------------------------------------------------------------------------

    async def _perform(self, effect: Effect) -> Iterable[Event]:
        match effect:
            case CheckOrigin():
                return await self._provisioner.check_origin(effect)
            case Fetch() | Receive() | Restore():
                return await self._provisioner.provision(effect)
            case Build(number, is_incremental):
                self._provisioner.permit_build(number, is_incremental=is_incremental)
            case Stop(number):
                self._provisioner.stop(number)
            case LoadIndex(number, name):
                with self._provisioner.trace_of(number), self._tracer.span("serve", repository=name):
                    self._load(self._provisioner.take(number))
            case DiscardIndex(number):
                with self._provisioner.trace_of(number):
                    self._provisioner.take(number)
            case UnloadIndex(name, is_removed):
                self._unload(name)
                if is_removed:
                    await self._delete_snapshot(name)
            case Forget(name):
                self._forget(name)
            case Admit(name, memory_bytes):
                for ready in _pop_pending(self._warming, name):
                    ready.set_result(memory_bytes)
            case Refuse(name, reason):
                for ready in _pop_pending(self._warming, name):
                    ready.set_exception(Unavailable(reason))
            case Release(name, reason, is_eviction):
                self._release(name, reason, is_eviction=is_eviction)
            case VerifyIndex(number, name):
                return [IndexVerified(number, await self._verify(name))]
            case Save(name):
                await self._save_snapshot(name)
            case RecordIndexed() | RecordFailure():
                await self._record(effect)
        return ()

    def _forget(self, name: str) -> None:
        self._unload(name)
        if name not in self._posted_specs:  # else the unit was gained again meanwhile
            self._telemetry.remove(name)
        for dropped in _pop_pending(self._dropping, name):
            dropped.set_result(None)

    def _load(self, index: Index) -> None:
        self.index_set.put(index)
        if self._advertiser is not None:
            self._advertiser.on_indexed(index)

    def _unload(self, name: str) -> None:
        try:
            self.index_set.drop(name)
        except NotFound:
            return  # it was never loaded
        if self._advertiser is not None:
            self._advertiser.on_dropped(name)

    def _release(self, name: str, reason: str, *, is_eviction: bool) -> None:
        self._telemetry.record_release(name, reason, is_eviction=is_eviction)
        if self._leases is None:
            raise Invalid("search node without ownership: call join() before run()")
        for lease in self._leases.own_leases():
            if lease.unit.name == name:
                self._leases.release(lease.unit)

    async def _verify(self, name: str) -> bool:
        try:
            damages = await self._executor.verify(self.index_set.get(name))
        except NotFound:
            return True  # unloaded meanwhile: the controller ignores the result
        if damages:
            self._telemetry.record_damage(
                name, ", ".join(f"{each.section} of part {each.part}" for each in damages[:8])
            )
        return not damages

    async def _save_snapshot(self, name: str) -> None:
        # A snapshot only speeds up the next start: a failure is recorded and has no other consequence.
        async with self._snapshot_lock:
            try:
                index, snapshots = self.index_set.get(name), self._snapshots
                if snapshots is not None:
                    await self._executor.run(lambda: snapshots.save(index, self._executor.recipe))
            except NotFound:
                pass
            except (OSError, ValueError) as why:
                self._telemetry.record_failure(name, "snapshot", reason_of(why))

    async def _delete_snapshot(self, name: str) -> None:
        if (snapshots := self._snapshots) is None:
            return
        try:
            await self._executor.run(lambda: snapshots.delete(name))
        except OSError as why:
            self._telemetry.record_failure(name, "snapshot", reason_of(why))

    async def _record(self, effect: RecordIndexed | RecordFailure) -> None:
        """Records in the catalog, with retries. Serving does not depend on it, so a lasting failure is only logged."""

        async def attempt() -> None:
            match effect:
                case RecordIndexed(name, commit, footprint_bytes, failure):
                    await self._catalog.record_indexed(name, commit=commit, footprint_bytes=footprint_bytes)
                    if failure is not None:
                        await self._catalog.record_failure(name, failure)
                case RecordFailure(name, reason):
                    await self._catalog.record_failure(name, reason)

        try:
            await retry(attempt, RECORD_BACKOFF, clock=self._clock, random=self._random)
        except ArgosyError as why:
            self._telemetry.log.warning("catalog update failed", repository=effect.name, why=str(why))

    # -- helpers ----------------------------------------------------------------------------------------------------

    def _on_catalog_change(self) -> None:
        specs = self._catalog.specs
        for name, posted in list(self._posted_specs.items()):
            spec = specs.get(name)
            if spec != posted:
                self._posted_specs[name] = spec
                self._driver.post(SpecChanged(name, spec))

    def _sibling(self, lease: Lease) -> str | None:
        """The address of another node with a ready index: the primary's rather than a replica's."""
        others = [] if self._leases is None else self._leases.leases()
        # Successors and units being indexed have nothing to send.
        ready = [
            each
            for each in others
            if each.unit.name == lease.unit.name and each.state in _ANSWERING and each.address != self._address
        ]
        return min(ready, key=lambda each: abs(each.unit.replica)).address if ready else None

    async def _update_gauges(self) -> None:
        while True:
            self._telemetry.set_gauges(self._controller, self._wall_offset_s())
            await self._clock.sleep(MEASURE_S)

    def _wall_offset_s(self) -> float:
        return self._clock.wall() - self._clock.now()

    def _check_open(self) -> None:
        if self._is_closed:
            raise self._shutdown_error()

    def _shutdown_error(self) -> Unavailable:
        return Unavailable(f"node {self._node_id!r} has stopped; another node will hold the repository")

    def _fail_waiting(self) -> None:
        self._is_closed = True
        for name in list(self._warming):
            for ready in _pop_pending(self._warming, name):
                ready.set_exception(self._shutdown_error())
        for name in list(self._dropping):
            for dropped in _pop_pending(self._dropping, name):
                dropped.set_result(None)


async def quiesce(node: LocalNode, clock: Clock, name: str, *, within_s: float = QUIESCE_S) -> bool:
    """Waits until no request about the repository is under way; False if that takes longer than `within_s`."""
    if node.is_busy(name) and within_s > 0.0:
        await wait_for_first(node.wait_idle(name), clock.sleep(within_s))
    return not node.is_busy(name)


def phase_of(repo: HeldRepo) -> Phase:
    if repo.loaded is not None:
        return Phase.READY
    return Phase.FAILED if repo.job is None else _PHASES[repo.job.stage]


def status_of(controller: IndexController, repo: HeldRepo, progress: float, wall_offset_s: float) -> RepoStatus:
    """`wall_offset_s` converts the controller's times to seconds since 1970."""
    name, loaded, job = repo.name, repo.loaded, repo.job
    stats = None if loaded is None else loaded.stats
    last_at = controller.traffic.last_at(name)
    retry_at = controller.origin_checks.at(name) if repo.failures else None
    return RepoStatus(
        name=name,
        phase=phase_of(repo),
        replica=repo.unit.replica,
        reason=repo.reason,
        progress=1.0 if loaded is not None and job is None else progress,
        is_refreshing=loaded is not None and job is not None and job.stage is not JobStage.WAITING,
        is_pinned=repo.spec is not None and repo.spec.is_pinned,
        branches=() if stats is None else stats.branches,
        documents=0 if stats is None else stats.documents,
        content_bytes=0 if stats is None else stats.content_bytes,
        memory_bytes=repo.memory_bytes,
        fetch_time_ms=0.0 if stats is None else stats.fetch_time_ms,
        index_time_ms=0.0 if stats is None else stats.index_time_ms,
        claim_latency_s=repo.claim_latency_s,
        indexed_at=0.0 if loaded is None else loaded.at + wall_offset_s,
        last_served_at=0.0 if last_at is None else last_at + wall_offset_s,
        retry_at=0.0 if retry_at is None else retry_at + wall_offset_s,
        searches=controller.traffic.searches(name),
    )


def _pop_pending(waiting: dict[str, list[asyncio.Future[T]]], name: str) -> list[asyncio.Future[T]]:
    return [future for future in waiting.pop(name, []) if not future.done()]


def _budget_bytes(settings: SearchSettings, memory: MemoryProbe | None) -> int:
    if settings.budget_bytes is not None:
        return settings.budget_bytes
    if memory is None:
        raise Invalid("the memory of this process is unknown: set search.budget_bytes")
    return max(1, int(memory.free_bytes() * settings.budget_share))
