"""Wakes watchers at a new revision, and delivers notifications to listeners, within one process.

Notifications of other processes are not delivered. Their changes are, because they are in the file: while there are
watchers, the store polls its revision.
"""

import asyncio
from collections import deque
from weakref import WeakSet

from argosy.base.errors import Gone, Unavailable

UNHEARD_MAX = 1024  # messages a listener may be behind


class ChangeFeed:
    """The newest revision known, and the listeners of each channel."""

    def __init__(self) -> None:
        self.revision = 0
        self.watchers = 0
        self._moved = asyncio.Event()
        self._listeners: dict[str, WeakSet[ChannelListener]] = {}
        self._is_closed = False

    def advance(self, revision: int) -> None:
        if revision > self.revision:
            self.revision = revision
            self._wake()

    async def wait_beyond(self, revision: int) -> None:
        """Until there is a newer revision, or the store is closed."""
        while self.revision <= revision and not self._is_closed:
            await self._moved.wait()

    def notify(self, channel: str, message: str) -> None:
        for listener in tuple(self._listeners.get(channel, ())):
            listener.deliver(message)

    def listen(self, channel: str) -> "ChannelListener":
        listener = ChannelListener(channel)
        self._listeners.setdefault(channel, WeakSet()).add(listener)
        return listener

    def close(self) -> None:
        self._is_closed = True
        self._wake()
        for listeners in self._listeners.values():
            for listener in tuple(listeners):
                listener.close()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()


class ChannelListener:
    """Messages of one channel from the moment it was made; the channel forgets it when its owner does."""

    def __init__(self, channel: str) -> None:
        self._channel = channel
        self._backlog: deque[str] = deque()
        self._arrived = asyncio.Event()
        self._is_behind = False
        self._is_closed = False

    def deliver(self, message: str) -> None:
        self._is_behind = self._is_behind or len(self._backlog) >= UNHEARD_MAX
        if not self._is_behind:
            self._backlog.append(message)
        self._arrived.set()

    def close(self) -> None:
        self._is_closed = True
        self._arrived.set()

    def __aiter__(self) -> "ChannelListener":
        return self

    async def __anext__(self) -> str:
        while not self._backlog:
            if self._is_behind:
                raise Gone(f"a listener of {self._channel!r} fell {UNHEARD_MAX} messages behind: look at the tables")
            if self._is_closed:
                raise Unavailable(f"the registry is closed, and with it the channel {self._channel!r}")
            self._arrived.clear()
            await self._arrived.wait()
        return self._backlog.popleft()
