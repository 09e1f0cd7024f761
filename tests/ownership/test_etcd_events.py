"""How etcd events become watch events: by revision, and within one transaction in a fixed order."""

from argosy.base.clock import SystemClock
from argosy.ownership.backends.etcd_auctions import AUCTIONS_SEEN_MAX, AuctionClock
from argosy.ownership.backends.etcd_client import etcd_pb2 as pb
from argosy.ownership.backends.etcd_events import EventTranslator
from argosy.ownership.backends.etcd_records import AuctionValue, EtcdKeys, LeaseValue, encode
from argosy.ownership.events import AuctionClosed, AuctionOpened, LeaseChanged, LeaseGone, MaxBidsChanged
from argosy.ownership.model import SUCCESSOR, Auction, Lease, LeaseState, Space, Unit

KEYS = EtcdKeys("", "argosy", Space("repos", is_auctioned=True))
UNIT = Unit("forge/u")
SUCCESSOR_SLOT = Unit("forge/u", SUCCESSOR)


class StillClock(SystemClock):
    def __init__(self) -> None:
        self.time = 100.0

    def now(self) -> float:
        return self.time


def put(key: bytes, value: bytes, revision: int, lease: int = 7) -> pb.Event:
    kv = pb.KeyValue(key=key, value=value, create_revision=revision, mod_revision=revision, lease=lease)
    return pb.Event(type=pb.Event.PUT, kv=kv)


def deleted(key: bytes, revision: int) -> pb.Event:
    return pb.Event(type=pb.Event.DELETE, kv=pb.KeyValue(key=key, mod_revision=revision))


def lease_value(node: str, state: LeaseState = LeaseState.WARMING, epoch: int = 0) -> bytes:
    return encode(LeaseValue(node, f"http://{node}", state, base=1000, epoch=epoch))


def lease(unit: Unit, node: str, epoch: int, state: LeaseState = LeaseState.WARMING) -> Lease:
    return Lease(unit, node, f"http://{node}", f"{7:016x}", epoch, state)


def new_translator() -> EventTranslator:
    return EventTranslator(KEYS, AuctionClock(StillClock()))


def test_an_auction_closes_after_its_lease_is_delivered_whatever_the_order_of_events() -> None:
    translator = new_translator()
    terms = encode(AuctionValue(max_bids=3, window_s=5.0, base=1000))
    assert list(translator.translate([put(KEYS.auction(UNIT), terms, 5, lease=0)])) == [
        AuctionOpened(Auction(UNIT, 1005, 3, closes_in_s=5.0))
    ]
    closing = [deleted(KEYS.auction(UNIT), 9), put(KEYS.lease(UNIT), lease_value("a"), 9)]
    expected = [LeaseChanged(lease(UNIT, "a", 1009)), AuctionClosed(UNIT, 1005, "a")]
    assert list(translator.translate(closing)) == expected


def test_an_auction_without_a_winner_names_none_even_beside_a_later_lease() -> None:
    translator = new_translator()
    terms = encode(AuctionValue(max_bids=3, window_s=5.0, base=1000))
    events = [
        put(KEYS.auction(UNIT), terms, 5, lease=0),
        deleted(KEYS.auction(UNIT), 6),
        put(KEYS.lease(UNIT), lease_value("a"), 7),
    ]
    assert list(translator.translate(events))[1:] == [
        AuctionClosed(UNIT, 1005, None),
        LeaseChanged(lease(UNIT, "a", 1007)),
    ]


def test_a_handoff_removes_two_leases_and_grants_one_at_a_new_epoch() -> None:
    translator = new_translator()
    list(
        translator.translate(
            [put(KEYS.lease(UNIT), lease_value("old"), 5), put(KEYS.lease(SUCCESSOR_SLOT), lease_value("successor"), 6)]
        )
    )
    handed = [
        put(KEYS.lease(UNIT), lease_value("successor", LeaseState.READY), 9),
        deleted(KEYS.lease(SUCCESSOR_SLOT), 9),
    ]
    assert list(translator.translate(handed)) == [
        LeaseGone(UNIT, 1005),
        LeaseChanged(lease(UNIT, "successor", 1009, LeaseState.READY)),
        LeaseGone(SUCCESSOR_SLOT, 1006),
    ]


def test_a_change_of_state_keeps_the_epoch_of_the_grant() -> None:
    translator = new_translator()
    list(translator.translate([put(KEYS.lease(UNIT), lease_value("a"), 5)]))
    ready = put(KEYS.lease(UNIT), lease_value("a", LeaseState.READY, epoch=1005), 8)
    assert list(translator.translate([ready])) == [LeaseChanged(lease(UNIT, "a", 1005, LeaseState.READY))]


def test_a_snapshot_is_the_start_of_what_deletions_are_named_by() -> None:
    translator = new_translator()
    kvs = [put(KEYS.lease(UNIT), lease_value("a"), 5).kv, put(KEYS.max_bids, b"4", 6, lease=0).kv]
    snapshot = translator.begin(kvs)
    assert (snapshot.leases, snapshot.max_bids) == ((lease(UNIT, "a", 1005),), 4)
    gone = [deleted(KEYS.lease(UNIT), 7), deleted(KEYS.max_bids, 8)]
    assert list(translator.translate(gone)) == [LeaseGone(UNIT, 1005), MaxBidsChanged(None)]


def test_an_auctions_window_counts_from_when_it_was_first_seen() -> None:
    clock = StillClock()
    first_seen = AuctionClock(clock)
    assert first_seen.elapsed_s(1) == 0.0
    clock.time += 3.0
    assert first_seen.elapsed_s(1) == 3.0
    first_seen.remove(1)
    assert first_seen.elapsed_s(1) == 0.0


def test_the_oldest_entries_are_dropped_when_there_are_too_many() -> None:
    clock = StillClock()
    first_seen = AuctionClock(clock)
    for auction in range(AUCTIONS_SEEN_MAX + 1):
        first_seen.elapsed_s(auction)
    assert len(first_seen) == AUCTIONS_SEEN_MAX
    clock.time += 1.0
    assert (first_seen.elapsed_s(1), first_seen.elapsed_s(0)) == (1.0, 0.0)
