"""Translates etcd's events into watch events of ownership.

The events of one transaction share a revision and become one group: writes come before deletions. The end of an auction
is therefore delivered after the lease that was won, and a successor sees its new lease before the end of its slot's. A
deletion event carries only the key, so the epochs of leases and the ids of auctions are retained here.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from argosy.ownership.backends.etcd_auctions import AuctionClock
from argosy.ownership.backends.etcd_client import etcd_pb2 as pb
from argosy.ownership.backends.etcd_records import EtcdKeys, decode, read_auction, read_lease
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
    """The translator of one watcher, with the state that deletions need."""

    def __init__(self, keys: EtcdKeys, auction_clock: AuctionClock) -> None:
        self._keys = keys
        self._auction_clock = auction_clock
        self._epochs: dict[Unit, int] = {}
        self._auctions: dict[Unit, int] = {}
        self.meta: bytes | None = None  # changes only when the store has lost its data

    def begin(self, kvs: Iterable[pb.KeyValue]) -> Snapshot:
        """Resets the state to everything that is in the store, and returns it as a snapshot."""
        self._epochs, self._auctions, self.meta = {}, {}, None
        leases: list[Lease] = []
        members: list[Member] = []
        auctions: list[Auction] = []
        max_bids: int | None = None
        for kv in kvs:
            for event in self._on_put(kv):
                match event:
                    case LeaseChanged(lease):
                        leases.append(lease)
                    case MemberChanged(member):
                        members.append(member)
                    case AuctionOpened(auction):
                        # A snapshot lists auctions that this process may have known for a while; only the remaining
                        # time counts.
                        left_s = max(0.0, auction.closes_in_s - self._auction_clock.elapsed_s(auction.id))
                        auctions.append(replace(auction, closes_in_s=left_s))
                    case MaxBidsChanged(number):
                        max_bids = number
        return Snapshot(tuple(leases), tuple(members), tuple(auctions), max_bids)

    def translate(self, etcd_events: Iterable[pb.Event]) -> Iterator[WatchEvent]:
        """The watch events of one reply, in order."""
        # A reply may contain several transactions; order within one is ours to choose, order between them is not.
        for _, transaction in groupby(etcd_events, key=lambda event: event.kv.mod_revision):
            events: list[WatchEvent] = []
            for event in sorted(transaction, key=lambda event: event.type):  # PUT is 0, DELETE is 1
                is_put = event.type == pb.Event.PUT
                events.extend(self._on_put(event.kv) if is_put else self._on_delete(event.kv, events))
            yield from events

    def _on_put(self, kv: pb.KeyValue) -> Iterator[WatchEvent]:
        match self._keys.split(kv.key):
            case ("leases", key):
                yield from self._on_lease(read_lease(kv, Unit.from_key(key)))
            case ("members", _):
                yield MemberChanged(decode(kv, Member))
            case ("auctions", key):
                unit = Unit.from_key(key)
                auction = read_auction(kv, unit)
                self._auctions[unit] = auction.id
                self._auction_clock.elapsed_s(auction.id)
                yield AuctionOpened(auction)  # as it was when it opened, so that all watchers get the same event
            case ("max_bids",):
                yield MaxBidsChanged(int(kv.value))
            case ("meta",):
                self.meta = kv.value

    def _on_lease(self, lease: Lease) -> Iterator[WatchEvent]:
        before = self._epochs.get(lease.unit, lease.epoch)
        if before != lease.epoch:  # a handoff overwrote the key: the old lease has ended without a deletion
            yield LeaseGone(lease.unit, before)
        self._epochs[lease.unit] = lease.epoch
        yield LeaseChanged(lease)

    def _on_delete(self, kv: pb.KeyValue, written: list[WatchEvent]) -> Iterator[WatchEvent]:
        match self._keys.split(kv.key):
            case ("leases", key):
                unit = Unit.from_key(key)
                # A deletion has only the key; the epoch is that of the last write that was seen.
                yield LeaseGone(unit, self._epochs.pop(unit))
            case ("members", node):
                yield MemberGone(node)
            case ("auctions", key):
                unit = Unit.from_key(key)
                auction_id = self._auctions.pop(unit)
                self._auction_clock.remove(auction_id)
                # Its winner has the lease of the same unit that was put in the same transaction.
                winners = (e.lease.node for e in written if isinstance(e, LeaseChanged) and e.lease.unit == unit)
                yield AuctionClosed(unit, auction_id, next(winners, None))
            case ("max_bids",):
                yield MaxBidsChanged(None)
            case ("meta",):
                self.meta = None
