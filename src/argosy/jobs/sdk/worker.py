"""`Worker`: leases tasks, calls handlers, sends heartbeats, and reports outcomes.

    worker = Worker(JobsClient.connect("127.0.0.1:7450"))

    @worker.handler("mail")
    async def send_mail(payload): ...

    worker.run_forever()

It sends a waiting poll to every node of the cluster for each group, so a job that becomes due is leased without delay.
A task occupies a slot from its lease until its outcome is durable; heartbeats are sent meanwhile, those of all tasks of
a node in one call. A worker that loses its lease stops the handler and reports nothing: another worker has the task.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar
from uuid import uuid4

from argosy.base import logs
from argosy.base.errors import ArgosyError, Invalid
from argosy.base.tasks import cancel_all
from argosy.base.tracing import NO_TRACER, Tracer
from argosy.jobs.api import argosy_jobs_pb2 as pb
from argosy.jobs.model import LEASE_MS, NO_TENANT, TaskOutcome
from argosy.jobs.ports import ShardInfo
from argosy.jobs.sdk.client import JobsClient
from argosy.jobs.sdk.errors import is_retryable
from argosy.jobs.sdk.flow_control import Batcher, WorkerSlots
from argosy.jobs.sdk.handlers import Handler, RunningTask, TaskContext, find_marked, handler_of, in_thread
from argosy.jobs.sdk.links import REPORT_REFRESH
from argosy.jobs.sdk.router import BACKOFF
from argosy.jobs.sdk.task_leases import ANSWER_S, ITEM_BYTES, HeldTask, TaskLeases
from argosy.jobs.silo import silo_pb2 as silo

F = TypeVar("F", bound=Callable[..., Any])
Refresher = Callable[[str, int, Mapping[str, str]], int | Awaitable[int]]

CONCURRENCY = 16
CONCURRENCY_MAX = 1_000
# How long a poll waits at the node. A stopping worker lets its polls end instead of cancelling them, because a response
# that is on its way carries leases; so this is also a delay of stopping.
POLL_S = 2.0
ROTATION_S = 0.25  # the same if there are more polls than slots and they must take turns
STOP_S = 30.0  # for running tasks to end
RELEASE_S = 10.0  # for the report of released tasks
MAP_S = 5.0  # between two reads of the shard map, which finds new nodes
HEARTBEATS_PER_LEASE = 3  # two may be lost before the lease expires
HEARTBEAT_S_MIN = 0.1  # between two, however often a handler reports progress
HEARTBEAT_RETRY_S = 0.5  # after heartbeats that failed
NO_REFRESHER = "NO_REFRESHER"

_log = logs.get("jobs.worker")


class Worker:
    """One per process. `run` returns after `stop`, when no task is left."""

    def __init__(
        self,
        client: JobsClient,
        *,
        concurrency: int = CONCURRENCY,
        name: str = "",
        poll_s: float = POLL_S,
        stop_s: float = STOP_S,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        if not 1 <= concurrency <= CONCURRENCY_MAX:
            raise Invalid(f"concurrency must be between 1 and {CONCURRENCY_MAX}; got {concurrency}")
        self.client = client
        # Unique per process: the broker rejects a heartbeat of another worker's lease.
        self.name = name or f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        self._router = client.router
        self._poll_s = poll_s
        self._stop_s = stop_s
        self._tracer = tracer
        self._handlers: dict[str, Handler] = {}
        self._refresh: Refresher | None = None
        self._slots = WorkerSlots(concurrency)
        self._running: dict[str, RunningTask] = {}
        self._works: set[asyncio.Task[None]] = set()
        self._targets: set[tuple[str, str]] = set()  # groups and addresses to poll
        self._pollers: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._leases = TaskLeases(client.router, self.name)
        self._reports: Batcher[tuple[HeldTask, TaskOutcome], None] = Batcher(self._leases.report)
        self._stopping = asyncio.Event()
        self._heartbeat_now = asyncio.Event()
        self._changed = asyncio.Event()  # a poll has ended, or the shard map may have changed

    def handler(self, task_group: str) -> Callable[[F], F]:
        """Decorator: registers a function as the handler of a group."""

        def register(function: F) -> F:
            self._add(handler_of(task_group, function))
            return function

        return register

    def add(self, things: Iterable[object]) -> list[str]:
        """Registers the functions that are decorated with `job`; returns their groups."""
        handlers = find_marked(things)
        for each in handlers:
            self._add(each)
        return [each.task_group for each in handlers]

    def refresher(self, function: Refresher) -> Refresher:
        """Decorator: registers the function that returns the maximum of a floating limit: (key, current, metadata)."""
        self._refresh = function
        return function

    def _add(self, handler: Handler) -> None:
        known = self._handlers.get(handler.task_group)
        # The same function may be registered twice: by the decorator and by a module that is loaded.
        if known is not None and known.function is not handler.function:
            raise Invalid(f"group {handler.task_group!r} already has a handler")
        self._handlers[handler.task_group] = handler

    @property
    def tasks(self) -> int:
        """The number of leased tasks."""
        return len(self._running)

    def stop(self) -> None:
        """Leases no further tasks; running ones may end within `stop_s`, then they are released."""
        self._stopping.set()
        self._slots.close()
        self._changed.set()

    def run_forever(self) -> None:
        """Runs in this thread until SIGINT or SIGTERM, which drain it; a second signal stops it immediately."""

        async def run() -> None:
            async with self.client:
                await self.run_until_signal()

        with suppress(asyncio.CancelledError):
            asyncio.run(run())

    async def run_until_signal(self) -> None:
        """The same within an event loop; raises CancelledError if it was stopped immediately."""
        running = asyncio.ensure_future(self.run())

        def on_signal() -> None:
            if self._stopping.is_set():
                _log.warning("stopping immediately; leases expire after their TTL", tasks=self.tasks)
                running.cancel()
            else:
                _log.info("draining; send the signal again to stop immediately", tasks=self.tasks)
            self.stop()

        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            loop.add_signal_handler(number, on_signal)
        try:
            await running
        finally:
            for number in signals:
                loop.remove_signal_handler(number)

    async def run(self) -> None:
        """Runs until `stop`. Raises errors that no retry helps against, such as an invalid token."""
        if not self._handlers:
            raise Invalid('a worker needs a handler: @worker.handler("group")')
        self._loop = asyncio.get_running_loop()
        # One task for all leases: heartbeats of all tasks at a node share a call.
        heartbeats = asyncio.ensure_future(self._send_heartbeats())
        try:
            await self._supervise()
            await self._finish()
        finally:
            await cancel_all([heartbeats, *self._pollers.values(), *self._works])

    async def _supervise(self) -> None:
        """Keeps one poll running for each group at each node."""
        while not self._stopping.is_set():
            self._changed.clear()
            try:
                addresses = (await self._router.refresh()).addresses()
                self._targets = {(group, address) for group in self._handlers for address in addresses}
            except ArgosyError as error:
                if not is_retryable(error):
                    raise
                _log.warning("no node reachable", why=str(error))
            for key, poller in list(self._pollers.items()):
                if poller.done():
                    del self._pollers[key]
                    poller.result()  # raises what no retry helps against, for example Unauthorized
            for key in self._targets - set(self._pollers):
                self._pollers[key] = self._spawn(self._poll(*key))
            with suppress(TimeoutError):
                async with asyncio.timeout(MAP_S):
                    await self._changed.wait()

    def _spawn(self, poll: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.ensure_future(poll)
        task.add_done_callback(lambda _: self._changed.set())
        return task

    async def _poll(self, group: str, address: str) -> None:
        """Polls a node until it no longer serves shards."""
        failures, was_empty = 0, True
        while (group, address) in self._targets:
            # A poll that found nothing last time waits with one slot and leaves the others to other polls. The slot
            # that it holds bounds what it can lease; the next poll, after a hit, takes all that are free.
            is_alone = len(self._pollers) == 1
            taken = await self._slots.acquire(1 if was_empty and not is_alone else self._slots.count)
            if not taken:
                return
            try:
                response = await self._leases.lease(address, group, taken, wait_s=self._wait_s())
            except ArgosyError as error:
                self._slots.release(taken)
                if not is_retryable(error):
                    raise
                failures += 1
                _log.warning("poll failed", group=group, address=address, why=str(error))
                self._changed.set()
                await self._pause(BACKOFF.delay(failures, self._router.random))
                continue
            except BaseException:
                self._slots.release(taken)
                raise
            failures, was_empty = 0, not response.tasks
            self._start_tasks(group, response, taken)

    def _wait_s(self) -> float:
        return self._poll_s if len(self._pollers) <= self._slots.count else min(ROTATION_S, self._poll_s)

    async def _pause(self, seconds: float) -> None:
        """Sleeps, or until the worker is to stop."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    def _start_tasks(self, group: str, response: pb.LeaseTasksResponse, taken: int) -> None:
        # A task that runs here already was leased again: it goes on as it is.
        new = [leased for leased in response.tasks if leased.task.id not in self._running]
        assert len(new) <= taken, f"{taken} tasks were requested and {len(new)} leased"
        self._slots.release(taken - len(new))
        for leased in new:
            context = TaskContext(leased, self._wake)
            running = self._running[context.task_id] = RunningTask(self._handlers[group], context, self._tracer)
            self._start(self._work(running))
        # Refreshes take no slot: they are short, and jobs that wait for the limit would otherwise wait for other jobs.
        for refresh in response.refresh_tasks:
            self._start(self._refresh_limit(refresh))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._works.add(task)
        task.add_done_callback(self._works.discard)

    def _wake(self) -> None:
        with suppress(RuntimeError):  # from an abandoned thread, after the loop has ended
            self._loop.call_soon_threadsafe(self._heartbeat_now.set)

    async def _work(self, running: RunningTask) -> None:
        context = running.context
        try:
            outcome = await running.outcome()
            # After a lost lease another worker has the task. The broker would reject the outcome anyway.
            if not running.is_lost:
                await self._reports.add((held_task(context), outcome))
        except ArgosyError as error:
            _log.warning("outcome rejected", job=context.job_id, task=context.task_id, why=str(error))
        finally:
            del self._running[context.task_id]
            self._slots.release(1)

    async def _send_heartbeats(self) -> None:
        """Sends heartbeats as often as the shortest lease requires, and when there is progress; bounded below."""
        while True:
            await self._router.clock.sleep(HEARTBEAT_S_MIN)
            lease_ms = min([each.context.lease_ms or LEASE_MS for each in self._running.values()], default=LEASE_MS)
            with suppress(TimeoutError):
                interval_s = lease_ms / 1000 / HEARTBEATS_PER_LEASE - HEARTBEAT_S_MIN
                async with asyncio.timeout(max(HEARTBEAT_S_MIN, interval_s)):
                    await self._heartbeat_now.wait()
            self._heartbeat_now.clear()
            if self._running and not await self._send_heartbeats_once(list(self._running.values())):
                self._changed.set()  # a shard may have moved: read the map again, and retry soon
                await self._pause(HEARTBEAT_RETRY_S)
                self._heartbeat_now.set()

    async def _send_heartbeats_once(self, tasks: Sequence[RunningTask]) -> bool:
        """Returns whether all were delivered."""
        progress = [each.context.pop_progress() for each in tasks]
        held = [held_task(each.context) for each in tasks]
        answers = await self._leases.heartbeat(list(zip(held, progress, strict=True)))
        for running, answer, response in zip(tasks, answers, progress, strict=True):
            self._on_heartbeat(running, answer, response)
        return not any(is_retryable(answer) for answer in answers if isinstance(answer, ArgosyError))

    def _on_heartbeat(self, running: RunningTask, answer: int | ArgosyError, progress: bytes | None) -> None:
        context = running.context
        if context.task_id not in self._running:
            return  # it has ended meanwhile
        if not isinstance(answer, ArgosyError):
            if answer and not context.is_cancelled:
                running.cancel()
        elif is_retryable(answer):
            context.restore_progress(progress)
        else:
            _log.warning("lease lost", job=context.job_id, task=context.task_id, why=str(answer))
            running.lose()

    async def _refresh_limit(self, task: silo.RefreshFloatingLimitTask) -> None:
        """Determines the maximum of a floating limit and reports it."""
        report = silo.ReportRefreshOutcomeRequest(task_id=task.id, tenant_id=task.tenant_id or None)
        try:
            report.success.new_max_concurrency = await self._call_refresher(task)
        except Exception as error:
            code = NO_REFRESHER if self._refresh is None else type(error).__name__
            report.failure.CopyFrom(silo.RefreshFailure(code=code, message=str(error)[:ITEM_BYTES]))

        def for_shard(shard: ShardInfo) -> silo.ReportRefreshOutcomeRequest:
            report.shard = shard.id
            return report

        try:
            tenant = task.tenant_id or NO_TENANT
            await self._router.call_shard(lambda shards: shards.shard_of(tenant), REPORT_REFRESH, for_shard)
        except ArgosyError as error:
            _log.warning("limit refresh rejected", key=task.queue_key, why=str(error))

    async def _call_refresher(self, task: silo.RefreshFloatingLimitTask) -> int:
        if self._refresh is None:
            raise Invalid("no refresher registered; use @worker.refresher")
        arguments = (task.queue_key, task.current_max_concurrency, dict(task.metadata))
        max_concurrency = await in_thread(self._refresh, *arguments, name=f"limit {task.queue_key}")
        return int(await max_concurrency if asyncio.iscoroutine(max_concurrency) else max_concurrency)

    async def _finish(self) -> None:
        """Lets polls end, then tasks; tasks that have not ended within `stop_s` are released."""
        clock = self._router.clock
        ends = clock.now() + self._stop_s
        # Not cancelled: a response on its way carries leases.
        if self._pollers:
            await asyncio.wait(self._pollers.values(), timeout=self._poll_s + ANSWER_S)
        if self._works:
            await asyncio.wait(self._works, timeout=max(0.0, ends - clock.now()))
        for running in self._running.values():
            # Reported as released, so that another worker starts the job now and not when the lease expires.
            running.release()
        if self._works:
            await asyncio.wait(self._works, timeout=RELEASE_S)


def held_task(context: TaskContext) -> HeldTask:
    return HeldTask(context.task_id, context.tenant)
