"""Live updates of the fleet page: one poll a second, pushed to all open pages as server-sent events.

Polling starts with the first listener and stops with the last. Nothing is queued for a slow listener: it skips to the
newest state.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

from argosy.base.errors import Unavailable

EVERY_S = 1.0
LISTENERS_MAX = 100
REPEAT_POLLS = 15  # an unchanged state is sent again after this many polls, so that dead connections are detected


class LiveUpdates:
    """`poll` renders the current state; an exception from it ends all listeners, which reconnect."""

    def __init__(
        self, poll: Callable[[], Awaitable[bytes]], *, every_s: float = EVERY_S, listeners_max: int = LISTENERS_MAX
    ) -> None:
        self._poll = poll
        self._every_s = every_s
        self._listeners_max = listeners_max
        self._listeners = 0
        self._state = b""
        self._number = 0  # of the newest state; a listener waits for a higher one
        self._changed = asyncio.Event()  # replaced on every change
        self._poller: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def listeners(self) -> int:
        return self._listeners

    async def listen(self) -> AsyncGenerator[bytes]:
        """Yield the state now and after every change; raises Unavailable above `listeners_max`."""
        if self._is_closed:
            raise Unavailable("gateway shutting down; retry")
        if self._listeners >= self._listeners_max:
            raise Unavailable(f"too many live pages ({self._listeners}); reload the page instead")
        self._listeners += 1
        seen = self._start_polling()
        try:
            while not self._is_over():
                changed = self._changed  # taken before the number is compared, so that no change falls in between
                if self._number > seen:
                    seen = self._number
                    yield self._state
                else:
                    await changed.wait()
        finally:
            self._listeners -= 1
            if not self._listeners and self._poller is not None:
                self._poller.cancel()
                self._poller = None

    def close(self) -> None:
        """End all listeners, so that the server can stop while pages are open."""
        self._is_closed = True
        self._wake_listeners()

    def _start_polling(self) -> int:
        """Start polling if it is stopped; returns the number of the last state, which is stale after a pause."""
        if self._poller is not None and not self._poller.done():
            return 0
        self._state = b""  # differs from every poll, so the first one is sent
        self._poller = asyncio.create_task(self._poll_forever())
        self._poller.add_done_callback(lambda _: self._wake_listeners())
        return self._number

    async def _poll_forever(self) -> None:
        unchanged = 0
        while True:
            found = await self._poll()
            unchanged = unchanged + 1 if found == self._state else 0
            if unchanged in (0, REPEAT_POLLS):
                self._state, unchanged = found, 0
                self._number += 1
                self._wake_listeners()
            await asyncio.sleep(self._every_s)

    def _wake_listeners(self) -> None:
        # A new event for the next change. Setting and clearing one event would lose the change for a listener that has
        # not run yet; here it holds the old event, which stays set.
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _is_over(self) -> bool:
        return self._is_closed or self._poller is None or self._poller.done()
