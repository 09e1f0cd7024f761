"""Live updates: one look at the fleet a second, however many pages are open, told to all of them.

Looking begins with the first listener and ends with the last. A slow listener misses what is no longer true; nothing
is queued for it.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

from argosy.base.errors import Unavailable

EVERY_S = 1.0
LISTENERS_MAX = 100
REPEAT_LOOKS = 15  # told again after so many looks without a change, so that a dead connection is noticed


class LiveUpdates:
    """`look` makes the text to tell; what it raises ends the listeners, who may come back."""

    def __init__(
        self, look: Callable[[], Awaitable[bytes]], *, every_s: float = EVERY_S, listeners_max: int = LISTENERS_MAX
    ) -> None:
        self._look = look
        self._every_s = every_s
        self._listeners_max = listeners_max
        self._listeners = 0
        self._told = b""
        self._number = 0  # of what was told last; a listener waits for a higher one
        self._news = asyncio.Event()  # a new one for every piece of news
        self._looking: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def listeners(self) -> int:
        return self._listeners

    async def listen(self) -> AsyncGenerator[bytes]:
        """What there is to tell, now and after every change. Unavailable at once if too many listen already."""
        if self._is_closed:
            raise Unavailable("this front door is closing: ask again, another one will answer")
        if self._listeners >= self._listeners_max:
            raise Unavailable(f"{self._listeners} pages are live already, and no more can be: reload this one instead")
        self._listeners += 1
        seen = self._start_looking()
        try:
            while not self._is_over():
                news = self._news
                if self._number > seen:
                    seen = self._number
                    yield self._told
                else:
                    await news.wait()
        finally:
            self._listeners -= 1
            if not self._listeners and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    def close(self) -> None:
        """Ends all listening, so that a server can stop without waiting for pages to be closed."""
        self._is_closed = True
        self._tell()

    def _start_looking(self) -> int:
        """The number of what was told before; after a pause that is no longer true and must not be told again."""
        if self._looking is not None and not self._looking.done():
            return 0
        self._told = b""
        self._looking = asyncio.create_task(self._keep_looking())
        self._looking.add_done_callback(lambda _: self._tell())
        return self._number

    async def _keep_looking(self) -> None:
        unchanged = 0
        while True:
            found = await self._look()
            unchanged = unchanged + 1 if found == self._told else 0
            if unchanged in (0, REPEAT_LOOKS):
                self._told, unchanged = found, 0
                self._number += 1
                self._tell()
            await asyncio.sleep(self._every_s)

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _is_over(self) -> bool:
        return self._is_closed or self._looking is None or self._looking.done()
