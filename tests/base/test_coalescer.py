"""Coalesced calls: which callers share a call, and the result of each."""

import asyncio
from collections.abc import Sequence

import pytest

from argosy.base.errors import Unavailable
from argosy.base.shared_calls import BATCH_MAX, Coalescer


class Shop:
    """Answers when its gate is open; records the batches."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.gate = asyncio.Event()
        self.failure: Exception | None = None

    async def serve(self, items: Sequence[int]) -> list[str]:
        self.calls.append(list(items))
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return [f"answer {item}" for item in items]


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_single_caller_does_not_wait() -> None:
    shop = Shop()
    shop.gate.set()
    together = Coalescer(shop.serve)
    assert await together(1) == "answer 1"
    assert await together(2) == "answer 2"
    assert shop.calls == [[1], [2]]


async def test_a_caller_during_a_running_call_shares_the_next() -> None:
    shop = Shop()
    together = Coalescer(shop.serve)
    first = asyncio.ensure_future(together(0))
    await turns()
    rest = [asyncio.ensure_future(together(number)) for number in range(1, 10)]
    await turns()
    assert shop.calls == [[0]]
    shop.gate.set()
    assert await asyncio.gather(first, *rest) == [f"answer {number}" for number in range(10)]
    assert shop.calls == [[0], list(range(1, 10))]


async def test_many_do_not_wait_for_what_is_under_way() -> None:
    shop = Shop()
    together = Coalescer(shop.serve)
    callers = [asyncio.ensure_future(together(number)) for number in range(BATCH_MAX + 2)]
    await turns()
    assert [len(call) for call in shop.calls] == [1, BATCH_MAX]
    shop.gate.set()
    assert len(await asyncio.gather(*callers)) == BATCH_MAX + 2


async def test_a_failure_reaches_each_caller_as_its_own() -> None:
    shop = Shop()
    shop.failure = Unavailable("the disk is full")
    together = Coalescer(shop.serve)
    callers = [asyncio.ensure_future(together(number)) for number in range(3)]
    await turns()
    shop.gate.set()
    raised = await asyncio.gather(*callers, return_exceptions=True)
    assert [str(error) for error in raised] == ["the disk is full"] * 3
    assert len({id(error) for error in raised}) == 3


async def test_a_cancelled_caller_does_not_cancel_the_others() -> None:
    shop = Shop()
    together = Coalescer(shop.serve)
    first, gone, stays = (asyncio.ensure_future(together(number)) for number in range(3))
    await turns()
    gone.cancel()
    shop.gate.set()
    assert await first == "answer 0"
    assert await stays == "answer 2"
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert shop.calls == [[0], [1, 2]]
