"""A store to be measured, and what its use costs."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Self, TypeVar

from argosy.base.backends.servers import Server
from argosy.base.clock import SystemClock, system_random
from argosy.bench import machine
from argosy.bench.harness import Values
from argosy.ownership import open_ownership_store
from argosy.ownership.model import Space
from argosy.ownership.ports import OwnershipStore

IN_FLIGHT = 32  # requests under way at once, as a fleet would have them

T = TypeVar("T")

_spaces = itertools.count(1)


@dataclass(frozen=True)
class Site:
    """A store, and its server unless it lives in this process."""

    name: str
    server: Server | None

    def new_space(self, *, is_auctioned: bool) -> Space:
        """A space of its own for each run, so that none sees what another has left."""
        return Space(f"bench-{next(_spaces)}", is_auctioned)

    @asynccontextmanager
    async def opened(self, space: Space) -> AsyncIterator[OwnershipStore]:
        url = "memory://" if self.server is None else self.server.url
        store = await open_ownership_store(url, space, clock=SystemClock(), random=system_random(), grace_s=0.0)
        try:
            yield store
        finally:
            await store.close()


class Cost:
    """The CPU that this process and the server use while the block runs."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._own_s = self._server_s = 0.0

    def __enter__(self) -> Self:
        self._own_s, self._server_s = time.process_time(), self._server_cpu_s()
        return self

    def __exit__(self, *_: object) -> None:
        self._own_s = time.process_time() - self._own_s
        self._server_s = self._server_cpu_s() - self._server_s

    def per_operation(self, what: str, operations: int) -> Values:
        """In microseconds, by figure."""
        own = {f"{what}.cpu.{self._site.name}": self._own_s / operations * 1e6}
        if self._site.server is None:
            return own
        return {**own, f"{what}.server_cpu.{self._site.name}": self._server_s / operations * 1e6}

    def _server_cpu_s(self) -> float:
        return 0.0 if self._site.server is None else machine.cpu_s(self._site.server.pid)


async def timed(do: Callable[[T], Awaitable[object]], things: Iterable[T]) -> float:
    """Seconds until all are done, `IN_FLIGHT` at a time."""
    waiting = iter(things)

    async def work() -> None:
        for thing in waiting:
            await do(thing)

    started = time.perf_counter()
    await asyncio.gather(*[work() for _ in range(IN_FLIGHT)])
    return time.perf_counter() - started
