"""Follows the watch of a space: for a node, or for a process that takes no part in it."""

import asyncio
from collections.abc import AsyncIterator, Callable

from argosy.base import logs
from argosy.base.clock import Clock, Random, SystemClock, system_random
from argosy.base.errors import Unavailable
from argosy.base.retry import Backoff
from argosy.ownership.events import WatchEvent
from argosy.ownership.ports import OwnershipStore
from argosy.ownership.view import FleetView

WATCH_BACKOFF = Backoff(first_s=0.1, ceiling_s=2.0)


async def watch_events(
    store: OwnershipStore, clock: Clock, random: Random, *, on_unreachable: Callable[[Unavailable], None]
) -> AsyncIterator[WatchEvent]:
    """All events of the store's space. A watch that fails is opened again, and begins with a new snapshot."""
    failures = 0
    while True:
        try:
            async for event in store.watch():
                failures = 0
                yield event
        except Unavailable as error:
            on_unreachable(error)
        failures += 1
        await clock.sleep(WATCH_BACKOFF.delay(failures, random))


class FleetWatcher:
    """Keeps a `FleetView` current without being a member of the space. The gateway routes by it."""

    def __init__(self, store: OwnershipStore, *, clock: Clock | None = None, random: Random | None = None) -> None:
        self.view = FleetView()
        self.observers: list[Callable[[], None]] = []  # called after every event
        self._store = store
        self._clock = clock or SystemClock()
        self._random = random or system_random()
        self._log = logs.get("ownership").bind(space=store.space.name)
        self._synced = asyncio.Event()

    async def run(self) -> None:
        """Follows the watch until this task is cancelled."""
        events = watch_events(self._store, self._clock, self._random, on_unreachable=self._on_unreachable)
        async for event in events:
            self.view.apply(event, self._clock.now())
            self._synced.set()
            for observer in self.observers:
                observer()

    async def wait_synced(self) -> None:
        """Returns once the first snapshot has arrived."""
        await self._synced.wait()

    def _on_unreachable(self, error: Unavailable) -> None:
        self._log.warning("store unreachable", error=str(error))
