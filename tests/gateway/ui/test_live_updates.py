"""Live updates: one poll for all listeners, in virtual time."""

import asyncio
from contextlib import aclosing

import pytest

from argosy.base.errors import Unavailable
from argosy.gateway.ui.live_updates import REPEAT_POLLS, LiveUpdates
from argosy.sim.loop import SimLoop, run


class Fleet:
    def __init__(self) -> None:
        self.text = b"one"
        self.polls = 0

    async def poll(self) -> bytes:
        self.polls += 1
        return self.text


def test_all_listeners_share_one_poll_and_get_every_change() -> None:
    async def scene(loop: SimLoop) -> None:
        fleet = Fleet()
        live = LiveUpdates(fleet.poll, every_s=1.0)
        async with aclosing(live.listen()) as first, aclosing(live.listen()) as second:
            assert await anext(first) == await anext(second) == b"one"
            fleet.text = b"two"
            assert await anext(first) == await anext(second) == b"two"
            assert live.listeners == 2
            assert fleet.polls == 2

    run(scene)


def test_without_listeners_there_is_no_polling_and_a_new_listener_gets_no_stale_state() -> None:
    async def scene(loop: SimLoop) -> None:
        fleet = Fleet()
        live = LiveUpdates(fleet.poll, every_s=1.0)
        async with aclosing(live.listen()) as listener:
            await anext(listener)
        polls = fleet.polls
        quiet = loop.create_future()
        loop.call_later(100.0, quiet.set_result, None)
        await quiet
        assert fleet.polls == polls
        fleet.text = b"two"
        async with aclosing(live.listen()) as listener:
            assert await anext(listener) == b"two"

    run(scene)


def test_a_heartbeat_is_sent_so_that_a_dead_connection_is_noticed() -> None:
    async def scene(loop: SimLoop) -> float:
        live = LiveUpdates(Fleet().poll, every_s=1.0)
        async with aclosing(live.listen()) as listener:
            await anext(listener)
            began = loop.time()
            await anext(listener)
            return loop.time() - began

    assert run(scene) == pytest.approx(REPEAT_POLLS)


def test_the_number_of_listeners_is_bounded() -> None:
    async def scene(loop: SimLoop) -> None:
        live = LiveUpdates(Fleet().poll, listeners_max=1)
        async with aclosing(live.listen()) as listener:
            await anext(listener)
            with pytest.raises(Unavailable, match=r"too many live pages \(1\)"):
                await anext(live.listen())
        async with aclosing(live.listen()) as listener:
            assert await anext(listener) == b"one"

    run(scene)


def test_closing_ends_all_listeners_and_rejects_new_ones() -> None:
    async def scene(loop: SimLoop) -> None:
        live = LiveUpdates(Fleet().poll)
        async with aclosing(live.listen()) as listener:
            await anext(listener)
            waiting = asyncio.ensure_future(anext(listener, None))
            await asyncio.sleep(0)
            live.close()
            assert await waiting is None
        with pytest.raises(Unavailable, match="shutting down"):
            await anext(live.listen())

    run(scene)
