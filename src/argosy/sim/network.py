"""The store as one node sees it: the shared `MemoryStore` behind a link that delays, loses and breaks.

A call that gets no answer in time is `Unavailable`, and its effect may have happened, may happen later, or never. The
memory store's methods never wait, so the server's part of a call is one step at one instant.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

from argosy.base.clock import Random
from argosy.base.errors import ArgosyError, Unavailable
from argosy.ownership.backends.memory import MemoryOwnershipStore
from argosy.ownership.model import (
    BidResult,
    CloseResult,
    Lease,
    LeaseState,
    Member,
    Session,
    SessionInfo,
    SessionRole,
    Space,
    Unit,
)
from argosy.sim.link import Direction, Link
from argosy.sim.loop import SimLoop
from argosy.sim.stream import Stream

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Served:
    """A call that reached the store, and what came of it there: for checkers."""

    node: str
    call: str
    args: tuple[Any, ...]
    outcome: Any  # what was returned, or the error


class StoreServer:
    """The store's machine: it can be away, and come back with or without its data."""

    def __init__(self, store: MemoryOwnershipStore, random: Random) -> None:
        self.store = store
        self.is_up = True
        self.taps: list[Callable[[Served], None]] = []
        self.streams: dict[Stream, None] = {}  # a dict, for its order
        self._random = random

    def serve(self, node: str, call: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Carries out one call; a bug in the store (no `ArgosyError`) is an outcome too, and for checkers to judge."""
        outcome: Any
        try:
            outcome = _at_once(getattr(self.store, call)(*args, **kwargs))
        except (ArgosyError, AssertionError, KeyError) as error:
            outcome = error
        for tap in self.taps:
            tap(Served(node, call, (*args, *kwargs.values()), outcome))
        return outcome

    def is_refusing(self) -> bool:
        """A machine that is down answers for a store that is: half of the time, as firewalls go."""
        return self._random.random() < 0.5

    def stop(self) -> None:
        self.is_up = False
        for stream in list(self.streams):
            stream.sever()

    def start(self, *, has_lost_data: bool) -> None:
        self.is_up = True
        if has_lost_data:
            self.store.lose_everything()


class SimulatedStore:
    """Implements `OwnershipStore` for one node."""

    def __init__(self, node: str, server: StoreServer, link: Link, loop: SimLoop, *, timeout_s: float) -> None:
        self.calls = 0
        self._node = node
        self._server = server
        self._link = link
        self._loop = loop
        self._timeout_s = timeout_s

    @property
    def space(self) -> Space:
        return self._server.store.space

    async def open_session(self, role: SessionRole, member: Member, *, ttl_s: float) -> Session:
        return await self._call(MemoryOwnershipStore.open_session, role, member, ttl_s=ttl_s)

    async def renew(self, session: Session) -> frozenset[tuple[Unit, int]]:
        return await self._call(MemoryOwnershipStore.renew, session)

    async def announce(self, session: Session, member: Member) -> None:
        await self._call(MemoryOwnershipStore.announce, session, member)

    async def end_session(self, session: Session) -> None:
        await self._call(MemoryOwnershipStore.end_session, session)

    async def sessions(self) -> list[SessionInfo]:
        return await self._call(MemoryOwnershipStore.sessions)

    async def sweep(self) -> None:
        await self._call(MemoryOwnershipStore.sweep)

    async def claim(self, session: Session, unit: Unit) -> Lease:
        return await self._call(MemoryOwnershipStore.claim, session, unit)

    async def set_state(self, session: Session, unit: Unit, epoch: int, state: LeaseState) -> Lease:
        return await self._call(MemoryOwnershipStore.set_state, session, unit, epoch, state)

    async def release(self, session: Session, unit: Unit, epoch: int) -> bool:
        return await self._call(MemoryOwnershipStore.release, session, unit, epoch)

    async def hand_off(self, session: Session, unit: Unit, epoch: int, to: Unit) -> Lease | None:
        return await self._call(MemoryOwnershipStore.hand_off, session, unit, epoch, to)

    async def place_bid(
        self,
        session: Session,
        unit: Unit,
        *,
        free_bytes: int,
        min_bytes: int,
        max_bids: int | None,
        window_s: float,
    ) -> BidResult:
        return await self._call(
            MemoryOwnershipStore.place_bid,
            session,
            unit,
            free_bytes=free_bytes,
            min_bytes=min_bytes,
            max_bids=max_bids,
            window_s=window_s,
        )

    async def close_auction(self, unit: Unit) -> CloseResult:
        return await self._call(MemoryOwnershipStore.close_auction, unit)

    async def push_max_bids(self, max_bids: int | None) -> None:
        await self._call(MemoryOwnershipStore.push_max_bids, max_bids)

    def watch(self) -> Stream:
        self.calls += 1
        return Stream(self._server, self._link, self._loop, timeout_s=self._timeout_s)

    async def close(self) -> None:
        """Streams close themselves when their reader is cancelled."""

    async def _call(
        self,
        method: Callable[Concatenate[MemoryOwnershipStore, P], Coroutine[Any, Any, T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        self.calls += 1
        call = method.__name__
        answer: asyncio.Future[T] = self._loop.create_future()

        def arrive_there() -> None:
            server = self._server
            if server.is_up:
                outcome = server.serve(self._node, call, args, kwargs)
            elif server.is_refusing():
                outcome = Unavailable(f"{call}: the store refuses connections")
            else:
                return
            self._link.send(Direction.DOWN, lambda: _settle(answer, outcome), break_off)

        def break_off() -> None:
            _settle(answer, Unavailable(f"{call}: the connection broke"))

        self._link.send(Direction.UP, arrive_there, break_off)
        try:
            # This timer belongs to the calling process, and stands still while that is paused.
            async with asyncio.timeout(self._timeout_s):
                return await answer
        except TimeoutError:
            raise Unavailable(f"{call}: no answer within {self._timeout_s} s") from None


def _settle(answer: "asyncio.Future[Any]", outcome: Any) -> None:
    if answer.done():
        return
    if isinstance(outcome, ArgosyError):
        answer.set_exception(outcome)
    elif isinstance(outcome, BaseException):
        answer.set_exception(Unavailable("the store failed"))
    else:
        answer.set_result(outcome)


def _at_once(coro: Coroutine[Any, Any, Any]) -> Any:
    try:
        coro.send(None)
    except StopIteration as done:
        return done.value
    coro.close()
    raise RuntimeError("a memory store never waits; this call did")
