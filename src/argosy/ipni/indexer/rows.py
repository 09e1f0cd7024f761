"""What an indexer's rows hold: how far each publisher's chain has come, and what was done with each advertisement."""

from dataclasses import dataclass
from typing import TypeVar

import msgspec

from argosy.ipni.formats.cid import Cid
from argosy.ipni.model import Peer

T = TypeVar("T")

APPLIED = "applied"
APPLIED_FROZEN = "frozen"  # without entries, for the indexer was frozen; unfreezing applies it again


@dataclass(frozen=True)
class ChainCursor:
    """How far a publisher's chain has been followed. Every advertisement up to `last` has been applied (IPN-3)."""

    publisher: Peer
    last: Cid | None = None
    wanted: Cid | None = None  # a head asked for and not yet reached: a restart goes on to it
    frozen_at: Cid | None = None  # what `last` was when the indexer froze; unfreezing goes back to it
    floor: Cid | None = None  # taken over here: what is older lies on the indexer that froze
    has_gaps: bool = False  # a provider was removed: advertisements older than `last` may be applied again


@dataclass(frozen=True)
class AdState:
    state: str
    provider: str
    publisher: str


@dataclass(frozen=True)
class EntriesProgress:
    """Within one advertisement: blocks of entries still to be read (the last is next), and what has been stored."""

    ad: Cid
    provider: str
    left: tuple[Cid, ...]
    blocks: int = 0
    multihashes: int = 0
    is_hamt: bool = False


@dataclass
class EntryBatch:
    """Some entries of an advertisement, and where reading goes on after them; none left means that was all."""

    multihashes: list[bytes]
    left: tuple[Cid, ...]
    blocks: int
    is_hamt: bool = False
    bytes_read: int = 0
    bad: int = 0  # entries that are no multihashes


def pack(value: object) -> bytes:
    return msgspec.msgpack.encode(value)


def unpack(data: bytes, kind: type[T]) -> T:
    return msgspec.msgpack.decode(data, type=kind)
