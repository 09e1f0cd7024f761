"""Chains of advertisements with their entries, made and encoded before any clock runs.

A publisher's key is made from its seed, so a chain is the same whoever makes it.
"""

from dataclasses import dataclass, field

from argosy.bench.ipni import digests
from argosy.ipni.formats import advertisement as adverts
from argosy.ipni.formats import metadata
from argosy.ipni.formats.advertisement import Advertisement
from argosy.ipni.formats.cid import DAG_CBOR, DAG_JSON, Cid
from argosy.ipni.formats.entries import encode_chunk
from argosy.ipni.formats.head import sign_head
from argosy.ipni.formats.peer import PrivateKey

CODECS = {"cbor": DAG_CBOR, "json": DAG_JSON}
KEY_BYTES = 32
ADDRESS = "/ip4/192.0.2.1/tcp/443/https"  # where the content would be; nobody asks there


@dataclass(frozen=True)
class Shape:
    """How much there is in a chain."""

    ads: int
    chunks: int  # of each advertisement
    chunk: int  # multihashes of each

    @property
    def multihashes(self) -> int:
        return self.ads * self.chunks * self.chunk


@dataclass
class Chain:
    """The blocks by name, the newest advertisement, and all advertisements from the oldest on."""

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


def made(seed: int, shape: Shape, codec: str) -> Chain:
    """The chunks of one advertisement have consecutive numbers; the first to be read is the highest of them."""
    chain = Chain(publisher_key(seed))
    for number in range(shape.ads):
        entries: Cid | None = None
        for each in range(number * shape.chunks, (number + 1) * shape.chunks):
            entries, block = encode_chunk(digests.chunk(seed, each, shape.chunk), entries, CODECS[codec])
            chain.blocks[str(entries)] = block
        assert entries is not None, "an advertisement of a bench has entries"
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
