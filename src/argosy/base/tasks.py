"""Groups of tasks that begin and end together.

Tasks are kept in lists, never in sets: they are cancelled in the order in which they started, so that a simulated run
repeats exactly (`asyncio.TaskGroup` cancels its children in the order of a set).
"""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any


async def run_until_first_ends(*work: Awaitable[Any]) -> None:
    """Runs all of them until one ends, then cancels the others and waits for them.

    Raises what the one that ended raised. On cancellation all are cancelled and waited for.
    """
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        await cancel_all(tasks)


async def wait_for_first(*work: Awaitable[Any]) -> Sequence[bool]:
    """Waits until one of them ends, cancels the others, and returns for each whether it had ended.

    Unlike `run_until_first_ends` it does not raise what they raise: it is for waiting, not for work.
    """
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return [task.done() for task in tasks]
    finally:
        await cancel_all(tasks)


async def cancel_all(tasks: "Iterable[asyncio.Future[Any]]") -> None:
    """Cancels the tasks and waits until each has ended; what they raise is dropped."""
    started = list(tasks)
    for task in started:
        task.cancel()
    if started:
        await asyncio.gather(*started, return_exceptions=True)
