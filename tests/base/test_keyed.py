"""A keyed work queue: bounded, with limited concurrency, and in order for each key."""

import asyncio

import pytest

from argosy.base.errors import Unavailable
from argosy.base.tasks import KeyedWorkQueue


class Bench:
    """Work that the test ends."""

    def __init__(self, *, width: int = 2, waiting_max: int = 10) -> None:
        self.started: list[tuple[str, int]] = []
        self.ends: dict[str, asyncio.Event] = {}
        self.line: KeyedWorkQueue[int] = KeyedWorkQueue(self.perform, width=width, waiting_max=waiting_max)

    async def perform(self, key: str, value: int) -> None:
        self.started.append((key, value))
        self.ends[key] = asyncio.Event()
        await self.ends[key].wait()
        if value < 0:
            raise ZeroDivisionError(key)

    async def end(self, key: str) -> None:
        await asyncio.sleep(0)
        self.ends[key].set()
        for _ in range(3):
            await asyncio.sleep(0)


async def test_only_so_many_run_at_a_time_in_the_order_they_came() -> None:
    bench = Bench()
    for key in "abc":
        bench.line.put(key, 1)
    await asyncio.sleep(0)
    assert bench.started == [("a", 1), ("b", 1)]
    await bench.end("a")
    assert bench.started[2:] == [("c", 1)]
    assert len(bench.line) == 2
    await bench.line.close()


async def test_the_newest_for_a_key_waits_for_the_one_that_runs_and_replaces_the_one_that_waits() -> None:
    bench = Bench()
    for value in (1, 2, 3):
        bench.line.put("a", value)
        await asyncio.sleep(0)
    assert bench.started == [("a", 1)]
    assert "a" in bench.line
    await bench.end("a")
    await bench.end("a")
    await bench.line.wait_idle()
    assert bench.started == [("a", 1), ("a", 3)]
    assert "a" not in bench.line


async def test_one_busy_key_does_not_hold_up_the_next() -> None:
    bench = Bench()
    for key in ("a", "a", "b"):
        bench.line.put(key, 1)
        await asyncio.sleep(0)
    assert bench.started == [("a", 1), ("b", 1)]
    await bench.line.close()


async def test_too_many_waiting_are_refused_but_a_newer_one_of_a_key_is_not() -> None:
    bench = Bench(width=1, waiting_max=1)
    bench.line.put("a", 1)
    bench.line.put("b", 1)
    with pytest.raises(Unavailable, match="1 are waiting"):
        bench.line.put("c", 1)
    bench.line.put("b", 2)
    await bench.end("a")
    assert bench.started[-1] == ("b", 2)
    await bench.line.close()


async def test_a_bug_is_raised_and_cancels_no_other_work() -> None:
    bench = Bench(width=1)
    bench.line.put("a", -1)
    bench.line.put("b", 1)
    await bench.end("a")
    assert bench.started[-1] == ("b", 1)
    await bench.end("b")
    with pytest.raises(ZeroDivisionError):
        await bench.line.wait_idle()
    with pytest.raises(ZeroDivisionError):
        bench.line.check()


async def test_a_closed_queue_drops_everything_and_accepts_nothing() -> None:
    bench = Bench(width=1)
    bench.line.put("a", 1)
    bench.line.put("b", 1)
    await asyncio.sleep(0)
    await bench.line.close()
    bench.line.put("c", 1)
    await bench.line.wait_idle()
    assert bench.started == [("a", 1)]
    assert len(bench.line) == 0
