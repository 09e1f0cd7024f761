"""Running until told to stop: the first signal drains, the second ends at once."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from argosy.base import logs

log = logs.get("app")


async def run_until_told(
    life: Coroutine[Any, Any, None],
    beside: Sequence[Coroutine[Any, Any, None]],
    *,
    drain: Callable[[], Awaitable[None]],
    is_up: Callable[[], None],
) -> None:
    """Runs `life` with what goes on beside it, until it ends, and ends everything with it.

    A signal calls `drain`, which is expected to make `life` end in good order; a second one cancels it. What goes on
    beside must not end by itself: if it fails, all fails.
    """
    running = asyncio.ensure_future(life)
    others = [asyncio.ensure_future(other) for other in beside]
    draining: list[asyncio.Future[None]] = []

    def told() -> None:
        if draining:
            log.warning("stopping at once: what is held expires by itself")
            running.cancel()
        else:
            log.info("draining; tell again to stop at once")
            draining.append(asyncio.ensure_future(drain()))

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told)
    is_up()
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
