"""The maker: brings one index about, from this machine's disk, from another node, or from its origin.

Each making is a task of its own that can be given up at any moment. Whichever way it goes, it is answered once, and
what was finished waits under its number until somebody takes it.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace

import msgspec

from argosy.base.clock import Clock
from argosy.base.errors import ArgosyError, Invalid, NotFound
from argosy.base.redact import redact
from argosy.base.tracing import Tracer
from argosy.search.backends.snapshots import Snapshots
from argosy.search.fleet import effects as do
from argosy.search.fleet import events as saw
from argosy.search.fleet.build_executor import BuildExecutor
from argosy.search.fleet.held_repo import IndexJob
from argosy.search.fleet.model import RepoSpec
from argosy.search.fleet.ports import Fetcher, Nodes
from argosy.search.fleet.telemetry import SearchTelemetry
from argosy.search.index.index import Index
from argosy.search.index_set import IndexSet

REASON_CHARS_MAX = 500

_Order = do.Fetch | do.Receive | do.Restore


@dataclass
class _Job:
    """A making under way."""

    permit: asyncio.Future[bool]  # whether to renew, once there is a place among the builds
    task: asyncio.Task[tuple[Index, saw.IndexStats]] | None = None
    step: str = "fetch"
    progress: float = 0.0


class IndexProvisioner:
    """Makes indexes by number."""

    def __init__(
        self,
        fetcher: Fetcher,
        nodes: Nodes | None,
        shelf: IndexSet,
        workshop: BuildExecutor,
        snapshots: Snapshots | None,
        *,
        tell: Callable[[saw.Event], None],
        teller: SearchTelemetry,
        tracer: Tracer,
        clock: Clock,
    ) -> None:
        self._fetcher = fetcher
        self._nodes = nodes
        self._shelf = shelf
        self._workshop = workshop
        self._snapshots = snapshots
        self._tell = tell
        self._teller = teller
        self._tracer = tracer
        self._clock = clock
        self._jobs: dict[int, _Job] = {}
        self._made: dict[int, Index] = {}
        self._traces: dict[int, dict[str, str]] = {}  # of what was made, until it is taken
        self.wanted_by: dict[str, dict[str, str]] = {}  # the trace in which a repository is waited for

    def progress(self, making: IndexJob | None) -> float:
        job = None if making is None else self._jobs.get(making.number)
        return 0.0 if job is None else job.progress

    def let_build(self, number: int, *, is_renewal: bool) -> None:
        if (job := self._jobs.get(number)) is not None and not job.permit.done():
            job.permit.set_result(is_renewal)

    def stop(self, number: int) -> None:
        if (job := self._jobs.get(number)) is not None and job.task is not None:
            job.task.cancel()

    def take(self, number: int) -> Index:
        """The finished index; it is no longer kept here."""
        return self._made.pop(number)

    @contextmanager
    def traced(self, number: int) -> Iterator[None]:
        """Goes on with the trace of what was made."""
        with self._tracer.extract(self._traces.pop(number, {})):
            yield

    async def look(self, order: do.CheckOrigin) -> list[saw.Event]:
        try:
            return [saw.OriginChecked(order.number, await self._fetcher.heads(order.spec))]
        except Exception as why:
            return [saw.OriginCheckFailed(order.number, self._failed(order.spec, "look", why))]

    async def make(self, order: _Order) -> list[saw.Event]:
        number = order.number
        job = self._jobs[number] = _Job(asyncio.get_running_loop().create_future())
        task = job.task = asyncio.ensure_future(self._made_by(order, job))
        try:
            await asyncio.wait([task])
        finally:
            del self._jobs[number]
            if not task.done():  # the node itself ends
                task.cancel()
                await asyncio.wait([task])
        if task.cancelled():
            return [saw.ProvisionStopped(number)]
        if (why := task.exception()) is not None:
            if not isinstance(why, Exception):
                raise why
            return [saw.ProvisionFailed(number, self._failed(order.spec, job.step, why))]
        self._made[number], figures = task.result()
        return [saw.IndexProvisioned(number, figures)]

    async def _made_by(self, order: _Order, job: _Job) -> tuple[Index, saw.IndexStats]:
        began = self._clock.now()
        waiting = self.wanted_by.get(order.spec.name, {})
        with self._tracer.extract(waiting), self._tracer.span("make index", repository=order.spec.name) as span:
            match order:
                case do.Fetch(number, spec):
                    how, index, figures = await self._from_origin(number, spec, job)
                case do.Receive(_, spec, address):
                    how, index = "received", await self._from_node(spec, address, job)
                    figures = self._workshop.weigh(index, fetch_time_ms=self._since_ms(began))
                case do.Restore(_, spec):
                    how, index = "restored", await self._from_disk(spec, job)
                    figures = self._workshop.weigh(index, fetch_time_ms=self._since_ms(began))
            span.set("how", how)
            self._traces[order.number] = self._tracer.inject()
        self._teller.made(spec.name, how, figures, self._clock.now() - began)
        return index, figures

    async def _from_origin(self, number: int, spec: RepoSpec, job: _Job) -> tuple[str, Index, saw.IndexStats]:
        def told(progress: float) -> None:
            job.progress = progress

        began = self._clock.now()
        async with AsyncExitStack() as stack:
            with self._tracer.span("fetch", repository=spec.name):
                source = await stack.enter_async_context(self._fetcher.fetch(spec, told))
            fetch_time_ms = self._since_ms(began)
            self._tell(saw.Fetched(number))
            is_renewal = await job.permit
            job.step, began = "index", self._clock.now()
            previous = self._on_shelf(spec.name) if is_renewal else None

            told(0.0)
            with self._tracer.span("index", repository=spec.name, is_renewal=previous is not None):
                index = _named(await self._workshop.build(source, previous, told), spec.name)
        figures = self._workshop.weigh(index, fetch_time_ms=fetch_time_ms, index_time_ms=self._since_ms(began))
        return "built" if previous is None else "renewed", index, figures

    async def _from_node(self, spec: RepoSpec, address: str, job: _Job) -> Index:
        job.step = "receive"
        if self._nodes is None:
            raise Invalid("this node asks no others for their indexes")
        with self._tracer.span("receive", repository=spec.name, sender=address):
            return _checked_name(await self._workshop.receive(self._nodes.at(address).index(spec.name)), spec.name)

    async def _from_disk(self, spec: RepoSpec, job: _Job) -> Index:
        job.step = "restore"
        snapshots, recipe = self._snapshots, self._workshop.recipe
        if snapshots is None:
            raise Invalid("this node keeps no snapshots")
        with self._tracer.span("restore", repository=spec.name):
            heads = await self._fetcher.heads(spec)
            found = await self._workshop.run(lambda: snapshots.restore(spec.name, heads, recipe))
        if found is None:
            raise NotFound(f"there is no snapshot of {spec.name!r} as it is now")
        return found

    def _on_shelf(self, name: str) -> Index | None:
        try:
            return self._shelf.get(name)
        except NotFound:
            return None

    def _failed(self, spec: RepoSpec, step: str, why: Exception) -> str:
        reason = reason_of(why)
        self._teller.failed(spec.name, step, reason, None if isinstance(why, ArgosyError | OSError) else why)
        return reason

    def _since_ms(self, began: float) -> float:
        return (self._clock.now() - began) * 1000.0


def reason_of(why: Exception) -> str:
    """In a line fit to be shown; what nobody foresaw is told with its kind."""
    text = str(why) if isinstance(why, ArgosyError) else f"{type(why).__name__}: {why}"
    return redact(text)[:REASON_CHARS_MAX]


def _named(index: Index, name: str) -> Index:
    """A source may call a repository by its folder; here it has the name it is wished for by."""
    if index.repository.name == name:
        return index
    return replace(index, repository=msgspec.structs.replace(index.repository, name=name))


def _checked_name(index: Index, name: str) -> Index:
    if index.repository.name != name:
        raise Invalid(f"asked for the index of {name!r} and was given that of {index.repository.name!r}")
    return index
