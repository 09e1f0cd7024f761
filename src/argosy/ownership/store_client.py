"""Performs a node's effects on its store: each effect is one call with a timeout, and each reply becomes events.

Every call has three kinds of result: the store is unreachable (`…Failed`; the call may or may not have taken effect),
the session has ended (`SessionEnded`), or a reply. The state machines decide what to do; nothing is retried here,
except calls that can be repeated without harm.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

from argosy.base.clock import Clock, Random
from argosy.base.errors import Conflict, Fenced, Throttled, Unavailable
from argosy.base.retry import Backoff, retry
from argosy.ownership import effects, events
from argosy.ownership.model import Member, Session
from argosy.ownership.ports import MemoryProbe, OwnershipStore
from argosy.ownership.settings import OwnershipSettings
from argosy.ownership.telemetry import OwnershipTelemetry

CALL_TIMEOUT_S = 10.0  # for one call to the store, unless a renewal is due earlier


class StoreClient:
    """Calls one store for one node."""

    def __init__(
        self,
        store: OwnershipStore,
        memory: MemoryProbe,
        settings: OwnershipSettings,
        telemetry: OwnershipTelemetry,
        *,
        clock: Clock,
        random: Random,
    ) -> None:
        self._store = store
        self._memory = memory
        self._settings = settings
        self._telemetry = telemetry
        self._clock = clock
        self._random = random
        # A call that takes longer than the renewal interval could not be repeated in time.
        self._timeout_s = min(CALL_TIMEOUT_S, settings.renew_s)

    # -- sessions ---------------------------------------------------------------------------------------------------

    async def open_or_renew(
        self, effect: effects.OpenSession | effects.RenewSession, member: Member
    ) -> Iterable[events.Event]:
        role = effect.role if isinstance(effect, effects.OpenSession) else effect.session.role
        sent_at = self._clock.now()  # before the request: the store counts the TTL from its arrival (OWN-4)
        try:
            async with self.deadline():
                if isinstance(effect, effects.RenewSession):
                    held = await self._store.renew(effect.session)
                    return [events.SessionRenewed(effect.session, sent_at, held)]
                session = await self._store.open_session(role, member, ttl_s=self._settings.ttl_s)
            self._telemetry.record_session_opened(role)
            return [events.SessionOpened(session, sent_at)]
        # Not retried here: the state machine decides how long a restarted node waits for its own previous session.
        except Conflict as error:
            return [events.SessionRejected(role, str(error))]
        except Fenced:
            assert isinstance(effect, effects.RenewSession)
            return self._on_fenced(effect.session)
        except Unavailable as error:
            self._telemetry.record_store_unreachable(error)
            return [events.SessionFailed(role)]

    async def announce(self, session: Session, latest: Callable[[], Member]) -> Iterable[events.Event]:
        """A retry sends the latest record: an older one could arrive last and overwrite it."""
        try:
            await self._call_with_retries(lambda: self._store.announce(session, latest()))
        except Fenced:
            return self._on_fenced(session)
        # Not an event: the record is for operators and the live threshold, and the next change sends it again.
        except Unavailable as error:
            self._telemetry.record_store_unreachable(error)
        return ()

    async def end_session(self, session: Session) -> None:
        """Ends a session. If the store is unreachable, the session expires."""
        try:
            await self._call_with_retries(lambda: self._store.end_session(session))
        except Unavailable as error:
            self._telemetry.record_store_unreachable(error)

    def _on_fenced(self, session: Session) -> Iterable[events.Event]:
        self._telemetry.record_session_lost(session.role)
        return [events.SessionEnded(session)]

    # -- placement --------------------------------------------------------------------------------------------------

    async def place_bid(self, effect: effects.PlaceBid) -> Iterable[events.Event]:
        try:
            async with self.deadline():
                result = await self._store.place_bid(
                    effect.session,
                    effect.unit,
                    # Measured now: since the state machine decided, the process may have used more.
                    free_bytes=max(0, self._memory.free_bytes() - effect.reserved_bytes),
                    min_bytes=max(1, effect.min_bytes),
                    max_bids=effect.max_bids,
                    window_s=self._settings.window_s,
                )
            self._telemetry.record_bid(result)
            return [events.BidAnswered(effect.unit, result)]
        except Fenced:
            # Two events: the session is lost, and the bidder must not wait for a reply that never comes.
            return [*self._on_fenced(effect.session), events.BidFailed(effect.unit)]
        # The bid may be placed. The bidder finds out by its next one, which is then rejected as already pending
        # (OWN-3).
        except Unavailable:
            return [events.BidFailed(effect.unit)]

    async def close_auction(self, effect: effects.CloseAuction) -> Iterable[events.Event]:
        try:
            async with self.deadline():
                result = await self._store.close_auction(effect.unit)
            self._telemetry.record_close(effect.unit, result)
            return [events.CloseAnswered(effect.unit, result)]
        except Unavailable:
            return [events.CloseFailed(effect.unit)]

    async def claim(self, effect: effects.ClaimLease) -> Iterable[events.Event]:
        answered = events.ClaimAnswered(effect.unit, None)  # the watch reports who holds the unit
        try:
            async with self.deadline():
                await self._store.claim(effect.session, effect.unit)
            return [answered]
        except Throttled as later:
            return [events.ClaimAnswered(effect.unit, later.retry_after_s)]
        except Fenced:
            return [*self._on_fenced(effect.session), answered]
        # Another node has the unit, or the claim may have taken effect; the watch reports who holds it.
        except (Conflict, Unavailable):
            return [answered]

    # -- leases -----------------------------------------------------------------------------------------------------

    async def change_lease(
        self, effect: effects.SetLeaseState | effects.ReleaseLease | effects.HandOffLease
    ) -> Iterable[events.Event]:
        session, unit, epoch = effect.session, effect.unit, effect.epoch
        try:
            async with self.deadline():
                match effect:
                    case effects.SetLeaseState(state=state):
                        await self._store.set_state(session, unit, epoch, state)
                        return ()
                    case effects.ReleaseLease():
                        await self._store.release(session, unit, epoch)
                        return [events.ReleaseAnswered(unit, epoch, is_done=True)]
                    case effects.HandOffLease(to=to):
                        lease = await self._store.hand_off(session, unit, epoch, to)
                        return [events.ReleaseAnswered(unit, epoch, is_done=lease is not None)]
        except Fenced:
            return ()  # the lease is lost: the watch or the next renewal reports it
        except Unavailable:
            is_state = isinstance(effect, effects.SetLeaseState)
            return [
                events.SetStateFailed(unit, epoch) if is_state else events.ReleaseAnswered(unit, epoch, is_done=False)
            ]

    # -- timeouts ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def deadline(self) -> AsyncIterator[None]:
        """Limits a call to the renewal interval, so that a call that hangs does not delay the next renewal."""
        try:
            async with asyncio.timeout(self._timeout_s):
                yield
        except TimeoutError:
            raise Unavailable(f"store call timed out after {self._timeout_s} s") from None

    async def _call_with_retries(self, call: Callable[[], Awaitable[None]]) -> None:
        async def attempt() -> None:
            async with self.deadline():
                await call()

        await retry(attempt, Backoff(), clock=self._clock, random=self._random)
