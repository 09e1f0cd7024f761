"""The ownership store as one node sees it: the shared memory store behind a link that delays, loses and breaks.

A call without a timely response is `Unavailable`; its effect may have happened, may happen later, or never. The methods
of the memory store never wait, so the server executes a call in one step at one instant.

Watch events arrive in order, maybe late, or the watch breaks and must be opened again. A partition first only stalls a
watch. When keep-alives have had no answer for a while both ends drop it, each for itself; if the partition heals
before that, the stalled events arrive late.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

from argosy.base.clock import Random
from argosy.base.errors import ArgosyError, Unavailable
from argosy.ownership.backends.memory import WATCH_BACKLOG_MAX, MemoryOwnershipStore
from argosy.ownership.events import WatchEvent
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
from argosy.sim.loop import OUTSIDE, SimLoop

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class StoreCall:
    """A call that reached the store, and its outcome there, for checkers."""

    node: str
    call: str
    args: tuple[Any, ...]
    outcome: Any  # the result, or the error


class StoreServer:
    """The server of the store: it can be down, and come back with or without its data."""

    def __init__(self, store: MemoryOwnershipStore, random: Random) -> None:
        self.store = store
        self.is_up = True
        self.call_observers: list[Callable[[StoreCall], None]] = []
        self.streams: dict[SimWatch, None] = {}  # a dict and not a set, for its order
        self._random = random

    def serve(self, node: str, call: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Execute one call. A bug in the store (not an `ArgosyError`) is an outcome too, which checkers report."""
        outcome: Any
        try:
            outcome = _at_once(getattr(self.store, call)(*args, **kwargs))
        # AssertionError and KeyError are broken invariants inside the store: the simulation goes on and reports them.
        except (ArgosyError, AssertionError, KeyError) as error:
            outcome = error
        for tap in self.call_observers:
            tap(StoreCall(node, call, (*args, *kwargs.values()), outcome))
        return outcome

    def is_refusing(self) -> bool:
        """While the store is down, half of the connections are refused and half get no response, as with firewalls."""
        return self._random.random() < 0.5

    def stop(self) -> None:
        self.is_up = False
        # In order of subscription: the order of a set would differ from one interpreter to the next.
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

    def watch(self) -> "SimWatch":
        self.calls += 1
        return SimWatch(self._server, self._link, self._loop, timeout_s=self._timeout_s)

    async def close(self) -> None:
        """Watches close themselves when their reader is cancelled."""

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
            # The response may be lost although the call has taken effect, which is what retries have to cope with.
            self._link.send(Direction.DOWN, lambda: _settle(answer, outcome), break_off)

        def break_off() -> None:
            _settle(answer, Unavailable(f"{call}: the connection broke"))

        self._link.send(Direction.UP, arrive_there, break_off)
        try:
            # The timer belongs to the calling process, and is held while that is paused.
            async with asyncio.timeout(self._timeout_s):
                return await answer
        except TimeoutError:
            raise Unavailable(f"{call}: no answer within {self._timeout_s} s") from None


def _settle(answer: "asyncio.Future[Any]", outcome: Any) -> None:
    # A response after the timeout, or to a call whose process has ended.
    if answer.done():
        return
    if isinstance(outcome, ArgosyError):
        answer.set_exception(outcome)
    elif isinstance(outcome, BaseException):
        answer.set_exception(Unavailable("the store failed"))
    else:
        answer.set_result(outcome)


def _at_once(coro: Coroutine[Any, Any, Any]) -> Any:
    # One step of the coroutine is the whole call, because a memory store never awaits anything that is not done.
    try:
        coro.send(None)
    except StopIteration as done:
        return done.value
    coro.close()
    raise RuntimeError("a memory store never waits; this call did")


# -- watches ----------------------------------------------------------------------------------------------------------


class SimWatch:
    """One watch of one node; an async iterator that ends only with `Unavailable`."""

    def __init__(self, server: StoreServer, link: Link, loop: SimLoop, *, timeout_s: float) -> None:
        self._server = server
        self.link = link
        self._loop = loop
        self._timeout_s = timeout_s
        self._is_opened = False
        self._is_broken = False
        self._is_subscribed = False
        self._inbox: deque[WatchEvent] = deque()
        self._in_flight: deque[WatchEvent] = deque()
        self._stalled: list[WatchEvent] = []
        self._last_due = 0.0
        self._arrived: asyncio.Future[None] | None = None

    def __aiter__(self) -> "SimWatch":
        return self

    async def __anext__(self) -> WatchEvent:
        try:
            if not self._is_opened:
                await self._open()
            while not self._inbox and not self._is_broken:
                await self._wait_event()
        # The server would otherwise go on collecting events for a reader that no longer exists.
        except asyncio.CancelledError:
            self.abandon()
            raise
        if not self._inbox:
            raise Unavailable("the watch broke; open another")
        return self._inbox.popleft()

    async def aclose(self) -> None:
        self.abandon()

    def sever(self) -> None:
        """The server has ended the watch; the node learns that over the link, or by missing keep-alives."""
        self._unsubscribe()
        is_cut_off = self.link.is_blocked(Direction.DOWN)
        # Behind a partition no message arrives, so the node notices only that keep-alives are missing.
        delay_s = self.link.quality.keepalive_s if is_cut_off else self.link.latency()
        self._loop.call_later(delay_s, self._break, context=OUTSIDE)

    # -- node -------------------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        self._is_opened = True
        self.link.send(Direction.UP, self._subscribe, self._break)
        try:
            async with asyncio.timeout(self._timeout_s):
                while not self._inbox and not self._is_broken:
                    await self._wait_event()
        except TimeoutError:
            self.abandon()
            raise Unavailable(f"watch: no snapshot within {self._timeout_s} s") from None

    async def _wait_event(self) -> None:
        self._arrived = self._loop.create_future()
        await self._arrived

    def _arrive(self) -> None:
        event = self._in_flight.popleft()
        if self._is_broken:
            return
        # A slow reader loses its watch, as with a real store that bounds its buffers.
        if len(self._inbox) >= WATCH_BACKLOG_MAX:
            self.abandon()
        else:
            self._inbox.append(event)
        self._wake()

    def _break(self) -> None:
        self._is_broken = True
        self._wake()

    def abandon(self) -> None:
        """The node closes its end. The server unsubscribes at the same instant, which no node can observe."""
        self._is_broken = True
        self._unsubscribe()

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    # -- server -----------------------------------------------------------------------------------------------------

    def _subscribe(self) -> None:
        # Abandoned while the request was on its way.
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

    def _push(self, event: WatchEvent) -> None:
        if self.link.is_blocked(Direction.DOWN):
            self._stalled.append(event)
            return
        # Timers of the same instant may fire in any order, so a timer only says that the next event has arrived.
        self._in_flight.append(event)
        # Never before an earlier event: the latency varies, but a watch keeps its order.
        self._last_due = max(self._last_due, self._loop.time() + self.link.latency())
        self._loop.call_at(self._last_due, self._arrive, context=OUTSIDE)

    def _flush(self) -> None:
        if self.link.is_blocked(Direction.DOWN):
            return
        stalled, self._stalled = self._stalled, []
        for event in stalled:
            self._push(event)

    def _notice_silence(self) -> None:
        self._loop.call_later(self.link.quality.keepalive_s, self._give_up_if_silent, context=OUTSIDE)

    def _give_up_if_silent(self) -> None:
        if self._is_subscribed and not self.link.is_whole():
            self._unsubscribe()
            self._break()
