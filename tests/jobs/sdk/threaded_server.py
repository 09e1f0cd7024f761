"""A node and its server in a thread, for programs without an event loop; and `wait_until`."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.jobs.rpc.stage import Stage, open_stage

PATIENCE_S = 30.0


async def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition while other tasks run."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if condition():
                return
            await asyncio.sleep(0)


@contextmanager
def run_server(**options: Any) -> Iterator[Stage]:
    """The options are those of `open_stage`."""
    loop, stage = asyncio.new_event_loop(), open_stage(**options)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(stage.__aenter__(), loop).result()
    finally:
        asyncio.run_coroutine_threadsafe(stage.__aexit__(None, None, None), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
