"""Keys and values of ownership in etcd: the one module that spells the keys, for the code and for the generated page.

All keys of one space are below `/<namespace>/<space>/`, so one watch sees them all. Node ids and units may contain any
printable character. Each part of a key is percent-encoded, so a slash in a name never adds a part, and the bids of one
unit are never taken for those of another.

A session's token is its etcd lease, in hex. A lease's **epoch** is the revision of the write that granted it, plus the
base in `meta`. That write stores epoch 0, because it cannot know its own revision; later state changes store the epoch.
A handoff, which overwrites the key of an existing lease, is therefore a new grant with a greater epoch, in one write.
"""

from typing import TypeVar
from urllib.parse import quote, unquote

import msgspec

from argosy.base.errors import Invalid, Unavailable
from argosy.base.key_docs import KeyDoc
from argosy.ownership.backends.etcd_client import etcd_pb2 as pb
from argosy.ownership.model import Auction, Bid, Lease, LeaseState, Member, Session, SessionRole, Space, Unit

T = TypeVar("T")

KEY_DOCS = (
    KeyDoc("meta", "plain", "JSON: base, the wall clock in microseconds when the space was first opened here",
           "shows that the store still has its data; epochs and auction ids count from its base, so they keep growing "
           "even when the store is wiped and its revisions start again at 1"),
    KeyDoc("grace", "on an etcd lease of its own", "empty",
           "while it exists no lease is granted: a store that was wiped may have lost leases that are still in use"),
    KeyDoc("members/<node>", "on the member session's etcd lease", "JSON: the member record",
           "makes the node a member: ring, bidding"),
    KeyDoc("holders/<node>", "on the holder session's etcd lease", "JSON: the node and its address",
           "the session that carries the node's leases, bid and pending mark; they end with it"),
    KeyDoc("leases/<unit>", "on the holder session's etcd lease", "JSON: node, address, state, base and "
           "epoch, which is 0 in the write that grants: then the epoch is base plus the revision of that write",
           "the current holder"),
    KeyDoc("auctions/<unit>", "plain", "JSON: max_bids, window_s, base", "an open auction; written once"),
    KeyDoc("bids/<unit>/<node>", "on the bidder's holder session's etcd lease", "JSON: address, free_bytes",
           "one bid; its revision is its place in the order, and while it exists its bidder is alive"),
    KeyDoc("pending/<node>", "on the bidder's holder session's etcd lease", "the unit",
           "a node has at most one bid pending"),
    KeyDoc("max_bids", "plain", "a number", "the max-bids threshold that an operator has set for all nodes"),
)  # fmt: skip

# Not escaped, because they are frequent in unit keys and URLs, and have no meaning in an etcd path.
_SAFE = ":@"


class EtcdKeys:
    """The keys of one space."""

    def __init__(self, prefix: str, namespace: str, space: Space) -> None:
        parts = [*prefix.split("/"), namespace, space.name]
        self.root = f"/{'/'.join(_escape(part) for part in parts if part)}/".encode()
        self.meta = self.root + b"meta"
        self.grace = self.root + b"grace"
        self.max_bids = self.root + b"max_bids"

    def session(self, role: SessionRole, node: str) -> bytes:
        return self.sessions(role) + _escape(node).encode()

    def sessions(self, role: SessionRole) -> bytes:
        return self.root + (b"members/" if role is SessionRole.MEMBER else b"holders/")

    def lease(self, unit: Unit) -> bytes:
        return self.root + b"leases/" + _escape(unit.key).encode()

    def auction(self, unit: Unit) -> bytes:
        return self.root + b"auctions/" + _escape(unit.key).encode()

    def bids(self, unit: Unit) -> bytes:
        # The slash ends the unit's name, so that this is no prefix of the bids of a unit with a longer name.
        return self.root + b"bids/" + _escape(unit.key).encode() + b"/"

    def bid(self, unit: Unit, node: str) -> bytes:
        return self.bids(unit) + _escape(node).encode()

    def pending(self, node: str) -> bytes:
        return self.root + b"pending/" + _escape(node).encode()

    def split(self, key: bytes) -> tuple[str, ...]:
        """A key's decoded parts below the space: `("leases", "0:name")`."""
        return tuple(unquote(part) for part in key.removeprefix(self.root).decode().split("/"))


def _escape(part: str) -> str:
    return quote(part, safe=_SAFE)


# -- values -----------------------------------------------------------------------------------------------------------

GRANTED_HERE = 0  # stored as epoch by the write that grants


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
    # Deterministic, because transactions compare whole values.
    return msgspec.json.encode(value, order="deterministic")


def decode(kv: pb.KeyValue, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(kv.value, type=kind)
    except msgspec.DecodeError as error:
        raise Unavailable(f"etcd key {kv.key.decode()!r} was not written by argosy; remove it ({error})") from error


def token_of(lease: int) -> str:
    return f"{lease:016x}"


def lease_of(session: Session) -> int:
    """The etcd lease behind a session."""
    try:
        return int(session.token, 16)
    except ValueError as error:
        raise Invalid(f"{session.token!r} is not the token of an etcd session") from error


def is_of(kv: pb.KeyValue | None, session: Session) -> bool:
    """Whether a key is attached to this session's etcd lease; if so, the session is alive."""
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
