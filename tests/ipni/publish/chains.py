"""Chains for tests, and a reader that verifies everything."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

from argosy.ipni.formats import advertisement as adverts
from argosy.ipni.formats import entries
from argosy.ipni.formats.advertisement import Advertisement
from argosy.ipni.formats.cid import NO_ENTRIES, Cid
from argosy.ipni.formats.entries import EntryChunk
from argosy.ipni.formats.multihash import SHA2_256, wrap
from argosy.ipni.formats.peer import PrivateKey
from argosy.ipni.model import Peer
from argosy.ipni.ports import PublisherSource
from argosy.ipni.publish.backends.memory import MemoryChain
from argosy.ipni.publish.backends.sqlite import SqliteChain
from argosy.ipni.publish.http import publisher_app
from argosy.ipni.publish.ports import ChainStore, PublisherChain
from argosy.ipni.settings import SyncSettings
from argosy.ipni.sync.client import HttpSource, HttpSources
from tests.ipni.publish.serving import serving

KEY = PrivateKey.generate(random_bytes=bytes(range(32)))
FRIEND = PrivateKey.generate(random_bytes=b"f" * 32)
ADDRESSES = ("/ip4/203.0.113.7/tcp/4001",)
BITSWAP = bytes.fromhex("8012")
HTTP = bytes.fromhex("a012")


def hashes(*words: str | int) -> list[bytes]:
    return [wrap(SHA2_256, sha256(str(word).encode()).digest()) for word in words]


@asynccontextmanager
async def chain_of(kind: str, folder: Path) -> AsyncIterator[ChainStore]:
    store: ChainStore = MemoryChain() if kind == "memory" else await SqliteChain.open(folder / "chain.db")
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def reading(publisher: PublisherChain) -> AsyncIterator[HttpSource]:
    """The chain as an indexer reads it: over HTTP."""
    sources = HttpSources(SyncSettings(allow_private=True))
    async with serving(publisher_app(publisher)) as url:
        port = url.rpartition(":")[2]
        try:
            yield sources.open(Peer(publisher.id, (f"/ip4/127.0.0.1/tcp/{port}/http",)))
        finally:
            await sources.close()


async def chain(source: PublisherSource) -> list[Advertisement]:
    """All advertisements, oldest first, each with its signatures checked."""
    signed = await source.head()
    here = signed.head if signed else None
    found = []
    while here is not None:
        ad = adverts.decode(here, await source.block(here, is_entries=False))
        adverts.signer(ad)
        found.append(ad)
        here = ad.previous
    return found[::-1]


async def multihashes(source: PublisherSource, first: Cid) -> list[list[bytes]]:
    """By chunk, in the order of the links."""
    found = []
    here: Cid | None = None if first == NO_ENTRIES else first
    while here is not None:
        chunk = entries.decode_entries(here, await source.block(here, is_entries=True))
        assert isinstance(chunk, EntryChunk)
        found.append(list(chunk.multihashes))
        here = chunk.next
    return found


async def read_context_entries(source: PublisherSource) -> dict[bytes, set[bytes]]:
    """By context the entries an indexer would finally have."""
    advertisements = await chain(source)
    held: dict[bytes, set[bytes]] = {}
    for at, ad in enumerate(advertisements):
        is_removed = any(later.is_removal and later.context == ad.context for later in advertisements[at:])
        if ad.metadata and not is_removed:  # entries that are removed later need not exist any more
            parts = await multihashes(source, ad.entries)
            held.setdefault(ad.context, set()).update(each for part in parts for each in part)
    return held
