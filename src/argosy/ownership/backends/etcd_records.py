"""Values of ownership in etcd, decoded together with the revisions and leases of their keys.

A session's token is its etcd lease, in hex. A lease's **epoch** is the revision of the write that granted it, plus the
base in `meta`. That write stores epoch 0, because it cannot know its own revision; later state changes store the epoch.
A handoff, which overwrites the key of an existing lease, is therefore a new grant with a greater epoch, in one write.
"""

from typing import TypeVar

import msgspec

from argosy.base.errors import Invalid, Unavailable
from argosy.ownership.backends.etcd_client import etcd_pb2 as pb
from argosy.ownership.backends.etcd_keys import EtcdKeys
from argosy.ownership.model import Auction, Bid, Lease, LeaseState, Member, Session, Unit

T = TypeVar("T")

GRANTED_HERE = 0


class MetaValue(msgspec.Struct, frozen=True):
    base: int


class LeaseValue(msgspec.Struct, frozen=True):
    node: str
    address: str
    state: LeaseState
    base: int
    epoch: int = GRANTED_HERE


class AuctionValue(msgspec.Struct, frozen=True):
    max_bids: int
    window_s: float
    base: int


class BidValue(msgspec.Struct, frozen=True):
    address: str
    free_bytes: int


def encode(value: msgspec.Struct | Member) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def decode(kv: pb.KeyValue, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(kv.value, type=kind)
    except msgspec.DecodeError as error:
        raise Unavailable(f"etcd key {kv.key.decode()!r} was not written by argosy: remove it ({error})") from error


def token_of(lease: int) -> str:
    return f"{lease:016x}"


def lease_of(session: Session) -> int:
    """The etcd lease behind a session."""
    try:
        return int(session.token, 16)
    except ValueError as error:
        raise Invalid(f"{session.token!r} is not the token of an etcd session") from error


def is_of(kv: pb.KeyValue | None, session: Session) -> bool:
    """Whether a key stands on this session's lease; then the session lives."""
    return kv is not None and kv.lease == lease_of(session)


def read_lease(kv: pb.KeyValue, unit: Unit) -> Lease:
    value = decode(kv, LeaseValue)
    epoch = value.epoch if value.epoch != GRANTED_HERE else value.base + kv.mod_revision
    return Lease(unit, value.node, value.address, token_of(kv.lease), epoch, value.state)


def read_auction(kv: pb.KeyValue, unit: Unit) -> Auction:
    """The auction as it was when it opened, with its whole window ahead."""
    value = decode(kv, AuctionValue)
    return Auction(unit, value.base + kv.create_revision, value.max_bids, value.window_s)


def read_bid(kv: pb.KeyValue, keys: EtcdKeys) -> Bid:
    value = decode(kv, BidValue)
    return Bid(keys.split(kv.key)[-1], value.address, token_of(kv.lease), value.free_bytes, kv.mod_revision)
