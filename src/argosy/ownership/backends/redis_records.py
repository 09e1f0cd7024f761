"""Keys and values of ownership in Redis: the one module that spells the keys, for the code, the scripts and the
generated page.

All keys of one space share the hash tag `{namespace:space}`, so in a Redis Cluster they are on one node and one script
may access them all. Scripts see the keys under the upper-case form of the names below: `leases` is `LEASES`.

Values are JSON. What a script passes on unread (a node's member record) is encoded here and stays as it is, because Lua
cannot tell an empty list from an empty object. Numbers that must stay exact are text.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from argosy.base.errors import Invalid
from argosy.base.key_docs import KeyDoc
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
from argosy.ownership.model import Auction, Lease, LeaseState, Member, Space, Unit

# Every script gets all of these as KEYS, in this order.
SHARED_KEYS = (
    KeyDoc("meta", "hash", "schema, run_id, since_ms, sequence, facts",
           "the run of the server that last saw this data, and since when: new leases wait for the grace period after "
           "that, and epochs count from there; counters of bids and auctions, and of events"),
    KeyDoc("members", "sorted set", "node id, scored by the end of its member session in server milliseconds",
           "expired sessions are removed by score, live ones are counted"),
    KeyDoc("holders", "sorted set", "node id, scored by the end of its holder session in server milliseconds",
           "all leases of a node end with this session"),
    KeyDoc("member_info", "hash", "node id → JSON of token, address and member record",
           "the token detects a second process with the same node id"),
    KeyDoc("holder_info", "hash", "node id → JSON of token, address and member record",
           "the token detects a second process with the same node id"),
    KeyDoc("bidding", "set", "node ids of the members that would accept one more unit",
           "its size when an auction opens is how many bids close it early"),
    KeyDoc("leases", "hash", "unit → JSON of node, address, token, epoch and state", "the current holders"),
    KeyDoc("epochs", "hash", "unit → the epoch of its latest lease", "epochs keep growing after a lease has ended"),
    KeyDoc("held", "sorted set", "node id, a zero byte, unit; all scored 0, so in lexicographic order",
           "finds the units of one node without reading those of other nodes"),
    KeyDoc("auctions", "hash", "unit → JSON of id, max_bids, opened_ms and closes_ms", "the open auctions"),
    KeyDoc("pending", "hash", "node id → JSON of unit and expires_ms", "a node has at most one bid pending"),
    KeyDoc("config", "hash", "max_bids", "the max-bids threshold that an operator has set for all nodes"),
    KeyDoc("events",
    "stream", "number, kind and JSON of each event, trimmed to about EVENTS_MAX", "the events that watchers read"),
)  # fmt: skip

BIDS_KEY = KeyDoc(
    "bids:<unit>",
    "hash",
    "node id → JSON of free_bytes, order, token and address",
    "the bids of one auction; deleted with it",
)
MAX_BIDS_CHANNEL = KeyDoc(
    "max_bids_changed",
    "channel",
    "the new threshold, or an empty message when it was cleared",
    "notifies subscribers that do not read the stream",
)
KEY_DOCS = (*SHARED_KEYS, BIDS_KEY, MAX_BIDS_CHANNEL)


class OwnershipKeys:
    """The keys of one space."""

    def __init__(self, namespace: str, space: Space) -> None:
        if not namespace or not all(c.isalnum() or c in "-_." for c in namespace):
            # A brace or a colon would end the hash tag early, or give two spaces the same one.
            raise Invalid(f"a namespace has letters, digits, '-', '_' and '.' only, not {namespace!r}")
        self.prefix = f"{{{namespace}:{space.name}}}:"
        self.shared = tuple(self.prefix + doc.name for doc in SHARED_KEYS)
        self.meta = self.prefix + "meta"
        self.events = self.prefix + "events"
        self.bids_prefix = self.prefix + "bids:"
        self.channel = self.prefix + MAX_BIDS_CHANNEL.name

    def bids(self, unit: Unit) -> str:
        return self.bids_prefix + unit.key


def lua_names() -> str:
    """Lua lines that name the scripts' KEYS. Further keys of a call follow after the shared ones."""
    return "".join(f"local {doc.name.upper()} = KEYS[{n}]\n" for n, doc in enumerate(SHARED_KEYS, start=1))


# -- values -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SessionRecord:
    """A session as stored, beside its expiry. Its leases carry the address that it was opened with, even if a later
    member record has another one."""

    token: str
    address: str
    member: Member


def encode_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def decode_session(text: str) -> SessionRecord:
    return msgspec.json.decode(text, type=SessionRecord)


def decode_lease(text: str) -> Lease:
    return _to_lease(msgspec.json.decode(text))


def _to_lease(raw: Any) -> Lease:
    return Lease(
        Unit.from_key(raw["unit"]),
        raw["node"],
        raw["address"],
        raw["token"],
        int(raw["epoch"]),
        LeaseState(raw["state"]),
    )


def seconds(milliseconds: str) -> float:
    return float(milliseconds) / 1000


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.3f}"


def decode_event(kind: str, text: str) -> WatchEvent:
    """One entry of the stream."""
    raw = msgspec.json.decode(text)
    match kind:
        case "lease_changed":
            return LeaseChanged(_to_lease(raw))
        case "lease_gone":
            return LeaseGone(Unit.from_key(raw["unit"]), int(raw["epoch"]))
        case "member_changed":
            return MemberChanged(msgspec.convert(raw, Member))
        case "member_gone":
            return MemberGone(raw["node"])
        case "auction_opened":
            closes_in_s = seconds(raw["closes_in_ms"])
            return AuctionOpened(Auction(Unit.from_key(raw["unit"]), int(raw["id"]), raw["max_bids"], closes_in_s))
        case "auction_closed":
            return AuctionClosed(Unit.from_key(raw["unit"]), int(raw["id"]), raw["winner"])
        case "max_bids_changed":
            return MaxBidsChanged(raw["max_bids"])
        case _:
            raise Invalid(f"unknown event kind {kind!r} in the store: a newer version wrote it; upgrade this node")


def decode_snapshot(
    leases: list[str], sessions: list[str], auctions: list[tuple[str, str, str]], max_bids: str
) -> Snapshot:
    """The reply of the snapshot script, without the position in the stream."""
    # Sorted, because a Redis hash has no order and snapshots of equal state should be equal.
    members = sorted((decode_session(text).member for text in sessions), key=lambda member: member.node)
    return Snapshot(
        tuple(decode_lease(text) for text in leases),
        tuple(members),
        tuple(_decode_auction(*each) for each in auctions),
        int(max_bids) if max_bids else None,
    )


def _decode_auction(unit: str, text: str, left_ms: str) -> Auction:
    raw = msgspec.json.decode(text)
    return Auction(Unit.from_key(unit), int(raw["id"]), raw["max_bids"], seconds(left_ms))
