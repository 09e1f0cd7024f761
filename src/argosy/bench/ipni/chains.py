"""Multihashes, and chains of advertisements with entries, computed and encoded before any clock runs.

Everything follows from a seed: a chunk is identified by (seed, number), so any process that knows the pair can compute
its multihashes, to search for them or to publish them, without transferring them. A publisher's key follows from its
seed too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from argosy.ipni.formats import advertisement as adverts
from argosy.ipni.formats import metadata
from argosy.ipni.formats.advertisement import Advertisement
from argosy.ipni.formats.cid import DAG_CBOR, DAG_JSON, Cid
from argosy.ipni.formats.entries import encode_chunk
from argosy.ipni.formats.head import sign_head
from argosy.ipni.formats.peer import PrivateKey

CODECS = {"cbor": DAG_CBOR, "json": DAG_JSON}
KEY_BYTES = 32
ADDRESS = "/ip4/192.0.2.1/tcp/443/https"  # of the content: reserved for documentation, and never contacted
SHA2_256 = b"\x12\x20"
DIGEST_BYTES = 32
# The last word of a random seed. Without it, a shorter seed would be the same as one padded with zeros.
_PUBLISHED, _ABSENT = 1, 2


def chunk_multihashes(seed: int, number: int, size: int) -> list[bytes]:
    return _draw([seed, number, _PUBLISHED], size)


def absent_multihashes(seed: int, size: int) -> list[bytes]:
    """Multihashes that no chain contains."""
    return _draw([seed, 0, _ABSENT], size)


def alternate(present: list[bytes], absent: list[bytes]) -> Iterator[bytes]:
    """Hits and misses in turn: a miss costs less than a hit, so only an equal share of both is comparable."""
    for hit, miss in zip(present, absent, strict=True):
        yield hit
        yield miss


def _draw(seeds: list[int], size: int) -> list[bytes]:
    # Digests of sha2-256 are uniformly distributed, and so are these, at a fraction of the cost of hashing.
    raw = np.random.Generator(np.random.PCG64(seeds)).bytes(size * DIGEST_BYTES)
    return [SHA2_256 + raw[at : at + DIGEST_BYTES] for at in range(0, len(raw), DIGEST_BYTES)]


@dataclass(frozen=True)
class ChainShape:
    """The size of a chain."""

    ads: int
    chunks: int  # of each advertisement
    chunk: int  # multihashes of each

    @property
    def multihashes(self) -> int:
        return self.ads * self.chunks * self.chunk


@dataclass
class PublishedChain:
    """The blocks by CID, the newest advertisement, and all advertisements from the oldest on."""

    key: PrivateKey
    ads: list[Cid] = field(default_factory=list)
    blocks: dict[str, bytes] = field(default_factory=dict)

    @property
    def publisher(self) -> str:
        return self.key.peer_id

    def signed_head(self) -> bytes:
        return sign_head(self.ads[-1], self.key)


def publisher_key(seed: int) -> PrivateKey:
    return PrivateKey.generate(random_bytes=seed.to_bytes(KEY_BYTES, "big"))


def build_chain(seed: int, shape: ChainShape, codec: str) -> PublishedChain:
    """The chunks of an advertisement have consecutive numbers. They are linked backwards, so the highest is read
    first."""
    chain = PublishedChain(publisher_key(seed))
    for number in range(shape.ads):
        entries: Cid | None = None
        for each in range(number * shape.chunks, (number + 1) * shape.chunks):
            entries, block = encode_chunk(chunk_multihashes(seed, each, shape.chunk), entries, CODECS[codec])
            chain.blocks[str(entries)] = block
        assert entries is not None, "an advertisement of the benchmark has entries"
        ad = Advertisement(
            chain.publisher,
            (ADDRESS,),
            entries,
            b"%d" % number,
            metadata.bitswap(),
            previous=chain.ads[-1] if chain.ads else None,
        )
        cid, block = adverts.encode(adverts.sign(ad, chain.key))
        chain.ads.append(cid)
        chain.blocks[str(cid)] = block
    return chain
