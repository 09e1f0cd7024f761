"""Translates etcd's events into watch events of ownership.

The events of one transaction share a revision and become one group: writes come before deletions. The end of an auction
is therefore delivered after the lease that was won, and a successor sees its new lease before the end of its slot's. A
deletion event carries only the key, so the epochs of leases and the ids of auctions are retained here.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from argosy.ownership.backends.etcd_auction_clock import AuctionClock
from argosy.ownership.backends.etcd_client import etcd_pb2 as pb
from argosy.ownership.backends.etcd_keys import EtcdKeys
from argosy.ownership.backends.etcd_records import decode, read_auction, read_lease
from argosy.ownership.events import (
    AuctionClosed,
    AuctionOpened,
    LeaseChanged,
    LeaseGone,
    MaxBidsChanged,
    MemberChanged,
    MemberGone,
    Snapshot,
    WatchEvent,
)
from argosy.ownership.model import Auction, Lease, Member, Unit


class EventTranslator:
    """What one watcher has been told so far."""

    def __init__(self, keys: EtcdKeys, first_seen: AuctionClock) -> None:
        self._keys = keys
        self._first_seen = first_seen
        self._epochs: dict[Unit, int] = {}
        self._auctions: dict[Unit, int] = {}
        self.meta: bytes | None = None  # changes only when the store lost its memory

    def begin(self, kvs: Iterable[pb.KeyValue]) -> Snapshot:
        """Starts anew with everything that is in the store."""
        self._epochs, self._auctions, self.meta = {}, {}, None
        leases: list[Lease] = []
        members: list[Member] = []
        auctions: list[Auction] = []
        max_bids: int | None = None
        for kv in kvs:
            for fact in self._put(kv):
                match fact:
                    case LeaseChanged(lease):
                        leases.append(lease)
                    case MemberChanged(member):
                        members.append(member)
                    case AuctionOpened(auction):
                        left_s = max(0.0, auction.closes_in_s - self._first_seen.elapsed_s(auction.id))
                        auctions.append(replace(auction, closes_in_s=left_s))
                    case MaxBidsChanged(number):
                        max_bids = number
        return Snapshot(tuple(leases), tuple(members), tuple(auctions), max_bids)

    def facts(self, events: Iterable[pb.Event]) -> Iterator[WatchEvent]:
        """The facts of one reply, in order."""
        for _, transaction in groupby(events, key=lambda event: event.kv.mod_revision):
            facts: list[WatchEvent] = []
            for event in sorted(transaction, key=lambda event: event.type):  # PUT is 0, DELETE is 1
                is_put = event.type == pb.Event.PUT
                facts.extend(self._put(event.kv) if is_put else self._delete(event.kv, facts))
            yield from facts

    def _put(self, kv: pb.KeyValue) -> Iterator[WatchEvent]:
        match self._keys.split(kv.key):
            case ("leases", key):
                yield from self._lease(read_lease(kv, Unit.from_key(key)))
            case ("members", _):
                yield MemberChanged(decode(kv, Member))
            case ("auctions", key):
                unit = Unit.from_key(key)
                auction = read_auction(kv, unit)
                self._auctions[unit] = auction.id
                self._first_seen.elapsed_s(auction.id)
                yield AuctionOpened(auction)  # as it was when it opened, so every watcher hears the same
            case ("max_bids",):
                yield MaxBidsChanged(int(kv.value))
            case ("meta",):
                self.meta = kv.value

    def _lease(self, lease: Lease) -> Iterator[WatchEvent]:
        before = self._epochs.get(lease.unit, lease.epoch)
        if before != lease.epoch:  # handed over: the key was overwritten, the old lease is gone all the same
            yield LeaseGone(lease.unit, before)
        self._epochs[lease.unit] = lease.epoch
        yield LeaseChanged(lease)

    def _delete(self, kv: pb.KeyValue, written: list[WatchEvent]) -> Iterator[WatchEvent]:
        match self._keys.split(kv.key):
            case ("leases", key):
                unit = Unit.from_key(key)
                yield LeaseGone(unit, self._epochs.pop(unit))
            case ("members", node):
                yield MemberGone(node)
            case ("auctions", key):
                unit = Unit.from_key(key)
                auction_id = self._auctions.pop(unit)
                self._first_seen.remove(auction_id)
                # Its winner is the lease of the same unit that was put in the same transaction.
                winners = (f.lease.node for f in written if isinstance(f, LeaseChanged) and f.lease.unit == unit)
                yield AuctionClosed(unit, auction_id, next(winners, None))
            case ("max_bids",):
                yield MaxBidsChanged(None)
            case ("meta",):
                self.meta = None
