"""Handlers: the functions that a worker calls, their context, the decorator that marks them, and running them.

    @job("mail")
    async def send_mail(payload, context): ...

A handler takes the payload, and optionally the context. What it returns is the job's result.
"""

import asyncio
import inspect
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, TypeVar

from argosy.base import logs
from argosy.base.errors import Invalid
from argosy.base.tracing import Tracer
from argosy.jobs.api import argosy_jobs_pb2 as pb
from argosy.jobs.model import NO_TENANT, TaskCancelled, TaskFailure, TaskOutcome, TaskReleased, TaskSuccess
from argosy.jobs.sdk.codec import pack, unpack


class TaskStopped(Exception):
    """Raised by `TaskContext.check`: the job was cancelled, or its lease was lost."""


class TaskContext:
    """What a handler knows about its task. Safe for use from any thread."""

    def __init__(self, leased: pb.LeasedTask, wake: Callable[[], None]) -> None:
        task = leased.task
        self.task_id: str = task.id
        self.job_id: str = task.job_id
        self.tenant: str = task.tenant_id or NO_TENANT
        self.task_group: str = task.task_group
        self.attempt: int = task.attempt_number
        self.is_last_attempt: bool = task.is_last_attempt
        self.metadata: Mapping[str, str] = dict(task.metadata)
        self.priority: int = task.priority
        self.schedule: str = leased.schedule
        self.trace: str = leased.trace
        self.lease_ms: int = task.lease_ms
        self.payload_bytes: bytes = task.payload.msgpack
        self._wake = wake
        self._progress: bytes | None = None
        # A plain flag: reading and setting it are atomic, so a handler's thread needs no lock.
        self._is_cancelled = False

    @property
    def payload(self) -> Any:
        return unpack(self.payload_bytes)

    @property
    def is_cancelled(self) -> bool:
        """Whether to stop. Async handlers are cancelled; other handlers have to check."""
        return self._is_cancelled

    def check(self) -> None:
        """Raises TaskStopped if the handler should stop; a handler may let it propagate."""
        if self._is_cancelled:
            raise TaskStopped(f"job {self.job_id} was cancelled, or its lease lost")

    def progress(self, value: object) -> None:
        """Publishes progress to readers of the job; only the latest value is sent, soon."""
        self._progress = pack(value)
        self._wake()

    def cancel(self) -> None:
        """Called by the worker."""
        self._is_cancelled = True

    def restore_progress(self, progress: bytes | None) -> None:
        """Called by the worker when sending failed; a newer value wins."""
        if self._progress is None:
            self._progress = progress

    def pop_progress(self) -> bytes | None:
        """Called by the worker: the value to send, once."""
        taken, self._progress = self._progress, None
        return taken


F = TypeVar("F", bound=Callable[..., Any])

HANDLER_ERROR = "HANDLER_ERROR"  # the code of a failure that was an exception
MESSAGE_CHARS_MAX = 2_000  # of the exception's text: it is stored with the attempt
TRACEBACK_CHARS_MAX = 8_000  # the end, where the cause is
_MARK = "_argosy_task_group"


@dataclass(frozen=True)
class Handler:
    """A handler; whether it is async and takes the context is read from its signature once."""

    task_group: str
    function: Callable[..., Any]
    is_async: bool
    wants_context: bool


def job(task_group: str) -> Callable[[F], F]:
    """Marks a function as the handler of a group; it remains an ordinary function."""

    def mark(function: F) -> F:
        # An attribute and no registry: a module with handlers can be imported without a worker.
        setattr(function, _MARK, task_group)
        return function

    return mark


def handler_of(task_group: str, function: Callable[..., Any]) -> Handler:
    positional = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    # Rejected at registration, not when the first job arrives.
    if len(positional) not in (1, 2):
        raise Invalid(
            f"the handler of {task_group!r} must take the payload and optionally the context; "
            f"it takes {len(positional)} arguments"
        )
    return Handler(task_group, function, inspect.iscoroutinefunction(function), len(positional) == 2)


def find_marked(things: Iterable[object]) -> list[Handler]:
    """The handlers among some objects: those decorated with `job`."""
    return [handler_of(getattr(thing, _MARK), thing) for thing in things if callable(thing) and hasattr(thing, _MARK)]


def failure_of(error: BaseException) -> TaskFailure:
    """A failure report for an exception, within the bounds above."""
    trace = "".join(traceback.format_exception(error))
    return TaskFailure(
        HANDLER_ERROR,
        pack(
            {
                "type": type(error).__name__,
                "message": str(error)[:MESSAGE_CHARS_MAX],
                "traceback": trace[-TRACEBACK_CHARS_MAX:],
            }
        ),
    )


def in_thread(function: Callable[..., Any], *arguments: Any, name: str) -> "asyncio.Future[Any]":
    """The function's result, from a thread of its own. Cancelling the future abandons the thread, which runs on.

    Not a thread pool: a handler that never returns would occupy a place in it for ever.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = copy_context()  # with the span of the handler, so that its log lines and calls belong to the trace

    def resolve(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def run() -> None:
        value: Any = None
        raised: BaseException | None = None
        try:
            value = context.run(function, *arguments)
        except Exception as error:
            raised = error
        except BaseException as error:  # SystemExit ends the task only, not the worker
            raised = RuntimeError(f"the function ended with {type(error).__name__}: {error}")
        with suppress(RuntimeError):  # the loop has ended before the thread
            loop.call_soon_threadsafe(resolve, value, raised)

    # A daemon, so that an abandoned thread does not keep the process from ending.
    threading.Thread(target=run, name=name, daemon=True).start()
    return future


_log = logs.get("jobs.worker")


class RunningTask:
    """A task and its running handler.

    It may be cancelled by the broker (the job was cancelled), because its lease is lost, or because the worker stops.
    """

    def __init__(self, handler: Handler, context: TaskContext, tracer: Tracer) -> None:
        self.context = context
        self.is_lost = False  # another worker may have it by now: nothing is reported
        self._is_released = False
        self._handler = handler
        self._tracer = tracer
        self._work: asyncio.Task[Any] | None = None

    def cancel(self) -> None:
        """Cancels an async handler; another has to check its context, because Python cannot stop a thread."""
        self.context.cancel()
        if self._handler.is_async and self._work is not None:
            self._work.cancel()

    def lose(self) -> None:
        self.is_lost = True
        self.cancel()

    def release(self) -> None:
        """Ends the task whatever its handler does; a thread that does not check its context is abandoned."""
        self._is_released = True
        self.context.cancel()
        if self._work is not None:
            self._work.cancel()

    async def outcome(self) -> TaskOutcome:
        context = self.context
        headers = {"traceparent": context.trace} if context.trace else {}
        span = self._tracer.span("job", job=context.job_id, group=context.task_group, attempt=context.attempt)
        with self._tracer.extract(headers), span:
            # A task of its own, which `cancel` can cancel without cancelling the report of the outcome.
            self._work = asyncio.ensure_future(self._call())
            try:
                await asyncio.wait([self._work])
            except asyncio.CancelledError:
                self._work.cancel()
                raise
        return self._to_outcome(self._work)

    async def _call(self) -> Any:
        handler, context = self._handler, self.context
        arguments = (context.payload, context) if handler.wants_context else (context.payload,)
        if not handler.is_async:
            return pack(await in_thread(handler.function, *arguments, name=f"job {context.job_id}"))
        try:
            return pack(await handler.function(*arguments))
        except (SystemExit, KeyboardInterrupt) as error:  # raised in a task, it would end the whole worker
            raise RuntimeError(f"the handler ended with {type(error).__name__}") from error

    def _to_outcome(self, work: "asyncio.Task[Any]") -> TaskOutcome:
        error = asyncio.CancelledError("the handler cancelled itself") if work.cancelled() else work.exception()
        # A result counts even if the job was cancelled meanwhile: the work is done, and the broker stores it as such.
        if error is None:
            return TaskSuccess(work.result())
        if self._is_released:
            return TaskReleased()
        if self.context.is_cancelled:
            return TaskCancelled()
        context = self.context
        _log.warning(
            "handler failed",
            job=context.job_id,
            group=context.task_group,
            attempt=context.attempt,
            error=type(error).__name__,
            why=str(error)[:MESSAGE_CHARS_MAX],
            is_retried=not context.is_last_attempt,
        )
        return failure_of(error)
