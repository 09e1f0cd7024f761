"""A search node: makes the indexes of the units it holds, keeps them fresh and sound, and gives them up when it must.

    node = SearchNode(catalog, fetcher, shelf, node_id="n1", address="10.0.0.1:6070", memory=CgroupMemory())
    ownership = OwnershipNode(store, catalog, node, node, node_id="n1", address="10.0.0.1:6070")
    node.join(ownership)
    tasks = [asyncio.create_task(each.run()) for each in (catalog, node, ownership)]

To ownership it is the workload and the memory probe. What to do is the library's decision; here it is done.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Protocol, TypeVar

from argosy.base.clock import Clock, Random, SystemClock, system_random
from argosy.base.driver import Driver
from argosy.base.errors import ArgosyError, Invalid, NotFound, Unavailable
from argosy.base.metrics import Metrics
from argosy.base.retry import Backoff, retry
from argosy.base.tasks import run_until_first_ends
from argosy.base.tracing import NO_TRACER, Tracer
from argosy.ownership.model import Lease, LeaseState, Unit
from argosy.ownership.ports import MemoryProbe
from argosy.search.backends.snapshots import Snapshots
from argosy.search.fleet import effects as do
from argosy.search.fleet import events as saw
from argosy.search.fleet.build_executor import BuildExecutor
from argosy.search.fleet.index_controller import IndexController
from argosy.search.fleet.index_provisioner import IndexProvisioner, reason_of
from argosy.search.fleet.model import RepoSpec, RepoStatus
from argosy.search.fleet.ports import Fetcher, Nodes
from argosy.search.fleet.statuses import status_of
from argosy.search.fleet.telemetry import SearchTelemetry
from argosy.search.index.index import Index
from argosy.search.index_set import IndexSet
from argosy.search.ports import Advertiser
from argosy.search.settings import SearchSettings

NOTE_BACKOFF = Backoff(first_s=0.2, ceiling_s=5.0, attempts_max=6)
MEASURE_S = 5.0  # how often figures are brought up to date

T = TypeVar("T")

_ANSWERING = (LeaseState.READY, LeaseState.DRAINING)


class Catalog(Protocol):
    """What a node reads from the catalog, and what it writes there; `CatalogWatcher` is one."""

    observers: list[Callable[[], None]]

    @property
    def specs(self) -> Mapping[str, RepoSpec]: ...

    async def record_indexed(self, name: str, *, commit: str, footprint_bytes: int) -> None: ...
    async def record_failure(self, name: str, why: str) -> None: ...


class Leases(Protocol):
    """What a node asks of ownership; `OwnershipNode` is one."""

    def leases(self) -> list[Lease]: ...
    def own_leases(self) -> list[Lease]: ...
    def release(self, unit: Unit) -> None: ...


async def _at_once(name: str) -> None:
    """Nobody is in the way."""


def _unknown(unit: Unit) -> float:
    return 0.0


class SearchNode:
    """Implements `ownership.ports.Workload` and `MemoryProbe`."""

    def __init__(
        self,
        catalog: Catalog,
        fetcher: Fetcher,
        shelf: IndexSet,
        *,
        node_id: str,
        address: str,
        settings: SearchSettings | None = None,
        memory: MemoryProbe | None = None,
        nodes: Nodes | None = None,
        workshop: BuildExecutor | None = None,
        advertiser: Advertiser | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        metrics: Metrics | None = None,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        """Without `nodes` every index is made from its origin; without `memory` the settings must name a budget."""
        self._settings = settings or SearchSettings()
        self.shelf = shelf
        self.before_drop: Callable[[str], Awaitable[object]] = _at_once  # awaits the questions under way
        self._node_id = node_id
        self._address = address
        self._catalog = catalog
        self._advertiser = advertiser
        self._tracer = tracer
        self._memory = memory
        self._clock = clock or SystemClock()
        self._random = random or system_random()
        self._library = IndexController(self._settings, _budget_bytes(self._settings, memory), self._random)
        self._driver: Driver[saw.Event, do.Effect] = Driver(self._library, self._perform, clock=self._clock)
        self._teller = SearchTelemetry(metrics or Metrics(), node=node_id)
        self._workshop = workshop or BuildExecutor(self._settings)
        snapshots = self._settings.snapshot_dir
        self._snapshots = Snapshots(snapshots, bytes_max=self._settings.snapshot_bytes_max) if snapshots else None
        self._maker = IndexProvisioner(
            fetcher,
            nodes,
            shelf,
            self._workshop,
            self._snapshots,
            tell=self._driver.post,
            teller=self._teller,
            tracer=tracer,
            clock=self._clock,
        )
        self._saving = asyncio.Lock()  # one copy at a time: the disk is one
        self._leases: Leases | None = None
        self._claimed_after_s: Callable[[Unit], float] = _unknown
        self._told: dict[str, RepoSpec | None] = {}  # what the library was last told of each name
        self._warming: dict[str, list[asyncio.Future[int]]] = {}
        self._dropping: dict[str, list[asyncio.Future[None]]] = {}
        self._is_closed = False

    def join(self, leases: Leases, *, claimed_after_s: Callable[[Unit], float] = _unknown) -> None:
        """Tells the node through whom it holds units; `claimed_after_s` says how long a unit was open before."""
        self._leases = leases
        self._claimed_after_s = claimed_after_s

    # -- life -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Works until this task is cancelled."""
        self._catalog.observers.append(self._catalog_changed)
        try:
            await run_until_first_ends(self._driver.run(), self._measure())
        finally:
            self._catalog.observers.remove(self._catalog_changed)
            self._abandon_waiting()

    async def close(self) -> None:
        """After `run` has ended: lets the threads go. Nothing more is made or dropped."""
        self._abandon_waiting()
        self._workshop.close()

    # -- for ownership ----------------------------------------------------------------------------------------------

    async def warm(self, lease: Lease) -> int:
        """Returns once the repository is on the shelf; Unavailable, with the reason, if it cannot be brought there."""
        unit, name = lease.unit, lease.unit.name
        self._refuse_if_closed()
        ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._warming.setdefault(name, []).append(ready)
        spec = self._told[name] = self._catalog.specs.get(name)
        claim_latency_s = self._claimed_after_s(unit)
        self._teller.claimed(name, claim_latency_s)
        self._maker.wanted_by[name] = self._tracer.inject()
        self._driver.post(saw.UnitGained(unit, spec, self._sibling(lease), claim_latency_s))
        try:
            return await ready
        finally:
            self._maker.wanted_by.pop(name, None)
            waiting = self._warming.get(name, [])
            if ready in waiting:
                waiting.remove(ready)

    async def drop(self, unit: Unit) -> None:
        """Returns once the repository's memory is free; questions under way are answered before."""
        if self._is_closed:
            return
        await self.before_drop(unit.name)
        self._told.pop(unit.name, None)
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._dropping.setdefault(unit.name, []).append(gone)
        self._driver.post(saw.UnitLost(unit.name))
        await gone

    def free_bytes(self) -> int:
        """What this node can still offer: within its budget, and within what the process may take."""
        free_bytes = self._library.free_bytes()
        return free_bytes if self._memory is None else min(free_bytes, self._memory.free_bytes())

    # -- for the desk -----------------------------------------------------------------------------------------------

    def budget_bytes(self) -> int:
        return self._library.memory.budget_bytes

    def held_bytes(self) -> int:
        return self._library.memory.held_bytes

    def statuses(self) -> tuple[RepoStatus, ...]:
        """Of every repository this node works on, by name."""
        volumes, offset_s = self._library.volumes, self._wall_offset_s()
        return tuple(
            status_of(self._library, volumes[name], self._maker.progress(volumes[name].making), offset_s)
            for name in sorted(volumes)
        )

    def served(self, names: Collection[str]) -> None:
        """These were searched just now."""
        self._library.traffic.note(names, self._clock.now())

    def told(self, name: str) -> None:
        """A repository has new commits, somebody says: look now."""
        self._driver.post(saw.PushReceived(name))

    def spec(self, name: str) -> RepoSpec | None:
        return self._catalog.specs.get(name)

    # -- effects ----------------------------------------------------------------------------------------------------

    async def _perform(self, effect: do.Effect) -> Iterable[saw.Event]:
        match effect:
            case do.CheckOrigin():
                return await self._maker.look(effect)
            case do.Fetch() | do.Receive() | do.Restore():
                return await self._maker.make(effect)
            case do.Build(number, is_renewal):
                self._maker.let_build(number, is_renewal=is_renewal)
            case do.Stop(number):
                self._maker.stop(number)
            case do.Put(number, name):
                with self._maker.traced(number), self._tracer.span("serve", repository=name):
                    self._on_the_shelf(self._maker.take(number))
            case do.Discard(number):
                with self._maker.traced(number):
                    self._maker.take(number)
            case do.Withdraw(name, is_unwanted):
                self._off_the_shelf(name)
                if is_unwanted:
                    await self._delete_snapshot(name)
            case do.Forget(name):
                self._forget(name)
            case do.Admit(name, memory_bytes):
                for ready in _unanswered(self._warming, name):
                    ready.set_result(memory_bytes)
            case do.Refuse(name, reason):
                for ready in _unanswered(self._warming, name):
                    ready.set_exception(Unavailable(reason))
            case do.Release(name, reason, is_eviction):
                self._release(name, reason, is_eviction=is_eviction)
            case do.VerifyIndex(number, name):
                return [saw.IndexVerified(number, await self._is_sound(name))]
            case do.Save(name):
                await self._save(name)
            case do.NoteIndexed() | do.NoteFailed():
                await self._note(effect)
        return ()

    def _forget(self, name: str) -> None:
        self._off_the_shelf(name)
        if name not in self._told:  # else it was gained again meanwhile
            self._teller.forgotten(name)
        for gone in _unanswered(self._dropping, name):
            gone.set_result(None)

    def _on_the_shelf(self, index: Index) -> None:
        self.shelf.put(index)
        if self._advertiser is not None:
            self._advertiser.indexed(index)

    def _off_the_shelf(self, name: str) -> None:
        try:
            self.shelf.drop(name)
        except NotFound:
            return  # it never got there
        if self._advertiser is not None:
            self._advertiser.dropped(name)

    def _release(self, name: str, reason: str, *, is_eviction: bool) -> None:
        self._teller.released(name, reason, is_eviction=is_eviction)
        if self._leases is None:
            raise Invalid("a search node must be joined to its ownership before it runs: call join()")
        for lease in self._leases.own_leases():
            if lease.unit.name == name:
                self._leases.release(lease.unit)

    async def _is_sound(self, name: str) -> bool:
        try:
            damages = await self._workshop.verify(self.shelf.get(name))
        except NotFound:
            return True  # gone meanwhile; nobody asks any more
        if damages:
            self._teller.damaged(name, ", ".join(f"{each.section} of part {each.part}" for each in damages[:8]))
        return not damages

    async def _save(self, name: str) -> None:
        """A copy that cannot be written is a pity and nothing more."""
        async with self._saving:
            try:
                index, snapshots = self.shelf.get(name), self._snapshots
                if snapshots is not None:
                    await self._workshop.run(lambda: snapshots.save(index, self._workshop.recipe))
            except NotFound:
                pass
            except (OSError, ValueError) as why:
                self._teller.failed(name, "snapshot", reason_of(why))

    async def _delete_snapshot(self, name: str) -> None:
        if (snapshots := self._snapshots) is None:
            return
        try:
            await self._workshop.run(lambda: snapshots.delete(name))
        except OSError as why:
            self._teller.failed(name, "snapshot", reason_of(why))

    async def _note(self, effect: do.NoteIndexed | do.NoteFailed) -> None:
        """Into the catalog, as long as it is not away for too long: serving does not depend on it."""

        async def attempt() -> None:
            match effect:
                case do.NoteIndexed(name, commit, footprint_bytes, but):
                    await self._catalog.record_indexed(name, commit=commit, footprint_bytes=footprint_bytes)
                    if but is not None:
                        await self._catalog.record_failure(name, but)
                case do.NoteFailed(name, reason):
                    await self._catalog.record_failure(name, reason)

        try:
            await retry(attempt, NOTE_BACKOFF, clock=self._clock, random=self._random)
        except ArgosyError as why:
            self._teller.log.warning("not noted in the catalog", repository=effect.name, why=str(why))

    # -- small steps ------------------------------------------------------------------------------------------------

    def _catalog_changed(self) -> None:
        specs = self._catalog.specs
        for name, known in list(self._told.items()):
            spec = specs.get(name)
            if spec != known:
                self._told[name] = spec
                self._driver.post(saw.SpecChanged(name, spec))

    def _sibling(self, lease: Lease) -> str | None:
        """The address of a node that has this index ready: the primary's rather than a replica's."""
        others = [] if self._leases is None else self._leases.leases()
        ready = [
            each
            for each in others
            if each.unit.name == lease.unit.name and each.state in _ANSWERING and each.address != self._address
        ]
        return min(ready, key=lambda each: abs(each.unit.replica)).address if ready else None

    async def _measure(self) -> None:
        while True:
            self._teller.figures(self._library, self._wall_offset_s())
            await self._clock.sleep(MEASURE_S)

    def _wall_offset_s(self) -> float:
        return self._clock.wall() - self._clock.now()

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise Unavailable(f"node {self._node_id!r} has stopped: another one will take over")

    def _abandon_waiting(self) -> None:
        self._is_closed = True
        for name in list(self._warming):
            for ready in _unanswered(self._warming, name):
                ready.set_exception(Unavailable(f"node {self._node_id!r} has stopped: another one will take over"))
        for name in list(self._dropping):
            for gone in _unanswered(self._dropping, name):
                gone.set_result(None)


def _unanswered(waiting: dict[str, list[asyncio.Future[T]]], name: str) -> list[asyncio.Future[T]]:
    return [future for future in waiting.pop(name, []) if not future.done()]


def _budget_bytes(settings: SearchSettings, memory: MemoryProbe | None) -> int:
    if settings.budget_bytes is not None:
        return settings.budget_bytes
    if memory is None:
        raise Invalid("nothing tells how much memory there is: set search.budget_bytes")
    return max(1, int(memory.free_bytes() * settings.budget_share))
