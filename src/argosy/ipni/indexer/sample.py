"""Which multihashes of a context are shown to somebody who checks that a provider has what it says.

A beacon that nobody could foresee picks them: each draw is a place among the digests, and the first multihash from
there on is taken, round the end if need be.
"""

from hashlib import sha256

from argosy.base.errors import Invalid
from argosy.ipni.ports import IndexStore

SAMPLES_MAX = 10
BEACON_BYTES_MAX = 32


def places(beacon: bytes, count: int) -> list[bytes]:
    if len(beacon) > BEACON_BYTES_MAX:
        raise Invalid(f"a beacon has at most {BEACON_BYTES_MAX} bytes, not {len(beacon)}")
    if not 1 <= count <= SAMPLES_MAX:
        raise Invalid(f"1 to {SAMPLES_MAX} multihashes can be sampled, not {count}")
    return [sha256(beacon + bytes((number,))).digest() for number in range(count)]


async def sample(store: IndexStore, provider: str, context: bytes, *, beacon: bytes, count: int) -> list[bytes]:
    chosen: dict[bytes, None] = {}
    for place in places(beacon, count):
        found = await store.multihashes(provider, context, start=place, limit=1)
        found = found or await store.multihashes(provider, context, start=b"", limit=1)
        chosen.update(dict.fromkeys(found))
    return list(chosen)
