"""The provisioner: obtains one index, from a snapshot on local disk, from another node, or from its origin.

Each job is a task of its own that can be cancelled at any time. It ends with exactly one event. A finished index is
kept under the number of its job until it is taken.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, replace

import msgspec

from argosy.base.clock import Clock
from argosy.base.errors import ArgosyError, Invalid, NotFound
from argosy.base.redact import redact
from argosy.base.tracing import Tracer
from argosy.search.fleet.build_executor import BuildExecutor
from argosy.search.fleet.effects import CheckOrigin, Fetch, Receive, Restore
from argosy.search.fleet.events import (
    Event,
    IndexProvisioned,
    IndexStats,
    OriginChecked,
    OriginCheckFailed,
    ProvisionFailed,
    ProvisionStopped,
    SourceFetched,
)
from argosy.search.fleet.held_repo import IndexJob
from argosy.search.fleet.model import RepoSpec
from argosy.search.fleet.ports import Fetcher, Nodes
from argosy.search.fleet.snapshots import Snapshots
from argosy.search.fleet.telemetry import SearchTelemetry
from argosy.search.index.index import Index
from argosy.search.index_set import IndexSet

# A reason is stored in the catalog and shown in tables.
REASON_CHARS_MAX = 500

_ProvisionEffect = Fetch | Receive | Restore


@dataclass
class _RunningJob:
    permit: asyncio.Future[bool]  # set when a build slot is free; whether the build may be incremental
    task: asyncio.Task[tuple[Index, IndexStats]] | None = None
    step: str = "fetch"
    progress: float = 0.0


class IndexProvisioner:
    """Index jobs by number."""

    def __init__(
        self,
        fetcher: Fetcher,
        nodes: Nodes | None,
        index_set: IndexSet,
        executor: BuildExecutor,
        snapshots: Snapshots | None,
        *,
        post: Callable[[Event], None],
        telemetry: SearchTelemetry,
        tracer: Tracer,
        clock: Clock,
    ) -> None:
        self._fetcher = fetcher
        self._nodes = nodes
        self._index_set = index_set
        self._executor = executor
        self._snapshots = snapshots
        self._post = post
        self._telemetry = telemetry
        self._tracer = tracer
        self._clock = clock
        self._running: dict[int, _RunningJob] = {}
        self._finished: dict[int, Index] = {}
        self._traces: dict[int, dict[str, str]] = {}  # trace context of finished indexes
        self.warm_traces: dict[str, dict[str, str]] = {}  # trace context of the `warm` call by repository

    def progress(self, job: IndexJob | None) -> float:
        running = None if job is None else self._running.get(job.number)
        return 0.0 if running is None else running.progress

    def permit_build(self, number: int, *, is_incremental: bool) -> None:
        if (running := self._running.get(number)) is not None and not running.permit.done():
            running.permit.set_result(is_incremental)

    def stop(self, number: int) -> None:
        if (running := self._running.get(number)) is not None and running.task is not None:
            running.task.cancel()

    def take(self, number: int) -> Index:
        """Removes and returns a finished index."""
        return self._finished.pop(number)

    @contextmanager
    def trace_of(self, number: int) -> Iterator[None]:
        """Continues the trace of a finished index."""
        with self._tracer.extract(self._traces.pop(number, {})):
            yield

    async def check_origin(self, effect: CheckOrigin) -> list[Event]:
        try:
            return [OriginChecked(effect.number, await self._fetcher.heads(effect.spec))]
        # Any exception: a check that ends without an event would keep its slot forever.
        except Exception as why:
            return [OriginCheckFailed(effect.number, self._record_failure(effect.spec, "check_origin", why))]

    async def provision(self, effect: _ProvisionEffect) -> list[Event]:
        number = effect.number
        running = self._running[number] = _RunningJob(asyncio.get_running_loop().create_future())
        task = running.task = asyncio.ensure_future(self._run(effect, running))
        try:
            # Not `await task`: its failure becomes an event, and its cancellation by `stop` must not cancel this call.
            await asyncio.wait([task])
        finally:
            del self._running[number]
            if not task.done():  # the node itself is being stopped
                task.cancel()
                await asyncio.wait([task])
        if task.cancelled():
            return [ProvisionStopped(number)]
        if (why := task.exception()) is not None:
            # KeyboardInterrupt and the like end the process, and are no failure of the job.
            if not isinstance(why, Exception):
                raise why
            return [ProvisionFailed(number, self._record_failure(effect.spec, running.step, why))]
        self._finished[number], stats = task.result()
        return [IndexProvisioned(number, stats)]

    async def _run(self, effect: _ProvisionEffect, running: _RunningJob) -> tuple[Index, IndexStats]:
        began = self._clock.now()
        warm_trace = self.warm_traces.get(effect.spec.name, {})
        with self._tracer.extract(warm_trace), self._tracer.span("make index", repository=effect.spec.name) as span:
            match effect:
                case Fetch(number, spec):
                    how, index, stats = await self._build_from_origin(number, spec, running)
                case Receive(_, spec, address):
                    how, index = "received", await self._receive_from_node(spec, address, running)
                    stats = self._executor.measure(index, fetch_time_ms=self._since_ms(began))
                case Restore(_, spec):
                    how, index = "restored", await self._restore_snapshot(spec, running)
                    stats = self._executor.measure(index, fetch_time_ms=self._since_ms(began))
            span.set("how", how)
            self._traces[effect.number] = self._tracer.inject()
        self._telemetry.record_index(spec.name, how, stats, self._clock.now() - began)
        return index, stats

    async def _build_from_origin(
        self, number: int, spec: RepoSpec, running: _RunningJob
    ) -> tuple[str, Index, IndexStats]:
        def on_progress(progress: float) -> None:
            running.progress = progress

        began = self._clock.now()
        async with AsyncExitStack() as stack:
            with self._tracer.span("fetch", repository=spec.name):
                source = await stack.enter_async_context(self._fetcher.fetch(spec, on_progress))
            fetch_time_ms = self._since_ms(began)
            self._post(SourceFetched(number))
            is_incremental = await running.permit
            running.step, began = "index", self._clock.now()
            previous = None
            if is_incremental:
                with suppress(NotFound):  # unloaded meanwhile: the build reuses nothing
                    previous = self._index_set.get(spec.name)
            on_progress(0.0)
            with self._tracer.span("index", repository=spec.name, is_incremental=previous is not None):
                index = await self._executor.build(source, previous, on_progress)
        if index.repository.name != spec.name:
            # A source may name a repository after its directory; the fleet uses the name in the catalog.
            index = replace(index, repository=msgspec.structs.replace(index.repository, name=spec.name))
        stats = self._executor.measure(index, fetch_time_ms=fetch_time_ms, index_time_ms=self._since_ms(began))
        return "built" if previous is None else "incremental", index, stats

    async def _receive_from_node(self, spec: RepoSpec, address: str, running: _RunningJob) -> Index:
        running.step = "receive"
        if self._nodes is None:
            raise Invalid("this node does not receive indexes from other nodes")
        with self._tracer.span("receive", repository=spec.name, sender=address):
            index = await self._executor.receive(self._nodes.at(address).index(spec.name))
        if index.repository.name != spec.name:
            raise Invalid(f"requested the index of {spec.name!r}, received that of {index.repository.name!r}")
        return index

    async def _restore_snapshot(self, spec: RepoSpec, running: _RunningJob) -> Index:
        running.step = "restore"
        snapshots, recipe = self._snapshots, self._executor.recipe
        if snapshots is None:
            raise Invalid("this node has no snapshots: search.snapshot_dir is not set")
        with self._tracer.span("restore", repository=spec.name):
            # A snapshot of other commits is useless: building incrementally needs the loaded index, not a stale copy.
            heads = await self._fetcher.heads(spec)
            found = await self._executor.run(lambda: snapshots.restore(spec.name, heads, recipe))
        if found is None:
            raise NotFound(f"no snapshot of {spec.name!r} at its current commits")
        return found

    def _record_failure(self, spec: RepoSpec, step: str, why: Exception) -> str:
        reason = reason_of(why)
        is_expected = isinstance(why, ArgosyError | OSError)
        self._telemetry.record_failure(spec.name, step, reason, None if is_expected else why)
        return reason

    def _since_ms(self, began: float) -> float:
        return (self._clock.now() - began) * 1000.0


def reason_of(why: Exception) -> str:
    """One line for status pages, redacted and bounded; an unexpected exception is shown with its type."""
    text = str(why) if isinstance(why, ArgosyError) else f"{type(why).__name__}: {why}"
    return redact(text)[:REASON_CHARS_MAX]
