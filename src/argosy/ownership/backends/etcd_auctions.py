"""Closing an auction in etcd: the lease is lease_from_grant and every bid and mark cleared in one transaction (OWN-6).

The first caller closes it; for all others the auction is gone. If anything that the decision depends on has changed (a
new bid, a bidder whose session ended), the transaction changes nothing and returns the new state for the next attempt.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from argosy.ownership.auction import rank, rivals
from argosy.ownership.backends.etcd_auction_clock import AuctionClock
from argosy.ownership.backends.etcd_client import EtcdClient
from argosy.ownership.backends.etcd_client import etcd_pb2 as pb
from argosy.ownership.backends.etcd_client.ops import (
    delete,
    delete_all,
    first_kv,
    get,
    get_all,
    is_at,
    mod_revision,
    none_newer,
    put,
)
from argosy.ownership.backends.etcd_grace import Grace
from argosy.ownership.backends.etcd_keys import EtcdKeys
from argosy.ownership.backends.etcd_leases import lease_from_grant
from argosy.ownership.backends.etcd_records import (
    LeaseValue,
    encode,
    read_auction,
    read_bid,
    read_lease,
)
from argosy.ownership.model import BIDS_MAX, Bid, CloseOutcome, CloseResult, LeaseState, Unit

ATTEMPTS_MAX = 32  # every bid placed or withdrawn during the close costs one attempt
RACE_PAUSE_S = 0.05  # pause before the caller tries again, so that the bids can settle


@dataclass(frozen=True)
class _AuctionState:
    """An auction and all that its result depends on, at one revision."""

    unit: Unit
    revision: int
    auction: pb.KeyValue
    held: pb.KeyValue | None
    grace: pb.KeyValue | None
    meta: pb.KeyValue | None
    rivals: tuple[pb.KeyValue | None, ...]
    bids: tuple[Bid, ...]  # best first

    def winner(self) -> Bid | None:
        """The best bid of a node that holds no sibling slot. A bid is on its bidder's etcd lease, so its bidder is
        alive."""
        if self.held is not None:
            return None
        excluded = {read_lease(kv, self.unit).node for kv in self.rivals if kv is not None}
        return next((bid for bid in self.bids if bid.node not in excluded), None)


class EtcdAuctions:
    """Closes the auctions of one space."""

    def __init__(self, client: EtcdClient, keys: EtcdKeys, grace: Grace, first_seen: AuctionClock) -> None:
        self._client = client
        self._keys = keys
        self._grace = grace
        self._first_seen = first_seen

    async def close(self, unit: Unit) -> CloseResult:
        reads = self._reads(unit)
        reply = await self._client.txn(then=reads)
        dismissed = 0
        for _ in range(ATTEMPTS_MAX):
            state = self._state_from(unit, reply)
            if state is None:
                return CloseResult(CloseOutcome.ALREADY_CLOSED)
            auction = read_auction(state.auction, unit)
            open_for_s, bids = self._first_seen.elapsed_s(auction.id), len(state.bids) + dismissed
            is_full = bids >= auction.max_bids
            if (wait_s := await self._wait_s(state, 0.0 if is_full else auction.closes_in_s - open_for_s)) > 0:
                return CloseResult(CloseOutcome.NOT_DUE, wait_s=wait_s)
            if len(state.bids) > BIDS_MAX:
                dismissed += await self._dismiss(state)
                reply = await self._client.txn(then=reads)
                continue
            winner = state.winner()
            reply = await self._settle(state, winner, reads)
            if reply.succeeded:
                self._first_seen.remove(auction.id)
                is_short_circuit = is_full and open_for_s < auction.closes_in_s
                if winner is None:
                    return CloseResult(CloseOutcome.NO_WINNER, None, bids, is_short_circuit, open_for_s)
                lease = lease_from_grant(unit, self._lease_value(winner), int(winner.token, 16), reply)
                return CloseResult(CloseOutcome.WON, lease, bids, is_short_circuit, open_for_s)
        return CloseResult(CloseOutcome.NOT_DUE, wait_s=RACE_PAUSE_S)

    async def _wait_s(self, state: _AuctionState, window_left_s: float) -> float:
        if state.grace is not None:
            return max(window_left_s, await self._grace.wait_s(state.grace))
        if window_left_s <= 0 and not self._grace.is_known(state.meta):
            await self._grace.begin()
            return RACE_PAUSE_S  # the next call then finds the grace key, if one was needed
        return window_left_s

    async def _settle(self, state: _AuctionState, winner: Bid | None, reads: list[pb.RequestOp]) -> pb.TxnResponse:
        writes = list(self._clearing(state))
        if winner is not None:
            value = encode(self._lease_value(winner))
            writes.append(put(self._keys.lease(state.unit), value, lease=int(winner.token, 16)))
        return await self._client.txn(when=list(self._is_unchanged(state)), then=writes, otherwise=reads)

    def _lease_value(self, winner: Bid) -> LeaseValue:
        return LeaseValue(winner.node, winner.address, LeaseState.WARMING, self._grace.base)

    def _is_unchanged(self, state: _AuctionState) -> Iterator[pb.Compare]:
        keys, unit = self._keys, state.unit
        yield is_at(keys.auction(unit), state.auction.mod_revision)
        yield is_at(keys.lease(unit), mod_revision(state.held))
        yield from self._grace.conditions()
        # A bid placed after the read would leave its pending mark behind forever.
        yield none_newer(keys.bids(unit), state.revision)
        # A mark may be deleted only while its bid exists: a bidder that restarted may have a newer mark.
        for bid in state.bids:
            yield is_at(keys.bid(unit, bid.node), bid.order)
        for rival, kv in zip(rivals(unit), state.rivals, strict=True):
            yield is_at(keys.lease(rival), mod_revision(kv))

    def _clearing(self, state: _AuctionState) -> Iterator[pb.RequestOp]:
        yield delete(self._keys.auction(state.unit))
        yield delete_all(self._keys.bids(state.unit))
        for bid in state.bids:
            yield delete(self._keys.pending(bid.node))

    async def _dismiss(self, state: _AuctionState) -> int:
        """Deletes the worst bids first if there are more than one transaction can delete; they would lose anyway."""
        dismissed = 0
        for bid in state.bids[BIDS_MAX:]:
            key = self._keys.bid(state.unit, bid.node)
            reply = await self._client.txn(
                when=[is_at(key, bid.order)], then=[delete(key), delete(self._keys.pending(bid.node))]
            )
            dismissed += reply.succeeded
        return dismissed

    def _reads(self, unit: Unit) -> list[pb.RequestOp]:
        keys = self._keys
        firsts = (keys.auction(unit), keys.lease(unit), keys.grace, keys.meta)
        return [get_all(keys.bids(unit)), *(get(key) for key in (*firsts, *map(keys.lease, rivals(unit))))]

    def _state_from(self, unit: Unit, reply: pb.TxnResponse) -> _AuctionState | None:
        bids = rank(read_bid(kv, self._keys) for kv in reply.responses[0].response_range.kvs)
        auction, held, grace, meta, *others = map(first_kv, list(reply.responses)[1:])
        if auction is None:
            return None
        return _AuctionState(unit, reply.header.revision, auction, held, grace, meta, tuple(others), tuple(bids))
