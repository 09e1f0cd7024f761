"""A node and its server in a thread of their own, for programs that have no event loop; and patience."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.jobs.rpc.stage import Stage, staged

PATIENCE_S = 30.0


async def until(is_so: Callable[[], bool]) -> None:
    """Waits, while others run, for something to become true."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if is_so():
                return
            await asyncio.sleep(0)


@contextmanager
def served(**options: Any) -> Iterator[Stage]:
    """The options are those of `staged`."""
    loop, stage = asyncio.new_event_loop(), staged(**options)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(stage.__aenter__(), loop).result()
    finally:
        asyncio.run_coroutine_threadsafe(stage.__aexit__(None, None, None), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
