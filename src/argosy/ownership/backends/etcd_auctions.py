"""Closing an auction in etcd: the lease is granted and every bid and mark cleared in one transaction (OWN-6).

Whoever comes first closes; for all others the auction is gone. If anything it was decided on has changed meanwhile (a
bid came, a bidder died) the transaction does nothing but bring the new state back, and the next best may win.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from argosy.ownership.auction import rank, rivals
from argosy.ownership.backends.etcd_auction_clock import FirstSeen
from argosy.ownership.backends.etcd_client import EtcdClient
from argosy.ownership.backends.etcd_client import etcd_pb2 as pb
from argosy.ownership.backends.etcd_client.ops import (
    delete,
    delete_all,
    found,
    get,
    get_all,
    is_at,
    mod_revision,
    none_newer,
    put,
)
from argosy.ownership.backends.etcd_grace import Grace
from argosy.ownership.backends.etcd_keys import EtcdKeys
from argosy.ownership.backends.etcd_leases import granted
from argosy.ownership.backends.etcd_records import (
    LeaseValue,
    encode,
    read_auction,
    read_bid,
    read_lease,
)
from argosy.ownership.model import BIDS_MAX, Bid, CloseOutcome, CloseResult, LeaseState, Unit

ATTEMPTS_MAX = 32  # every bid that comes or goes while an auction is being closed costs an attempt
RACE_PAUSE_S = 0.05  # after that many, bids are pouring in: let them


@dataclass(frozen=True)
class _AuctionState:
    """One auction and all that its end depends on, at one revision."""

    unit: Unit
    revision: int
    auction: pb.KeyValue
    held: pb.KeyValue | None
    grace: pb.KeyValue | None
    meta: pb.KeyValue | None
    rivals: tuple[pb.KeyValue | None, ...]
    bids: tuple[Bid, ...]  # best first

    def winner(self) -> Bid | None:
        """A bid that stands has a living bidder, so the best one wins, unless its node holds a sibling slot."""
        if self.held is not None:
            return None
        barred = {read_lease(kv, self.unit).node for kv in self.rivals if kv is not None}
        return next((bid for bid in self.bids if bid.node not in barred), None)


class EtcdClosing:
    """The end of auctions in one space."""

    def __init__(self, client: EtcdClient, keys: EtcdKeys, grace: Grace, first_seen: FirstSeen) -> None:
        self._client = client
        self._keys = keys
        self._grace = grace
        self._first_seen = first_seen

    async def close(self, unit: Unit) -> CloseResult:
        reads = self._reads(unit)
        reply = await self._client.txn(then=reads)
        dismissed = 0
        for _ in range(ATTEMPTS_MAX):
            sale = self._sale(unit, reply)
            if sale is None:
                return CloseResult(CloseOutcome.ALREADY_CLOSED)
            auction = read_auction(sale.auction, unit)
            open_for_s, bids = self._first_seen.note(auction.id), len(sale.bids) + dismissed
            is_full = bids >= auction.max_bids
            if (wait_s := await self._wait_s(sale, 0.0 if is_full else auction.closes_in_s - open_for_s)) > 0:
                return CloseResult(CloseOutcome.NOT_DUE, wait_s=wait_s)
            if len(sale.bids) > BIDS_MAX:
                dismissed += await self._dismiss(sale)
                reply = await self._client.txn(then=reads)
                continue
            winner = sale.winner()
            reply = await self._settle(sale, winner, reads)
            if reply.succeeded:
                self._first_seen.forget(auction.id)
                is_short_circuit = is_full and open_for_s < auction.closes_in_s
                if winner is None:
                    return CloseResult(CloseOutcome.NO_WINNER, None, bids, is_short_circuit, open_for_s)
                lease = granted(unit, self._lease_value(winner), int(winner.token, 16), reply)
                return CloseResult(CloseOutcome.WON, lease, bids, is_short_circuit, open_for_s)
        return CloseResult(CloseOutcome.NOT_DUE, wait_s=RACE_PAUSE_S)

    async def _wait_s(self, sale: _AuctionState, window_left_s: float) -> float:
        if sale.grace is not None:
            return max(window_left_s, await self._grace.wait_s(sale.grace))
        if window_left_s <= 0 and not self._grace.is_known(sale.meta):
            await self._grace.begin()
            return RACE_PAUSE_S  # by then the next call finds the grace, if there is to be one
        return window_left_s

    async def _settle(self, sale: _AuctionState, winner: Bid | None, reads: list[pb.RequestOp]) -> pb.TxnResponse:
        writes = list(self._clearing(sale))
        if winner is not None:
            value = encode(self._lease_value(winner))
            writes.append(put(self._keys.lease(sale.unit), value, lease=int(winner.token, 16)))
        return await self._client.txn(when=list(self._is_unchanged(sale)), then=writes, otherwise=reads)

    def _lease_value(self, winner: Bid) -> LeaseValue:
        return LeaseValue(winner.node, winner.address, LeaseState.WARMING, self._grace.base)

    def _is_unchanged(self, sale: _AuctionState) -> Iterator[pb.Compare]:
        keys, unit = self._keys, sale.unit
        yield is_at(keys.auction(unit), sale.auction.mod_revision)
        yield is_at(keys.lease(unit), mod_revision(sale.held))
        yield from self._grace.conditions()
        # The pending mark of a bid that came after the reading would stay for ever.
        yield none_newer(keys.bids(unit), sale.revision)
        # And a mark may be cleared only while its bid stands: a bidder that died and came back has other marks.
        for bid in sale.bids:
            yield is_at(keys.bid(unit, bid.node), bid.order)
        for rival, kv in zip(rivals(unit), sale.rivals, strict=True):
            yield is_at(keys.lease(rival), mod_revision(kv))

    def _clearing(self, sale: _AuctionState) -> Iterator[pb.RequestOp]:
        yield delete(self._keys.auction(sale.unit))
        yield delete_all(self._keys.bids(sale.unit))
        for bid in sale.bids:
            yield delete(self._keys.pending(bid.node))

    async def _dismiss(self, sale: _AuctionState) -> int:
        """Sends the worst bids home early if there are more than one transaction can clear; they would lose anyway."""
        dismissed = 0
        for bid in sale.bids[BIDS_MAX:]:
            key = self._keys.bid(sale.unit, bid.node)
            reply = await self._client.txn(
                when=[is_at(key, bid.order)], then=[delete(key), delete(self._keys.pending(bid.node))]
            )
            dismissed += reply.succeeded
        return dismissed

    def _reads(self, unit: Unit) -> list[pb.RequestOp]:
        keys = self._keys
        firsts = (keys.auction(unit), keys.lease(unit), keys.grace, keys.meta)
        return [get_all(keys.bids(unit)), *(get(key) for key in (*firsts, *map(keys.lease, rivals(unit))))]

    def _sale(self, unit: Unit, reply: pb.TxnResponse) -> _AuctionState | None:
        bids = rank(read_bid(kv, self._keys) for kv in reply.responses[0].response_range.kvs)
        auction, held, grace, meta, *others = map(found, list(reply.responses)[1:])
        if auction is None:
            return None
        return _AuctionState(unit, reply.header.revision, auction, held, grace, meta, tuple(others), tuple(bids))
