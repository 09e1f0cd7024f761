"""Calls of ordinary functions beside the event loop.

Each has a daemon thread of its own: a pool's threads would keep a process from ending while one of them hangs. How many
there are is bounded by the worker's slots.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any


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
