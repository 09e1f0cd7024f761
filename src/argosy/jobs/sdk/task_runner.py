"""One task in a worker's hands: its handler at work, and how that ended."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from argosy.base import logs
from argosy.base.tracing import Tracer
from argosy.jobs.model import Cancelled, Released, Success, TaskOutcome
from argosy.jobs.sdk.handlers import MESSAGE_CHARS_MAX, Handler, TaskContext, failure_of
from argosy.jobs.sdk.payload_codec import pack


def in_thread(function: Callable[..., Any], *arguments: Any, name: str) -> "asyncio.Future[Any]":
    """What the function returns or raises; to cancel the future abandons the thread, which goes on unheard."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = copy_context()

    def tell(value: Any, error: BaseException | None) -> None:
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
        except BaseException as error:  # a function that wants to end the process ends its task only
            raised = RuntimeError(f"the function ended with {type(error).__name__}: {error}")
        with suppress(RuntimeError):  # the loop has ended before us
            loop.call_soon_threadsafe(tell, value, raised)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


_log = logs.get("jobs.worker")


class RunningTask:
    """Cancelled from outside: by the broker, because its lease is lost, or because the worker has to go."""

    def __init__(self, handler: Handler, context: TaskContext, tracer: Tracer) -> None:
        self.context = context
        self.is_lost = False  # somebody else may have it by now: nothing is reported
        self._is_released = False
        self._handler = handler
        self._tracer = tracer
        self._work: asyncio.Task[Any] | None = None

    def cancel(self) -> None:
        """An async handler is cancelled; another sees it in its context."""
        self.context.cancel()
        if self._handler.is_async and self._work is not None:
            self._work.cancel()

    def lose(self) -> None:
        self.is_lost = True
        self.cancel()

    def release(self) -> None:
        """Ends it whatever its handler does; a thread that does not look is left behind."""
        self._is_released = True
        self.context.cancel()
        if self._work is not None:
            self._work.cancel()

    async def outcome(self) -> TaskOutcome:
        context = self.context
        headers = {"traceparent": context.trace} if context.trace else {}
        span = self._tracer.span("job", job=context.job_id, group=context.task_group, attempt=context.attempt)
        with self._tracer.extract(headers), span:
            self._work = asyncio.ensure_future(self._call())
            try:
                await asyncio.wait([self._work])
            except asyncio.CancelledError:
                self._work.cancel()
                raise
        return self._read(self._work)

    async def _call(self) -> Any:
        handler, context = self._handler, self.context
        arguments = (context.payload, context) if handler.wants_context else (context.payload,)
        if not handler.is_async:
            return pack(await in_thread(handler.function, *arguments, name=f"job {context.job_id}"))
        try:
            return pack(await handler.function(*arguments))
        except (SystemExit, KeyboardInterrupt) as error:
            raise RuntimeError(f"the handler ended with {type(error).__name__}") from error

    def _read(self, work: "asyncio.Task[Any]") -> TaskOutcome:
        error = asyncio.CancelledError("the handler cancelled itself") if work.cancelled() else work.exception()
        if error is None:
            return Success(work.result())
        if self._is_released:
            return Released()
        if self.context.is_cancelled:
            return Cancelled()
        self._set_result(error)
        return failure_of(error)

    def _set_result(self, error: BaseException) -> None:
        context = self.context
        _log.warning(
            "handler failed",
            job=context.job_id,
            group=context.task_group,
            attempt=context.attempt,
            error=type(error).__name__,
            why=str(error)[:MESSAGE_CHARS_MAX],
            is_tried_again=not context.is_last_attempt,
        )
