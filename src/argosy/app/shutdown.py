"""Running until a signal: the first SIGINT or SIGTERM drains, the second stops immediately."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from argosy.app.startup import Display
from argosy.base import logs

INTERRUPTED = 130  # exit code of a process that SIGINT ended, as shells report it

log = logs.get("app")


def cancel_on_signal(display: Display) -> None:
    """While a process starts it holds nothing, so the first signal cancels this task; a second one exits.

    The second one does not wait for threads: one that compiles kernels cannot be interrupted.
    """
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    signals: list[int] = []

    def on_signal(number: int) -> None:
        if signals:
            os._exit(INTERRUPTED)
        signals.append(number)
        log.info("interrupted while starting")
        display.show_stopping()
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)


async def run_until_signal(
    life: Coroutine[Any, Any, None],
    beside: Sequence[Coroutine[Any, Any, None]],
    *,
    drain: Callable[[], Awaitable[None]],
    on_up: Callable[[], None],
    display: Display,
) -> None:
    """Runs `life` with what goes on beside it, until it ends, and ends everything with it.

    A signal calls `drain`, which is expected to make `life` end in good order; a second one cancels it. What goes on
    beside must not end by itself: if it fails, all fails.
    """
    running = asyncio.ensure_future(life)
    others = [asyncio.ensure_future(other) for other in beside]
    draining: list[asyncio.Future[None]] = []

    def on_signal() -> None:
        if draining:
            log.warning("stopping immediately; leases expire after their TTL")
            display.show_stopping()
            running.cancel()
        else:
            log.info("draining; send the signal again to stop immediately")
            display.show_draining()
            draining.append(asyncio.ensure_future(drain()))

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    on_up()
    try:
        done, _ = await asyncio.wait([running, *others], return_when=asyncio.FIRST_COMPLETED)
        for ended in done:
            if ended is not running:
                ended.result()
        with suppress(asyncio.CancelledError):
            await running
    finally:
        tasks = [running, *others, *draining]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
