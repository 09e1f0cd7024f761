"""A publisher: appends signed advertisements to its chain.

Multihashes are streamed: a full chunk is stored and the next one links to it, so an advertisement names the last
chunk and only one is in memory. Nothing counts until the advertisements are appended atomically: a crash before that
leaves unreferenced blocks, which are swept.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from argosy.base.clock import Clock
from argosy.base.errors import Invalid, NotFound
from argosy.ipni.formats import advertisement as adverts
from argosy.ipni.formats import entries
from argosy.ipni.formats.advertisement import Advertisement, AdvertisementExtension, AdvertisementPeer
from argosy.ipni.formats.cid import DAG_JSON, NO_ENTRIES, Cid
from argosy.ipni.formats.head import TOPIC, sign_head
from argosy.ipni.formats.peer import PrivateKey
from argosy.ipni.model import CONTEXT_BYTES_MAX, METADATA_BYTES_MAX, ExtendedPeer, Peer
from argosy.ipni.publish.ports import ChainLink, ChainStore, PublishedContext

POLL_S = 5.0  # interval of checking whether another process has published


class HeadSigner:
    """Signs each head once, however often it is requested."""

    def __init__(self, key: PrivateKey) -> None:
        self._key = key
        self._signed: tuple[Cid, bytes] | None = None

    def sign(self, head: Cid | None) -> bytes | None:
        if head is None:
            return None
        # Every indexer that polls requests the head, and an RSA signature takes milliseconds.
        if self._signed is None or self._signed[0] != head:
            self._signed = (head, sign_head(head, self._key, TOPIC))
        return self._signed[1]


class ReadOnlyChain:
    """A `PublisherChain` over a store that another process writes; create it with `open`."""

    def __init__(self, key: PrivateKey, store: ChainStore, head: Cid | None, *, clock: Clock, poll_s: float) -> None:
        self._store = store
        self._head = head
        self._clock = clock
        self._poll_s = poll_s
        self._id = key.peer_id
        self._signer = HeadSigner(key)

    @classmethod
    async def open(cls, key: PrivateKey, store: ChainStore, *, clock: Clock, poll_s: float = POLL_S) -> "ReadOnlyChain":
        return cls(key, store, await store.head(), clock=clock, poll_s=poll_s)

    @property
    def id(self) -> str:
        return self._id

    @property
    def head(self) -> Cid | None:
        return self._head

    async def wait_new_head(self, seen: Cid | None) -> Cid:
        while (head := await self._refresh_head()) is None or head == seen:
            await self._clock.sleep(self._poll_s)
        return head

    async def signed_head(self) -> bytes | None:
        return self._signer.sign(await self._refresh_head())

    async def block(self, cid: Cid) -> bytes | None:
        return await self._store.block(cid)

    async def _refresh_head(self) -> Cid | None:
        self._head = await self._store.head()
        return self._head


CHUNK_MULTIHASHES = 16384  # the default of index-provider; about 1 MiB as dag-json
CHUNKS_PER_AD_MAX = 400  # as the specification advises; a larger context is several advertisements
SWEEP_BLOCKS_MAX = 4096  # deleted at start, and after each change

Multihashes: TypeAlias = Iterable[bytes] | AsyncIterable[bytes]


@dataclass(frozen=True)
class _Chunks:
    """Entries that are staged and not yet advertised."""

    first: Cid
    cids: tuple[Cid, ...]
    multihashes: int


class Publisher:
    """Signs and stores the chain of one key. The provider is the publisher itself unless another is named.

    Create it with `open`; changes are serialised.
    """

    def __init__(
        self,
        key: PrivateKey,
        store: ChainStore,
        head: Cid | None,
        *,
        addresses: Sequence[str],
        codec: int,
        chunk_multihashes: int,
        frees_removed: bool,
    ) -> None:
        self._key = key
        self._store = store
        self._head = head
        self._self = Peer(key.peer_id, tuple(addresses))
        self._codec = codec
        self._chunk_multihashes = chunk_multihashes
        self._frees_removed = frees_removed
        # One change at a time: each advertisement links to the head, so two concurrent ones would fork the chain.
        self._turn = asyncio.Lock()
        self._head_changed = asyncio.Event()
        self._signer = HeadSigner(key)

    @classmethod
    async def open(
        cls,
        key: PrivateKey,
        store: ChainStore,
        *,
        addresses: Sequence[str] = (),
        codec: int = DAG_JSON,
        chunk_multihashes: int = CHUNK_MULTIHASHES,
        frees_removed: bool = True,
    ) -> "Publisher":
        """Opens the chain at its head. `addresses` are where this provider serves the content.

        With `frees_removed`, entries that no published context needs are deleted. An indexer that reads the chain later
        skips them without loss, because their removal follows in the chain.
        """
        if not 1 <= chunk_multihashes <= CHUNK_MULTIHASHES:
            raise Invalid(f"a chunk has 1 to {CHUNK_MULTIHASHES} multihashes, not {chunk_multihashes}")
        # Before anything is read or swept: the chain may belong to another key.
        await store.claim(key.peer_id)
        head = await store.head()
        if frees_removed:
            await store.sweep(SWEEP_BLOCKS_MAX)  # blocks of an interrupted publication
        return cls(
            key,
            store,
            head,
            addresses=addresses,
            codec=codec,
            chunk_multihashes=chunk_multihashes,
            frees_removed=frees_removed,
        )

    @property
    def id(self) -> str:
        return self._self.id

    @property
    def head(self) -> Cid | None:
        return self._head

    async def wait_new_head(self, seen: Cid | None) -> Cid:
        """Returns the head when it differs from `seen`."""
        while self._head is None or self._head == seen:
            await self._head_changed.wait()
        return self._head

    async def signed_head(self) -> bytes | None:
        return self._signer.sign(self._head)

    async def block(self, cid: Cid) -> bytes | None:
        return await self._store.block(cid)

    async def find_context(self, context: bytes, *, provider: str | None = None) -> PublishedContext | None:
        return await self._store.find_context(provider or self.id, context)

    async def list_contexts(self, beginning: bytes = b"", *, provider: str | None = None) -> list[PublishedContext]:
        """The published contexts with the prefix."""
        return await self._store.list_contexts(provider or self.id, beginning)

    async def publish(
        self,
        context: bytes,
        metadata: bytes,
        multihashes: Multihashes,
        *,
        provider: Peer | None = None,
        supersedes: Sequence[bytes] = (),
    ) -> Cid:
        """Adds the multihashes under the context, then removes the contexts that it supersedes.

        In this order indexers find the content of both versions throughout. All advertisements are appended, or none.
        """
        _check(context, metadata)
        if not metadata:
            raise Invalid("entries need metadata, which names the protocols to fetch them by")
        async with self._turn:
            peer = provider or self._self
            change = _ChainChange(self, peer, await self._store.find_context(peer.id, context))
            async for chunks in self._stage_chunks(multihashes):
                change.add(context, metadata, chunks)
            # Nothing to list is not nothing to publish: the metadata is published without entries.
            if not change.links:
                change.add(context, metadata, None)
            # After the additions: an indexer applies them in this order, so the content is findable throughout.
            for old in supersedes:
                if old != context and await self._store.find_context(peer.id, old) is not None:
                    change.remove(old)
            return await self._append(change.links)

    async def remove(self, context: bytes, *, provider: Peer | None = None) -> Cid:
        """Removes everything under the context; raises NotFound if it is not published."""
        async with self._turn:
            peer = provider or self._self
            change = _ChainChange(self, peer, await self._require_context(peer, context))
            change.remove(context)
            return await self._append(change.links)

    async def update_metadata(self, context: bytes, metadata: bytes, *, provider: Peer | None = None) -> Cid:
        """Sets the metadata of everything under the context; raises NotFound if it is not published."""
        _check(context, metadata)
        if not metadata:
            raise Invalid("empty metadata would change nothing; remove the context instead")
        async with self._turn:
            peer = provider or self._self
            change = _ChainChange(self, peer, await self._require_context(peer, context))
            change.add(context, metadata, None)
            return await self._append(change.links)

    async def update_addresses(self, addresses: Sequence[str], *, provider: Peer | None = None) -> Cid:
        """Changes the addresses where the provider serves the content."""
        async with self._turn:
            peer = Peer(provider.id if provider else self.id, tuple(addresses))
            cid = await self._append([self._link(Advertisement(peer.id, peer.addresses, NO_ENTRIES, b"", b""))])
            if peer.id == self.id:
                self._self = peer
            return cid

    async def extend(
        self,
        peers: Sequence[tuple[ExtendedPeer, PrivateKey]],
        *,
        context: bytes = b"",
        metadata: bytes = b"",
        is_override: bool = False,
    ) -> Cid:
        """Names other providers of the same content, each signing with its own key, for all content or for one context.

        They replace all that were named before; an empty list removes them. The publisher itself is added, because the
        wire format requires it in a list that is not empty.
        """
        _check(context, metadata)
        if is_override and not context:
            raise Invalid("an override applies to one context; name the context")
        named = list(peers)
        if named and self.id not in {peer.id for peer, _ in named}:
            named.insert(0, (ExtendedPeer(self.id, self._self.addresses), self._key))
        extension = AdvertisementExtension(
            tuple(AdvertisementPeer(peer.id, peer.addresses, peer.metadata) for peer, _ in named), is_override
        )
        # Its own advertisement without entries: the set belongs to the chain, not to some entries.
        draft = Advertisement(self.id, self._self.addresses, NO_ENTRIES, context, metadata, extension=extension)
        async with self._turn:
            link = self._link(draft, extended_keys=tuple(key for _, key in named))
            # An advertisement with metadata also sets the context's metadata, so the record of the context changes too.
            if context and metadata:
                before = await self._store.find_context(self.id, context)
                published = PublishedContext(self.id, context, metadata, link.cid, before.multihashes if before else 0)
                link = replace(link, published=published)
            return await self._append([link])

    def _link(
        self, draft: Advertisement, *, extended_keys: Sequence[PrivateKey] = (), previous: Cid | None = None
    ) -> ChainLink:
        linked = replace(draft, previous=previous or self._head)
        cid, data = adverts.encode(adverts.sign(linked, self._key, extended_keys), self._codec)
        return ChainLink(cid, data)

    async def _require_context(self, peer: Peer, context: bytes) -> PublishedContext:
        published = await self._store.find_context(peer.id, context)
        if published is None:
            raise NotFound(f"context {context.hex()} of {peer.id} is not published")
        return published

    async def _append(self, links: Sequence[ChainLink]) -> Cid:
        """Finishes the change even if the caller is cancelled; otherwise the head here and the one on disk would
        differ."""
        change = asyncio.ensure_future(self._append_whole(links))
        try:
            await asyncio.shield(change)
        except asyncio.CancelledError:
            await asyncio.wait([change])  # the lock is held until it is done
            raise
        return links[-1].cid

    async def _append_whole(self, links: Sequence[ChainLink]) -> None:
        await self._store.append(links)
        self._head = links[-1].cid
        self._head_changed.set()
        self._head_changed = asyncio.Event()
        if self._frees_removed and any(link.is_removed for link in links):
            await self._store.sweep(SWEEP_BLOCKS_MAX)

    async def _stage_chunks(self, multihashes: Multihashes) -> AsyncIterator[_Chunks]:
        """Stages chunk after chunk, and yields as many as one advertisement links to."""
        # Each chunk links to the one before it, so only one is in memory, and the last one is the first to be read.
        cids: list[Cid] = []
        count = 0
        async for batch in _batches(multihashes, self._chunk_multihashes):
            following = cids[-1] if cids else None
            # About a megabyte of base64: in a thread, so that the chain is still served meanwhile.
            cid, data = await asyncio.to_thread(entries.encode_chunk, batch, following, self._codec)
            await self._store.stage(cid, data)
            cids.append(cid)
            count += len(batch)
            if len(cids) == CHUNKS_PER_AD_MAX:
                yield _Chunks(cid, tuple(cids), count)
                cids, count = [], 0
        if cids:
            yield _Chunks(cids[-1], tuple(cids), count)


class _ChainChange:
    """The advertisements of one change, each linked to the previous one."""

    def __init__(self, publisher: Publisher, peer: Peer, published: PublishedContext | None) -> None:
        self.links: list[ChainLink] = []
        self._publisher = publisher
        self._peer = peer
        self._multihashes = published.multihashes if published else 0

    def add(self, context: bytes, metadata: bytes, chunks: _Chunks | None) -> None:
        link = self._next(
            Advertisement(
                self._peer.id, self._peer.addresses, chunks.first if chunks else NO_ENTRIES, context, metadata
            )
        )
        self._multihashes += chunks.multihashes if chunks else 0
        published = PublishedContext(self._peer.id, context, metadata, link.cid, self._multihashes)
        self.links.append(replace(link, published=published, entries=chunks.cids if chunks else ()))

    def remove(self, context: bytes) -> None:
        link = self._next(Advertisement(self._peer.id, self._peer.addresses, NO_ENTRIES, context, b"", is_removal=True))
        published = PublishedContext(self._peer.id, context, b"", link.cid)
        self.links.append(replace(link, published=published, is_removed=True))

    def _next(self, draft: Advertisement) -> ChainLink:
        return self._publisher._link(draft, previous=self.links[-1].cid if self.links else None)


def _check(context: bytes, metadata: bytes) -> None:
    if len(context) > CONTEXT_BYTES_MAX:
        raise Invalid(f"a context of {len(context)} bytes is longer than {CONTEXT_BYTES_MAX}; shorten or hash it")
    if len(metadata) > METADATA_BYTES_MAX:
        raise Invalid(f"metadata of {len(metadata)} bytes is longer than {METADATA_BYTES_MAX}; shorten it")


async def _batches(multihashes: Multihashes, size: int) -> AsyncIterator[list[bytes]]:
    batch: list[bytes] = []
    if isinstance(multihashes, AsyncIterable):
        async for multihash in multihashes:
            batch.append(multihash)
            if len(batch) == size:
                yield batch
                batch = []
    else:
        for multihash in multihashes:
            batch.append(multihash)
            if len(batch) == size:
                yield batch
                batch = []
    if batch:
        yield batch
