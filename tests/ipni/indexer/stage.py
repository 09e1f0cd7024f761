"""Publishers for the indexer's tests: chains made in memory, read through the same port as chains on the network."""

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from argosy.base.errors import NotFound, Unavailable
from argosy.ipni.formats import advertisement as adverts
from argosy.ipni.formats import entries
from argosy.ipni.formats.advertisement import Advertisement, AdvertisementExtension, AdvertisementPeer
from argosy.ipni.formats.cid import DAG_CBOR, DAG_JSON, NO_ENTRIES, Cid
from argosy.ipni.formats.entries import encode_chunk
from argosy.ipni.formats.head import Announcement, SignedHead
from argosy.ipni.formats.multihash import of as multihash_of
from argosy.ipni.formats.peer import PrivateKey
from argosy.ipni.indexer.service import IndexerService
from argosy.ipni.model import Peer
from argosy.ipni.ports import PublisherSource
from argosy.ipni.settings import IndexerSettings

METADATA = b"\x80\x12"
ADDRESS = "/ip4/192.0.2.1/tcp/4001"
SETTINGS = IndexerSettings()
WITHIN_S = 30


def key_of(name: str) -> PrivateKey:
    """Keys that repeat."""
    return PrivateKey.generate(random_bytes=hashlib.sha256(name.encode()).digest())


def hashes(name: str, count: int) -> list[bytes]:
    return [multihash_of(f"{name}-{number}".encode()) for number in range(count)]


@dataclass
class Chain:
    """One publisher: its key, the blocks it serves, and its newest advertisement."""

    name: str = "publisher"
    head: Cid | None = None
    blocks: dict[Cid, bytes] = field(default_factory=dict)
    fetched: list[Cid] = field(default_factory=list)
    ads: list[Cid] = field(default_factory=list)
    is_down: bool = False
    fails_on: set[Cid] = field(default_factory=set)  # unreachable for now

    @property
    def key(self) -> PrivateKey:
        return key_of(self.name)

    @property
    def id(self) -> str:
        return self.key.peer_id

    @property
    def peer(self) -> Peer:
        return Peer(self.id, (f"/dns4/{self.name}.example/tcp/80/http",))

    def announcement(self, head: Cid | None = None) -> Announcement:
        head = head or self.head
        assert head is not None
        return Announcement(head, self.peer)

    def chunks(self, multihashes: Sequence[bytes], size: int = 4, codec: int = DAG_CBOR) -> Cid:
        following: Cid | None = None
        pieces = [multihashes[at : at + size] for at in range(0, len(multihashes), size)] or [[]]
        for piece in reversed(pieces):
            following, data = encode_chunk(piece, following, codec)
            self.blocks[following] = data
        assert following is not None
        return following

    def hamt(self, multihashes: Sequence[bytes]) -> Cid:
        blocks = entries.encode_hamt(multihashes)
        self.blocks.update(blocks)
        return blocks[-1][0]

    def add(
        self,
        context: bytes = b"c",
        multihashes: Iterable[bytes] = (),
        *,
        provider: str | None = None,
        metadata: bytes = METADATA,
        addresses: tuple[str, ...] = (ADDRESS,),
        entries: Cid | None = None,
        is_removal: bool = False,
        extension: AdvertisementExtension | None = None,
        extended_keys: Sequence[PrivateKey] = (),
        chunk: int = 4,
        codec: int = DAG_JSON,
    ) -> Cid:
        multihashes = list(multihashes)
        if entries is None:
            entries = self.chunks(multihashes, chunk) if multihashes else NO_ENTRIES
        ad = Advertisement(
            provider or self.id,
            addresses,
            entries,
            context,
            metadata,
            is_removal=is_removal,
            previous=self.head,
            extension=extension,
        )
        cid, data = adverts.encode(adverts.sign(ad, self.key, extended_keys), codec)
        self.blocks[cid] = data
        self.ads.append(cid)
        self.head = cid
        return cid

    def remove(self, context: bytes = b"c", *, provider: str | None = None) -> Cid:
        return self.add(context, provider=provider, metadata=b"", is_removal=True)

    def extend(self, names: Sequence[str], context: bytes = b"", *, is_override: bool = False, **more: bytes) -> Cid:
        """An advertisement with a set of extended providers, the publisher among them unless there are none."""
        keys = [key_of(name) for name in names]
        places = [f"/dns4/{name}.example/tcp/1" for name in names]
        peers = [AdvertisementPeer(key.peer_id, (place,), b"") for key, place in zip(keys, places, strict=True)]
        if peers:
            peers.insert(0, AdvertisementPeer(self.id, (ADDRESS,), b""))
        extension = AdvertisementExtension(tuple(peers), is_override)
        return self.add(context, extension=extension, extended_keys=keys, **more)  # type: ignore[arg-type]


class _ChainSource:
    def __init__(self, chain: Chain) -> None:
        self._chain = chain

    async def head(self) -> SignedHead | None:
        self._refuse_if_down()
        return None if self._chain.head is None else SignedHead(self._chain.head, self._chain.id)

    async def block(self, cid: Cid, *, is_entries: bool) -> bytes:
        self._refuse_if_down(cid)
        self._chain.fetched.append(cid)
        if cid not in self._chain.blocks:
            raise NotFound(f"{cid} is not here")
        return self._chain.blocks[cid]

    def _refuse_if_down(self, cid: Cid | None = None) -> None:
        if self._chain.is_down or cid in self._chain.fails_on:
            raise Unavailable(f"{self._chain.name} does not answer")


class ChainSources:
    def __init__(self, *chains: Chain) -> None:
        self.chains = {chain.id: chain for chain in chains}

    def open(self, publisher: Peer) -> PublisherSource:
        return _ChainSource(self.chains[publisher.id])


class SetUsage:
    """Disk usage that a test sets; after `fills_after` readings it is full."""

    def __init__(self, percent: float = 10.0, *, fills_after: int | None = None) -> None:
        self.value = percent
        self._fills_after = fills_after
        self._readings = 0

    def percent(self) -> float:
        self._readings += 1
        if self._fills_after is not None and self._readings > self._fills_after:
            return 99.0
        return self.value


async def follow(indexer: IndexerService, chain: Chain) -> None:
    """Announces the chain's head and waits until the indexer has processed it."""
    await indexer.announce(chain.announcement())
    await indexer.wait_idle(chain.id)


async def until_found(indexer: IndexerService, multihashes: Sequence[bytes]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not all(await has(indexer, multihashes)):
            await turn()


async def turn() -> None:
    """Lets other tasks run."""
    await asyncio.sleep(0)


async def has(indexer: IndexerService, multihashes: Sequence[bytes]) -> list[bool]:
    return [bool(found) for found in await indexer.find(multihashes)]
