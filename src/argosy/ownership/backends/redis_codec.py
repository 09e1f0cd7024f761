"""The JSON in which the Redis backend keeps sessions, leases and facts.

Whatever a script must pass on unread (what a node says about itself) is written here and stays as it is, since Lua
cannot tell an empty list from an empty object. Numbers that must stay exact travel as text.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from argosy.base.errors import Invalid
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
from argosy.ownership.model import Auction, Lease, LeaseState, Member, Unit


@dataclass(frozen=True)
class SessionRecord:
    """What is kept of a session beside its end. The address is the one it was opened with; its leases carry that."""

    token: str
    address: str
    member: Member


def to_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def session_record(text: str) -> SessionRecord:
    return msgspec.json.decode(text, type=SessionRecord)


def lease(text: str) -> Lease:
    return _lease(msgspec.json.decode(text))


def _lease(raw: Any) -> Lease:
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


def fact(kind: str, text: str) -> WatchEvent:
    """One entry of the stream."""
    raw = msgspec.json.decode(text)
    match kind:
        case "lease_changed":
            return LeaseChanged(_lease(raw))
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
            raise Invalid(f"the store tells a fact of kind {kind!r}, unknown to this version: upgrade this node")


def snapshot(leases: list[str], records: list[str], auctions: list[tuple[str, str, str]], max_bids: str) -> Snapshot:
    """The reply of the snapshot script, less the place in the stream."""
    members = sorted((session_record(text).member for text in records), key=lambda member: member.node)
    return Snapshot(
        tuple(lease(text) for text in leases),
        tuple(members),
        tuple(_auction(*each) for each in auctions),
        int(max_bids) if max_bids else None,
    )


def _auction(unit: str, text: str, left_ms: str) -> Auction:
    raw = msgspec.json.decode(text)
    return Auction(Unit.from_key(unit), int(raw["id"]), raw["max_bids"], seconds(left_ms))
