"""Bids in etcd: a bid and its pending mark are two keys on the bidder's etcd lease, written together or not at all.

One read, then one write that requires everything read to be unchanged. A failed write returns the new state, so a lost
race costs one round trip.
"""

from dataclasses import dataclass

from argosy.ownership.auction import rivals, threshold
from argosy.ownership.backends.etcd_auction_clock import AuctionClock
from argosy.ownership.backends.etcd_client import EtcdClient
from argosy.ownership.backends.etcd_client import etcd_pb2 as pb
from argosy.ownership.backends.etcd_client.ops import (
    count,
    first_kv,
    get,
    is_absent,
    is_at,
    is_attached,
    mod_revision,
    put,
)
from argosy.ownership.backends.etcd_grace import Grace
from argosy.ownership.backends.etcd_keys import EtcdKeys
from argosy.ownership.backends.etcd_records import (
    AuctionValue,
    BidValue,
    decode,
    encode,
    is_of,
    lease_of,
    read_lease,
)
from argosy.ownership.backends.etcd_sessions import EtcdSessions, contended_error, fenced_error
from argosy.ownership.model import BidOutcome, BidResult, Session, SessionRole, Unit

ATTEMPTS_MAX = 8  # the first bids of many nodes meet once, when all but one find the auction just opened


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
    """Everything a bid depends on, at one revision."""

    living: pb.KeyValue | None
    mark: pb.KeyValue | None
    auction: pb.KeyValue | None
    meta: pb.KeyValue | None
    held: pb.KeyValue | None
    rivals: tuple[pb.KeyValue | None, ...]

    def refusal(self, offer: BidRequest) -> BidOutcome | None:
        if not is_of(self.living, offer.session):
            raise fenced_error(offer.session)
        if self.mark is not None:  # OWN-3
            return BidOutcome.ALREADY_PENDING
        if offer.free_bytes < offer.min_bytes:
            return BidOutcome.BELOW_MINIMUM
        holders = (read_lease(kv, offer.unit).node for kv in self.rivals if kv is not None)
        return BidOutcome.NOT_OPEN if self.held is not None or offer.session.node in holders else None


class EtcdBids:
    """The bids of one space."""

    def __init__(
        self, client: EtcdClient, keys: EtcdKeys, grace: Grace, sessions: EtcdSessions, first_seen: AuctionClock
    ) -> None:
        self._client = client
        self._keys = keys
        self._grace = grace
        self._sessions = sessions
        self._first_seen = first_seen

    async def place(self, offer: BidRequest) -> BidResult:
        reads = [get(key) for key in self._scene_keys(offer)]
        reply = await self._client.txn(then=reads)
        for _ in range(ATTEMPTS_MAX):
            living, mark, auction, meta, held, *others = map(first_kv, reply.responses)
            scene = _BidContext(living, mark, auction, meta, held, tuple(others))
            if (refusal := scene.refusal(offer)) is not None:
                return BidResult(refusal)
            if not self._grace.is_known(meta):
                await self._grace.begin()
            terms = await self._terms(offer) if auction is None else decode(auction, AuctionValue)
            reply = await self._client.txn(
                when=self._conditions(offer, scene), then=self._writes(offer, scene, terms), otherwise=reads
            )
            if reply.succeeded:
                opened_at = reply.header.revision if auction is None else auction.create_revision
                self._first_seen.elapsed_s(terms.base + opened_at)
                bids = reply.responses[-1].response_range.count
                return BidResult(BidOutcome.PLACED, auction is None, bids >= terms.max_bids, terms.max_bids)
        raise contended_error(f"bid for {str(offer.unit)!r}")

    async def _terms(self, offer: BidRequest) -> AuctionValue:
        """What the first bid fixes."""
        bidding = 0 if offer.max_bids is not None else await self._sessions.bidding_now()
        return AuctionValue(threshold(offer.max_bids, bidding), offer.window_s, self._grace.base)

    def _scene_keys(self, offer: BidRequest) -> list[bytes]:
        keys, node = self._keys, offer.session.node
        slots = (keys.lease(slot) for slot in (offer.unit, *rivals(offer.unit)))
        return [keys.session(SessionRole.HOLDER, node), keys.pending(node), keys.auction(offer.unit), keys.meta, *slots]

    def _conditions(self, offer: BidRequest, scene: _BidContext) -> list[pb.Compare]:
        promise, pending, auction, _, *slots = self._scene_keys(offer)
        leases = (scene.held, *scene.rivals)
        return [
            is_attached(promise, lease_of(offer.session)),
            is_absent(pending),
            is_at(auction, mod_revision(scene.auction)),
            self._grace.knows_store(),
            *(is_at(slot, mod_revision(kv)) for slot, kv in zip(slots, leases, strict=True)),
        ]

    def _writes(self, offer: BidRequest, scene: _BidContext, terms: AuctionValue) -> list[pb.RequestOp]:
        keys, unit, node = self._keys, offer.unit, offer.session.node
        lease, bid = lease_of(offer.session), BidValue(offer.session.address, offer.free_bytes)
        return [
            *([put(keys.auction(unit), encode(terms))] if scene.auction is None else ()),
            put(keys.pending(node), unit.key.encode(), lease=lease),
            put(keys.bid(unit, node), encode(bid), lease=lease),
            count(keys.bids(unit)),  # sees the bid just put, so exactly one bidder is told that the auction is full
        ]
