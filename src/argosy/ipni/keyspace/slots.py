"""The keyspace in equal parts: a slot is all multihashes whose digests begin with the same bits.

A slot is the unit that has owners, moves and is cleared, and in a store sorted by digest it is one range. Digests are
claims, so somebody may crowd one slot; that fills its owners, and no others.
"""

from collections.abc import Iterable, Sequence

from argosy.base.errors import Invalid
from argosy.ipni.formats import multihash as multihashes

SLOT_BITS = 12
SLOTS = 1 << SLOT_BITS  # at 50 nodes 80 for each, so that the ring's own unevenness shows more than theirs
_SPARE_BITS = 16 - SLOT_BITS
_BITMAP_BYTES = SLOTS // 8


def slot_of(multihash: bytes) -> int:
    """Invalid if it is no multihash."""
    if len(multihash) == 34 and multihash.startswith(b"\x12\x20"):
        return (multihash[2] << 8 | multihash[3]) >> _SPARE_BITS
    digest = multihashes.split(multihash)[1]
    return int.from_bytes(digest[:2].ljust(2, b"\0"), "big") >> _SPARE_BITS


def by_slot(hashes: Sequence[bytes]) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for each in hashes:
        found.setdefault(slot_of(each), []).append(each)
    return found


def bounds(slot: int) -> tuple[bytes, bytes]:
    """Where the slot begins and where the next does; the end of the last one is empty."""
    after = slot + 1
    return _begin(slot), _begin(after) if after < SLOTS else b""


def to_bitmap(slots: Iterable[int]) -> bytes:
    return sum(1 << slot for slot in set(slots)).to_bytes(_BITMAP_BYTES, "big")


def from_bitmap(data: bytes) -> frozenset[int]:
    if len(data) != _BITMAP_BYTES:
        raise Invalid(f"a set of slots has {_BITMAP_BYTES} bytes, not {len(data)}")
    bits = int.from_bytes(data, "big")
    return frozenset(slot for slot in range(SLOTS) if bits >> slot & 1)


def _begin(slot: int) -> bytes:
    return (slot << _SPARE_BITS).to_bytes(2, "big")
