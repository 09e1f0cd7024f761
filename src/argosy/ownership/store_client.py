"""A node's orders to its store: each order is one call with a deadline, and each answer becomes events.

Three answers look alike everywhere: the store is away (`…Missed`: the call may have taken effect), the session is gone
(`SessionEnded`), or the call was answered.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

from argosy.base.clock import Clock, Random
from argosy.base.errors import Conflict, Fenced, Throttled, Unavailable
from argosy.base.retry import Backoff, retry
from argosy.ownership import effects as do
from argosy.ownership import events as saw
from argosy.ownership.model import BidReceipt, Member, Session
from argosy.ownership.ports import MemoryProbe, OwnershipStore
from argosy.ownership.settings import OwnershipSettings
from argosy.ownership.telemetry import Teller

CALL_TIMEOUT_S = 10.0  # for one call to the store, unless a renewal is due earlier


class StoreClient:
    """Carries out one node's orders on one store."""

    def __init__(
        self,
        store: OwnershipStore,
        memory: MemoryProbe,
        settings: OwnershipSettings,
        teller: Teller,
        *,
        clock: Clock,
        random: Random,
    ) -> None:
        self._store = store
        self._memory = memory
        self._settings = settings
        self._teller = teller
        self._clock = clock
        self._random = random
        self._timeout_s = min(CALL_TIMEOUT_S, settings.renew_s)

    # -- sessions ---------------------------------------------------------------------------------------------------

    async def keep_session(self, effect: do.OpenSession | do.RenewSession, member: Member) -> Iterable[saw.Event]:
        role = effect.role if isinstance(effect, do.OpenSession) else effect.session.role
        sent_at = self._clock.now()
        try:
            async with self.deadline():
                if isinstance(effect, do.RenewSession):
                    held = await self._store.renew(effect.session)
                    return [saw.SessionRenewed(effect.session, sent_at, held)]
                session = await self._store.open_session(role, member, ttl_s=self._settings.ttl_s)
            self._teller.session_opened(role)
            return [saw.SessionOpened(session, sent_at)]
        except Conflict as why:
            return [saw.SessionRefused(role, str(why))]
        except Fenced:
            assert isinstance(effect, do.RenewSession)
            return self._fenced(effect.session)
        except Unavailable as why:
            self._teller.store_away(why)
            return [saw.SessionMissed(role)]

    async def announce(self, session: Session, latest: Callable[[], Member]) -> Iterable[saw.Event]:
        """A retry tells the latest, lest it overtake and undo a newer announcement."""
        try:
            await self._try_hard(lambda: self._store.announce(session, latest()))
        except Fenced:
            return self._fenced(session)
        except Unavailable as why:
            self._teller.store_away(why)
        return ()

    async def end_session(self, session: Session) -> None:
        """Ends it, or leaves it to expire."""
        try:
            await self._try_hard(lambda: self._store.end_session(session))
        except Unavailable as why:
            self._teller.store_away(why)

    def _fenced(self, session: Session) -> Iterable[saw.Event]:
        self._teller.session_lost(session.role)
        return [saw.SessionEnded(session)]

    # -- placement --------------------------------------------------------------------------------------------------

    async def bid(self, effect: do.PlaceBid) -> Iterable[saw.Event]:
        try:
            async with self.deadline():
                receipt = await self._place_bid(effect)
            self._teller.bid(receipt)
            return [saw.BidAnswered(effect.unit, receipt)]
        except Fenced:
            return [*self._fenced(effect.session), saw.BidMissed(effect.unit)]
        except Unavailable:
            return [saw.BidMissed(effect.unit)]

    async def _place_bid(self, effect: do.PlaceBid) -> BidReceipt:
        return await self._store.place_bid(
            effect.session,
            effect.unit,
            free_bytes=max(0, self._memory.free_bytes() - effect.reserved_bytes),
            min_bytes=max(1, effect.min_bytes),
            max_bids=effect.max_bids,
            window_s=self._settings.window_s,
        )

    async def close_auction(self, effect: do.CloseAuction) -> Iterable[saw.Event]:
        try:
            async with self.deadline():
                closing = await self._store.close_auction(effect.unit)
            self._teller.closing(effect.unit, closing)
            return [saw.ClosingAnswered(effect.unit, closing)]
        except Unavailable:
            return [saw.ClosingMissed(effect.unit)]

    async def claim(self, effect: do.Claim) -> Iterable[saw.Event]:
        answered = saw.ClaimAnswered(effect.unit, None)
        try:
            async with self.deadline():
                await self._store.claim(effect.session, effect.unit)
            return [answered]
        except Throttled as later:
            return [saw.ClaimAnswered(effect.unit, later.retry_after_s)]
        except Fenced:
            return [*self._fenced(effect.session), answered]
        except (Conflict, Unavailable):
            return [answered]

    # -- leases -----------------------------------------------------------------------------------------------------

    async def change_lease(self, effect: do.SetState | do.Release | do.HandOver) -> Iterable[saw.Event]:
        session, unit, epoch = effect.session, effect.unit, effect.epoch
        try:
            async with self.deadline():
                match effect:
                    case do.SetState(state=state):
                        await self._store.set_state(session, unit, epoch, state)
                        return ()
                    case do.Release():
                        await self._store.release(session, unit, epoch)
                        return [saw.LetGoAnswered(unit, epoch, is_done=True)]
                    case do.HandOver(to=to):
                        lease = await self._store.hand_over(session, unit, epoch, to)
                        return [saw.LetGoAnswered(unit, epoch, is_done=lease is not None)]
        except Fenced:
            return ()  # no longer ours: the watch or the next renewal tells
        except Unavailable:
            is_state = isinstance(effect, do.SetState)
            return [saw.StateMissed(unit, epoch) if is_state else saw.LetGoAnswered(unit, epoch, is_done=False)]

    # -- waiting ----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def deadline(self) -> AsyncIterator[None]:
        """No call outlasts a renewal: what has not answered by then is as good as lost."""
        try:
            async with asyncio.timeout(self._timeout_s):
                yield
        except TimeoutError:
            raise Unavailable(f"the store did not answer within {self._timeout_s} s") from None

    async def _try_hard(self, call: Callable[[], Awaitable[None]]) -> None:
        async def attempt() -> None:
            async with self.deadline():
                await call()

        await retry(attempt, Backoff(), clock=self._clock, random=self._random)
