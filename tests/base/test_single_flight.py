"""Single flight: work runs once for all waiting callers, while there is one."""

import asyncio

import pytest

from argosy.base.errors import Invalid
from argosy.base.shared_calls import SingleFlight


class Work:
    def __init__(self) -> None:
        self.started = 0
        self.has_started = asyncio.Event()
        self.cancelled = 0
        self.finish = asyncio.Event()

    async def run(self) -> int:
        self.started += 1
        self.has_started.set()
        try:
            await self.finish.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return self.started


async def start_callers(sharing: SingleFlight[int], work: Work, count: int) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(sharing.run("key", work.run)) for _ in range(count)]
    await work.has_started.wait()
    return tasks


async def test_work_is_done_once_for_all() -> None:
    sharing, work = SingleFlight[int](), Work()
    tasks = await start_callers(sharing, work, 4)
    assert "key" in sharing
    work.finish.set()
    assert await asyncio.gather(*tasks) == [1, 1, 1, 1]
    assert "key" not in sharing
    assert await sharing.run("key", work.run) == 2


async def test_other_work_is_other_work() -> None:
    sharing, work = SingleFlight[int](), Work()
    work.finish.set()
    tasks = [asyncio.create_task(sharing.run(key, work.run)) for key in "ab"]
    assert [await task for task in tasks] == [1, 2]


async def test_a_cancelled_caller_does_not_affect_the_others() -> None:
    sharing, work = SingleFlight[int](), Work()
    first, *others = await start_callers(sharing, work, 3)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    work.finish.set()
    assert await asyncio.gather(*others) == [1, 1]
    assert work.cancelled == 0


async def test_without_waiting_callers_the_work_is_cancelled_and_the_next_call_restarts_it() -> None:
    sharing, work = SingleFlight[int](), Work()
    tasks = await start_callers(sharing, work, 2)
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in results] == [asyncio.CancelledError] * 2
    assert work.cancelled == 1
    work.finish.set()
    assert await sharing.run("key", work.run) == 2


async def test_a_caller_during_the_cancellation_of_abandoned_work_restarts_it() -> None:
    sharing, work = SingleFlight[int](), Work()
    [only] = await start_callers(sharing, work, 1)
    only.cancel()
    await asyncio.sleep(0)  # it has left, and the work has been cancelled
    second = asyncio.create_task(sharing.run("key", work.run))
    work.finish.set()
    assert await second == 2
    with pytest.raises(asyncio.CancelledError):
        await only


async def test_a_failure_is_everybodys() -> None:
    sharing = SingleFlight[int]()
    begin = asyncio.Event()

    async def fail() -> int:
        await begin.wait()
        raise Invalid("no")

    tasks = [asyncio.create_task(sharing.run("key", fail)) for _ in range(3)]
    begin.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in results] == [Invalid] * 3
    assert "key" not in sharing
