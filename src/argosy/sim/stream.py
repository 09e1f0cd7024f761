"""A watch over a simulated link: facts arrive in order, late, or the stream breaks and must be opened anew.

A partition first only stalls a stream. When keep-alives have gone unanswered for a while both ends give it up, each for
itself; if it heals before that, what was stalled arrives late.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from argosy.base.errors import Unavailable
from argosy.ownership.backends.memory import WATCH_BACKLOG_MAX
from argosy.ownership.events import WatchEvent
from argosy.sim.link import Direction, Link
from argosy.sim.loop import OUTSIDE, SimLoop

if TYPE_CHECKING:
    from argosy.sim.network import StoreServer


class Stream:
    """One watch of one node; an async iterator that ends only with `Unavailable`."""

    def __init__(self, server: "StoreServer", link: Link, loop: SimLoop, *, timeout_s: float) -> None:
        self._server = server
        self.link = link
        self._loop = loop
        self._timeout_s = timeout_s
        self._is_asked = False
        self._is_broken = False
        self._is_subscribed = False
        self._inbox: deque[WatchEvent] = deque()
        self._in_flight: deque[WatchEvent] = deque()
        self._stalled: list[WatchEvent] = []
        self._last_due = 0.0
        self._arrived: asyncio.Future[None] | None = None

    def __aiter__(self) -> "Stream":
        return self

    async def __anext__(self) -> WatchEvent:
        try:
            if not self._is_asked:
                await self._open()
            while not self._inbox and not self._is_broken:
                await self._something()
        except asyncio.CancelledError:
            self.abandon()
            raise
        if not self._inbox:
            raise Unavailable("the watch broke: open another")
        return self._inbox.popleft()

    async def aclose(self) -> None:
        self.abandon()

    def sever(self) -> None:
        """The store's end is gone; the node hears of it over the link, or else by the silence."""
        self._unsubscribe()
        is_cut_off = self.link.is_blocked(Direction.DOWN)
        delay_s = self.link.quality.keepalive_s if is_cut_off else self.link.latency()
        self._loop.call_later(delay_s, self._break, context=OUTSIDE)

    # -- the node's end ---------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        self._is_asked = True
        self.link.send(Direction.UP, self._subscribe, self._break)
        try:
            async with asyncio.timeout(self._timeout_s):
                while not self._inbox and not self._is_broken:
                    await self._something()
        except TimeoutError:
            self.abandon()
            raise Unavailable(f"watch: no snapshot within {self._timeout_s} s") from None

    async def _something(self) -> None:
        self._arrived = self._loop.create_future()
        await self._arrived

    def _arrive(self) -> None:
        fact = self._in_flight.popleft()
        if self._is_broken:
            return
        if len(self._inbox) >= WATCH_BACKLOG_MAX:
            self.abandon()
        else:
            self._inbox.append(fact)
        self._wake()

    def _break(self) -> None:
        self._is_broken = True
        self._wake()

    def abandon(self) -> None:
        """The node's end is closed. Telling the store at once spares it a list of the gone, and changes nothing."""
        self._is_broken = True
        self._unsubscribe()

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    # -- the store's end --------------------------------------------------------------------------------------------

    def _subscribe(self) -> None:
        if self._is_broken:
            return
        if not self._server.is_up:
            self._loop.call_later(self.link.latency(), self._break, context=OUTSIDE)
            return
        self._is_subscribed = True
        self._server.streams[self] = None
        self._server.store.observers.append(self._push)
        self.link.on_block.append(self._notice_silence)
        self.link.on_heal.append(self._flush)
        self._push(self._server.store.snapshot())

    def _unsubscribe(self) -> None:
        if not self._is_subscribed:
            return
        self._is_subscribed = False
        del self._server.streams[self]
        self._server.store.observers.remove(self._push)
        self.link.on_block.remove(self._notice_silence)
        self.link.on_heal.remove(self._flush)

    def _push(self, fact: WatchEvent) -> None:
        if self.link.is_blocked(Direction.DOWN):
            self._stalled.append(fact)
            return
        # Timers of the same instant fire in any order; so a timer only says that the next fact is there.
        self._in_flight.append(fact)
        self._last_due = max(self._last_due, self._loop.time() + self.link.latency())
        self._loop.call_at(self._last_due, self._arrive, context=OUTSIDE)

    def _flush(self) -> None:
        if self.link.is_blocked(Direction.DOWN):
            return
        stalled, self._stalled = self._stalled, []
        for fact in stalled:
            self._push(fact)

    def _notice_silence(self) -> None:
        self._loop.call_later(self.link.quality.keepalive_s, self._give_up_if_silent, context=OUTSIDE)

    def _give_up_if_silent(self) -> None:
        if self._is_subscribed and not self.link.is_whole():
            self._unsubscribe()
            self._break()
