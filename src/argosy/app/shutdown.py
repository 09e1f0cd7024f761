"""Signals: the first SIGINT or SIGTERM drains the process, the second one stops it immediately."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from argosy.app.startup import Display
from argosy.base import logs

INTERRUPTED = 130  # the exit code that shells report after SIGINT

log = logs.get("app")


def cancel_on_signal(display: Display) -> None:
    """A process that is starting owns nothing, so the first signal cancels this task; a second one exits.

    The exit does not wait for threads, because a thread that compiles kernels cannot be interrupted.
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
    main: Coroutine[Any, Any, None],
    background: Sequence[Coroutine[Any, Any, None]],
    *,
    drain: Callable[[], Awaitable[None]],
    on_up: Callable[[], None],
    display: Display,
) -> None:
    """Runs `main` and the background tasks until `main` ends, then cancels the others.

    A signal calls `drain`, which must make `main` end; a second signal cancels `main`. A background task that fails
    fails the process.
    """
    running = asyncio.ensure_future(main)
    others = [asyncio.ensure_future(other) for other in background]
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
