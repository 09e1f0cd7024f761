"""Leases and auctions directly at the store: the cost of its calls without a node around them."""

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
from argosy.ownership.model import Lease, Member, Session, SessionRole, Space, Unit
from argosy.ownership.ports import OwnershipStore

IN_FLIGHT = 32  # concurrent requests, as many nodes of a fleet would send them
SESSIONS = 20  # holders that share the leases
RENEWALS = 5  # of each session
BIDDERS = 3  # bids per auction
LANES = 8  # concurrent auctions; a node bids for one unit at a time (OWN-3)
TTL_S = 60.0  # longer than any run, so that nothing expires during one

T = TypeVar("T")

_spaces = itertools.count(1)


@dataclass(frozen=True)
class BenchStore:
    """A store to be measured, and its server unless it is in this process."""

    name: str
    server: Server | None

    def new_space(self, *, is_auctioned: bool) -> Space:
        """A space of its own for each run, so that no run sees the rows of another."""
        return Space(f"bench-{next(_spaces)}", is_auctioned)

    @asynccontextmanager
    async def open(self, space: Space) -> AsyncIterator[OwnershipStore]:
        url = "memory://" if self.server is None else self.server.url
        # No grace: the store is new, and waiting for it would be part of the first claims.
        store = await open_ownership_store(url, space, clock=SystemClock(), random=system_random(), grace_s=0.0)
        try:
            yield store
        finally:
            await store.close()


class CpuMeter:
    """The CPU time that this process and the server use while the block runs."""

    def __init__(self, store: BenchStore) -> None:
        self._store = store
        self._own_s = self._server_s = 0.0

    def __enter__(self) -> Self:
        self._own_s, self._server_s = time.process_time(), self._server_cpu_s()
        return self

    def __exit__(self, *_: object) -> None:
        self._own_s = time.process_time() - self._own_s
        self._server_s = self._server_cpu_s() - self._server_s

    def per_operation(self, what: str, operations: int) -> Values:
        """In microseconds, by figure."""
        own = {f"{what}.cpu.{self._store.name}": self._own_s / operations * 1e6}
        if self._store.server is None:
            return own
        return {**own, f"{what}.server_cpu.{self._store.name}": self._server_s / operations * 1e6}

    def _server_cpu_s(self) -> float:
        return 0.0 if self._store.server is None else machine.cpu_s(self._store.server.pid)


async def time_all(call: Callable[[T], Awaitable[object]], arguments: Iterable[T]) -> float:
    """Seconds until all calls are done, `IN_FLIGHT` at a time."""
    remaining = iter(arguments)

    async def work() -> None:
        for argument in remaining:
            await call(argument)

    started = time.perf_counter()
    await asyncio.gather(*[work() for _ in range(IN_FLIGHT)])
    return time.perf_counter() - started


async def run_leases(bench_store: BenchStore, count: int) -> Values:
    """Claim `count` units for twenty sessions, renew the sessions and release the units.

    One renewal carries all leases of a session, so the renewal rate is in leases and not in calls.
    """
    async with bench_store.open(bench_store.new_space(is_auctioned=False)) as store:
        sessions = [await open_session(store, f"n{n}") for n in range(SESSIONS)]
        held: list[tuple[Session, Lease]] = []

        async def claim(at: int) -> None:
            session = sessions[at % SESSIONS]
            held.append((session, await store.claim(session, Unit(f"unit-{at}"))))

        async def release(one: tuple[Session, Lease]) -> None:
            session, lease = one
            assert await store.release(session, lease.unit, lease.epoch)

        # Opening the sessions is not counted: it happens once in the life of a node.
        with CpuMeter(bench_store) as cpu:
            acquire_s = await time_all(claim, range(count))
            renew_s = await time_all(store.renew, sessions * RENEWALS)
            release_s = await time_all(release, held)
    return {
        f"lease.acquire.{bench_store.name}": count / acquire_s,
        f"lease.renew.{bench_store.name}": RENEWALS * count / renew_s,
        f"lease.release.{bench_store.name}": count / release_s,
        **cpu.per_operation("lease", 2 * count + RENEWALS * SESSIONS),
    }


async def run_auctions(bench_store: BenchStore, count: int) -> Values:
    """Run `count` auctions with three bids each, in eight concurrent lanes."""
    async with bench_store.open(bench_store.new_space(is_auctioned=True)) as store:
        lanes = [[await open_session(store, f"n{lane}-{n}") for n in range(BIDDERS)] for lane in range(LANES)]
        units = [Unit(f"unit-{n}") for n in range(count)]
        with CpuMeter(bench_store) as cpu:
            started = time.perf_counter()
            await asyncio.gather(*[_run_lane(store, lane, units[n::LANES]) for n, lane in enumerate(lanes)])
            took_s = time.perf_counter() - started
    return {f"auction.close.{bench_store.name}": count / took_s, **cpu.per_operation("auction", count)}


async def _run_lane(store: OwnershipStore, sessions: list[Session], units: Iterable[Unit]) -> None:
    """One auction after the other. The last bidder has most free memory, so it must win: a fast store that picks the
    wrong winner is no result."""
    for unit in units:
        await asyncio.gather(*[_place_bid(store, session, unit, n + 1) for n, session in enumerate(sessions)])
        closing = await store.close_auction(unit)
        assert closing.lease is not None
        assert closing.lease.node == sessions[-1].node


async def _place_bid(store: OwnershipStore, session: Session, unit: Unit, free_bytes: int) -> None:
    await store.place_bid(session, unit, free_bytes=free_bytes, min_bytes=0, max_bids=BIDDERS, window_s=TTL_S)


async def open_session(store: OwnershipStore, node: str) -> Session:
    return await store.open_session(SessionRole.HOLDER, Member(node, f"{node}:1"), ttl_s=TTL_S)
