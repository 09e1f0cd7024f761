"""Ownership store in etcd, for fleets whose leases must survive the loss of a machine.

A grant is on a majority of disks before it is acknowledged, and all keys on a session's etcd lease end with it. Each
change is one transaction, conditional on everything that it was decided on. This module combines sessions and leases
(`etcd_leases`), auctions (`etcd_auctions`) and events (`etcd_events`).
"""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Self

from argosy.base.clock import Clock, Random
from argosy.base.errors import Unavailable
from argosy.base.retry import RetryBudget
from argosy.ownership.backends.etcd_auctions import AuctionClock, BidRequest, EtcdAuctions
from argosy.ownership.backends.etcd_client import WATCH_BACKOFF, EtcdClient, EtcdUrl, HistoryLost, follow
from argosy.ownership.backends.etcd_events import EventTranslator
from argosy.ownership.backends.etcd_leases import EtcdLeases, EtcdSessions, Grace
from argosy.ownership.backends.etcd_records import EtcdKeys
from argosy.ownership.events import Snapshot, WatchEvent
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
    threshold,
)


class EtcdStore:
    """Implements `OwnershipStore` for nodes that share an etcd cluster."""

    def __init__(
        self, client: EtcdClient, keys: EtcdKeys, space: Space, *, clock: Clock, random: Random, grace: Grace
    ) -> None:
        """Only for `open`, which connects and makes sure that the store's epoch base is known."""
        self.space = space
        self._client = client
        self._keys = keys
        self._clock = clock
        self._random = random
        # Shared by watch and auctions: a window is counted from the first sight of an auction, whichever saw it.
        self._auction_clock = AuctionClock(clock)
        self._sessions = EtcdSessions(client, keys)
        self._leases = EtcdLeases(client, keys, grace, space)
        self._auctions = EtcdAuctions(client, keys, grace, self._sessions, self._auction_clock)

    @classmethod
    async def open(
        cls,
        url: str,
        space: Space,
        *,
        clock: Clock,
        random: Random,
        grace_s: float,
        namespace: str = "argosy",
        connect_timeout_s: float = 5.0,
    ) -> Self:
        """Connects. `grace_s` is how long a store that has lost its data grants nothing: at least the longest session
        TTL."""
        parsed = EtcdUrl.parse(url)
        client = await EtcdClient.open(parsed, connect_timeout_s=connect_timeout_s)
        keys = EtcdKeys(parsed.prefix, namespace, space)
        grace = Grace(client, keys, clock=clock, grace_s=grace_s)
        try:
            await grace.begin()
        # A store that could not be opened must not leave its connection behind.
        except BaseException:
            await client.close()
            raise
        return cls(client, keys, space, clock=clock, random=random, grace=grace)

    async def close(self) -> None:
        await self._client.close()

    # -- sessions ---------------------------------------------------------------------------------------------------

    async def open_session(self, role: SessionRole, member: Member, *, ttl_s: float) -> Session:
        return await self._sessions.open(role, member, ttl_s=ttl_s)

    async def renew(self, session: Session) -> frozenset[tuple[Unit, int]] | None:
        """Returns None: etcd keeps everything that it has acknowledged, so there are no lost leases to notice."""
        await self._sessions.renew(session)
        return None

    async def announce(self, session: Session, member: Member) -> None:
        await self._sessions.announce(session, member)

    async def end_session(self, session: Session) -> None:
        await self._sessions.end(session)

    async def sessions(self) -> list[SessionInfo]:
        return await self._sessions.list()

    async def sweep(self) -> None:
        """Nothing to do: etcd expires its leases by itself."""

    # -- leases -----------------------------------------------------------------------------------------------------

    async def claim(self, session: Session, unit: Unit) -> Lease:
        return await self._leases.claim(session, unit)

    async def set_state(self, session: Session, unit: Unit, epoch: int, state: LeaseState) -> Lease:
        return await self._leases.set_state(session, unit, epoch, state)

    async def release(self, session: Session, unit: Unit, epoch: int) -> bool:
        return await self._leases.release(session, unit, epoch)

    async def hand_off(self, session: Session, unit: Unit, epoch: int, to: Unit) -> Lease | None:
        return await self._leases.hand_off(session, unit, epoch, to)

    # -- auctions ---------------------------------------------------------------------------------------------------

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
        return await self._auctions.place_bid(BidRequest(session, unit, free_bytes, min_bytes, max_bids, window_s))

    async def close_auction(self, unit: Unit) -> CloseResult:
        return await self._auctions.close_auction(unit)

    async def push_max_bids(self, max_bids: int | None) -> None:
        if max_bids is None:
            await self._client.delete(self._keys.max_bids)
        else:
            # `threshold` validates the number and applies its bound, as for every other source of it.
            await self._client.put(self._keys.max_bids, str(threshold(max_bids, 0)).encode())

    # -- watching ---------------------------------------------------------------------------------------------------

    async def watch(self) -> AsyncIterator[WatchEvent]:
        translator = EventTranslator(self._keys, self._auction_clock)
        budget = RetryBudget(WATCH_BACKOFF, clock=self._clock, random=self._random)

        async def is_same_store() -> bool:
            meta = await self._client.get(self._keys.meta)
            # A wiped store starts its revisions again, so a watch on it could silently skip events.
            return (meta.value if meta is not None else None) == translator.meta

        while True:
            snapshot, revision = await self._read_snapshot(translator, budget)
            yield snapshot
            changes = follow(
                self._client,
                self._keys.root,
                after_revision=revision,
                is_same_store=is_same_store,
                budget=budget,
            )
            try:
                # Closed explicitly: until a generator is collected, its stream to the server stays open.
                async with aclosing(changes) as replies:
                    async for reply in replies:
                        for event in translator.translate(reply):
                            yield event
            except HistoryLost:
                pass  # the next snapshot replaces everything delivered so far

    async def _read_snapshot(self, translator: EventTranslator, budget: RetryBudget) -> tuple[Snapshot, int]:
        while True:
            try:
                kvs, revision = await self._client.list(self._keys.root)
                return translator.begin(kvs), revision
            except Unavailable as error:
                # The store was closed by its owner, so no retry can succeed.
                if self._client.channel.is_closed:
                    raise
                await budget.spend(error)
