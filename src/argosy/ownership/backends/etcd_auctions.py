"""Auctions in etcd: placing bids and closing.

A bid and its pending mark are two keys on the bidder's etcd lease, written together or not at all. Closing writes the
winner's lease and deletes all bids and marks in one transaction: the first caller closes the auction, and for all
others it no longer exists (OWN-6).

Both work alike: one read, then one write that requires everything read to be unchanged. A failed write returns the new
state for the next attempt, so a lost race costs one round trip.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from argosy.base.clock import Clock
from argosy.ownership.backends.etcd_client import EtcdClient
from argosy.ownership.backends.etcd_client import etcd_pb2 as pb
from argosy.ownership.backends.etcd_client.ops import (
    count,
    delete,
    delete_all,
    first_kv,
    get,
    get_all,
    is_absent,
    is_at,
    is_attached,
    mod_revision,
    none_newer,
    put,
)
from argosy.ownership.backends.etcd_leases import (
    EtcdSessions,
    Grace,
    contention_error,
    lease_from_grant,
    session_ended_error,
)
from argosy.ownership.backends.etcd_records import (
    AuctionValue,
    BidValue,
    EtcdKeys,
    LeaseValue,
    decode,
    encode,
    is_of,
    lease_of,
    read_auction,
    read_bid,
    read_lease,
)
from argosy.ownership.model import (
    BIDS_MAX,
    Bid,
    BidOutcome,
    BidResult,
    CloseOutcome,
    CloseResult,
    LeaseState,
    Session,
    SessionRole,
    Unit,
    rank,
    rivals,
    threshold,
)

BID_ATTEMPTS_MAX = 8  # the first bids of many nodes collide once; after that all but one find the auction open
CLOSE_ATTEMPTS_MAX = 32  # every bid placed or withdrawn during the close costs one attempt
RACE_PAUSE_S = 0.05  # before the caller tries again, so that the bids can settle
AUCTIONS_SEEN_MAX = 10_000  # past this the oldest entry is dropped, and its window starts again


class AuctionClock:
    """Time since this process first saw each auction: how a window is measured in a store without a clock.

    etcd's transactions cannot read a clock, and clocks of different machines are never compared. Each closer therefore
    counts an auction's window on its own clock, from when it first saw the auction. No node closes too early, and the
    node that saw it first closes on time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[int, float] = {}

    def elapsed_s(self, auction: int) -> float:
        """Records the auction if it is new, and returns for how long it has been known."""
        now = self._clock.now()
        # Dropping the oldest only makes its window start again, so it closes late and never early.
        if auction not in self._seen and len(self._seen) >= AUCTIONS_SEEN_MAX:
            del self._seen[next(iter(self._seen))]
        return now - self._seen.setdefault(auction, now)

    def remove(self, auction: int) -> None:
        self._seen.pop(auction, None)

    def __len__(self) -> int:
        return len(self._seen)


@dataclass(frozen=True)
class BidRequest:
    """The arguments of `place_bid`."""

    session: Session
    unit: Unit
    free_bytes: int
    min_bytes: int
    max_bids: int | None
    window_s: float


@dataclass(frozen=True)
class _BidContext:
    """Everything that a bid depends on, at one revision."""

    session: pb.KeyValue | None
    mark: pb.KeyValue | None
    auction: pb.KeyValue | None
    meta: pb.KeyValue | None
    lease: pb.KeyValue | None
    rivals: tuple[pb.KeyValue | None, ...]

    def rejection(self, bid: BidRequest) -> BidOutcome | None:
        if not is_of(self.session, bid.session):
            raise session_ended_error(bid.session)
        if self.mark is not None:  # OWN-3
            return BidOutcome.ALREADY_PENDING
        if bid.free_bytes < bid.min_bytes:
            return BidOutcome.BELOW_MINIMUM
        holders = (read_lease(kv, bid.unit).node for kv in self.rivals if kv is not None)
        return BidOutcome.NOT_OPEN if self.lease is not None or bid.session.node in holders else None


@dataclass(frozen=True)
class _CloseContext:
    """An auction and everything that its result depends on, at one revision."""

    unit: Unit
    revision: int
    auction: pb.KeyValue
    lease: pb.KeyValue | None
    grace: pb.KeyValue | None
    meta: pb.KeyValue | None
    rivals: tuple[pb.KeyValue | None, ...]
    bids: tuple[Bid, ...]  # best first

    def winner(self) -> Bid | None:
        """The best bid of a node that holds no sibling slot. A bid is on its bidder's etcd lease, so its bidder is
        alive."""
        if self.lease is not None:
            return None
        excluded = {read_lease(kv, self.unit).node for kv in self.rivals if kv is not None}
        return next((bid for bid in self.bids if bid.node not in excluded), None)


class EtcdAuctions:
    """The auctions of one space."""

    def __init__(
        self, client: EtcdClient, keys: EtcdKeys, grace: Grace, sessions: EtcdSessions, auction_clock: AuctionClock
    ) -> None:
        self._client = client
        self._keys = keys
        self._grace = grace
        self._sessions = sessions
        self._auction_clock = auction_clock

    # -- bids -------------------------------------------------------------------------------------------------------

    async def place_bid(self, bid: BidRequest) -> BidResult:
        reads = [get(key) for key in self._bid_keys(bid)]
        reply = await self._client.txn(then=reads)
        for _ in range(BID_ATTEMPTS_MAX):
            session, mark, auction, meta, lease, *others = map(first_kv, reply.responses)
            context = _BidContext(session, mark, auction, meta, lease, tuple(others))
            if (rejection := context.rejection(bid)) is not None:
                return BidResult(rejection)
            # The store was wiped since this process opened it: the base must be read again before anything is written.
            if not self._grace.is_known(meta):
                await self._grace.begin()
            # Only the first bid fixes the terms; all later ones are subject to them.
            terms = await self._new_terms(bid) if auction is None else decode(auction, AuctionValue)
            reply = await self._client.txn(
                when=self._bid_conditions(bid, context), then=self._bid_writes(bid, context, terms), otherwise=reads
            )
            if reply.succeeded:
                opened_at = reply.header.revision if auction is None else auction.create_revision
                # Starts the clock of this auction here, because the watch may report it later.
                self._auction_clock.elapsed_s(terms.base + opened_at)
                bids = reply.responses[-1].response_range.count
                return BidResult(BidOutcome.PLACED, auction is None, bids >= terms.max_bids, terms.max_bids)
        raise contention_error(f"bid for {str(bid.unit)!r}")

    async def _new_terms(self, bid: BidRequest) -> AuctionValue:
        """What the first bid fixes."""
        bidding = 0 if bid.max_bids is not None else await self._sessions.count_bidding()
        return AuctionValue(threshold(bid.max_bids, bidding), bid.window_s, self._grace.base)

    def _bid_keys(self, bid: BidRequest) -> list[bytes]:
        keys, node = self._keys, bid.session.node
        slots = (keys.lease(slot) for slot in (bid.unit, *rivals(bid.unit)))
        return [keys.session(SessionRole.HOLDER, node), keys.pending(node), keys.auction(bid.unit), keys.meta, *slots]

    def _bid_conditions(self, bid: BidRequest, context: _BidContext) -> list[pb.Compare]:
        session, pending, auction, _, *slots = self._bid_keys(bid)
        leases = (context.lease, *context.rivals)
        return [
            is_attached(session, lease_of(bid.session)),
            is_absent(pending),
            # Revision 0 means that the key is absent, so one condition covers joining and opening.
            is_at(auction, mod_revision(context.auction)),
            self._grace.knows_store(),
            *(is_at(slot, mod_revision(kv)) for slot, kv in zip(slots, leases, strict=True)),
        ]

    def _bid_writes(self, bid: BidRequest, context: _BidContext, terms: AuctionValue) -> list[pb.RequestOp]:
        keys, unit, node = self._keys, bid.unit, bid.session.node
        lease, value = lease_of(bid.session), BidValue(bid.session.address, bid.free_bytes)
        return [
            *([put(keys.auction(unit), encode(terms))] if context.auction is None else ()),
            put(keys.pending(node), unit.key.encode(), lease=lease),
            put(keys.bid(unit, node), encode(value), lease=lease),
            count(keys.bids(unit)),  # includes the bid just put, so exactly one bidder learns that the auction is full
        ]

    # -- closing ----------------------------------------------------------------------------------------------------

    async def close_auction(self, unit: Unit) -> CloseResult:
        reads = self._close_reads(unit)
        reply = await self._client.txn(then=reads)
        deleted = 0
        for _ in range(CLOSE_ATTEMPTS_MAX):
            context = self._close_context(unit, reply)
            if context is None:
                return CloseResult(CloseOutcome.ALREADY_CLOSED)
            auction = read_auction(context.auction, unit)
            open_for_s, bids = self._auction_clock.elapsed_s(auction.id), len(context.bids) + deleted
            is_full = bids >= auction.max_bids
            if (wait_s := await self._wait_s(context, 0.0 if is_full else auction.closes_in_s - open_for_s)) > 0:
                return CloseResult(CloseOutcome.NOT_DUE, wait_s=wait_s)
            # An etcd transaction has at most 128 operations, and deleting one pending mark is one of them.
            if len(context.bids) > BIDS_MAX:
                deleted += await self._delete_worst_bids(context)
                reply = await self._client.txn(then=reads)
                continue
            winner = context.winner()
            reply = await self._settle(context, winner, reads)
            if reply.succeeded:
                self._auction_clock.remove(auction.id)
                is_short_circuit = is_full and open_for_s < auction.closes_in_s
                if winner is None:
                    return CloseResult(CloseOutcome.NO_WINNER, None, bids, is_short_circuit, open_for_s)
                lease = lease_from_grant(unit, self._lease_value(winner), int(winner.token, 16), reply)
                return CloseResult(CloseOutcome.WON, lease, bids, is_short_circuit, open_for_s)
        # Bids keep arriving; the auction stays open and some closer tries again.
        return CloseResult(CloseOutcome.NOT_DUE, wait_s=RACE_PAUSE_S)

    async def _wait_s(self, context: _CloseContext, window_left_s: float) -> float:
        # No lease may be granted during the grace period, not even to the best bidder (OWN-1).
        if context.grace is not None:
            return max(window_left_s, await self._grace.wait_s(context.grace))
        if window_left_s <= 0 and not self._grace.is_known(context.meta):
            await self._grace.begin()
            return RACE_PAUSE_S  # the next call then finds the grace key, if one was needed
        return window_left_s

    async def _settle(self, context: _CloseContext, winner: Bid | None, reads: list[pb.RequestOp]) -> pb.TxnResponse:
        keys, unit = self._keys, context.unit
        writes = [
            delete(keys.auction(unit)),
            delete_all(keys.bids(unit)),
            *(delete(keys.pending(bid.node)) for bid in context.bids),
        ]
        if winner is not None:
            writes.append(put(keys.lease(unit), encode(self._lease_value(winner)), lease=int(winner.token, 16)))
        return await self._client.txn(when=list(self._is_unchanged(context)), then=writes, otherwise=reads)

    def _lease_value(self, winner: Bid) -> LeaseValue:
        return LeaseValue(winner.node, winner.address, LeaseState.WARMING, self._grace.base)

    def _is_unchanged(self, context: _CloseContext) -> Iterator[pb.Compare]:
        keys, unit = self._keys, context.unit
        yield is_at(keys.auction(unit), context.auction.mod_revision)
        yield is_at(keys.lease(unit), mod_revision(context.lease))
        yield from self._grace.conditions()
        # A bid placed after the read would leave its pending mark behind forever.
        yield none_newer(keys.bids(unit), context.revision)
        # A mark may be deleted only while its bid exists: a bidder that restarted may have a newer mark.
        for bid in context.bids:
            yield is_at(keys.bid(unit, bid.node), bid.order)
        for rival, kv in zip(rivals(unit), context.rivals, strict=True):
            yield is_at(keys.lease(rival), mod_revision(kv))

    async def _delete_worst_bids(self, context: _CloseContext) -> int:
        """Deletes the worst bids first if there are more than one transaction can delete; they would lose anyway."""
        deleted = 0
        for bid in context.bids[BIDS_MAX:]:
            key = self._keys.bid(context.unit, bid.node)
            reply = await self._client.txn(
                when=[is_at(key, bid.order)], then=[delete(key), delete(self._keys.pending(bid.node))]
            )
            deleted += reply.succeeded
        return deleted

    def _close_reads(self, unit: Unit) -> list[pb.RequestOp]:
        keys = self._keys
        single = (keys.auction(unit), keys.lease(unit), keys.grace, keys.meta, *map(keys.lease, rivals(unit)))
        return [get_all(keys.bids(unit)), *map(get, single)]

    def _close_context(self, unit: Unit, reply: pb.TxnResponse) -> _CloseContext | None:
        bids = rank(read_bid(kv, self._keys) for kv in reply.responses[0].response_range.kvs)
        auction, lease, grace, meta, *others = map(first_kv, list(reply.responses)[1:])
        if auction is None:
            return None
        return _CloseContext(unit, reply.header.revision, auction, lease, grace, meta, tuple(others), tuple(bids))
