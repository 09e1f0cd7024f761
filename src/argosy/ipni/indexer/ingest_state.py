"""State of the ingest: the cursor of each publisher's chain, the state of each advertisement, and the known providers.

Memory equals the disk: rows are computed here, stored by the caller in one batch with the data that they describe, and
only then applied. Had a crash separated the two, a chain would be read twice or an advertisement be lost (IPN-3).
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import msgspec

from argosy.base.clock import Clock
from argosy.base.errors import Conflict, Invalid, NotFound
from argosy.base.metrics import Metrics
from argosy.ipni import keys
from argosy.ipni.formats.advertisement import Advertisement, AdvertisementExtension
from argosy.ipni.formats.cid import Cid
from argosy.ipni.indexer.policy import PeerPolicy
from argosy.ipni.model import ContextSet, ExtendedPeer, ExtendedProviders, Peer, Provider
from argosy.ipni.ports import IndexStore
from argosy.ipni.settings import IndexerSettings

T = TypeVar("T")

APPLIED = "applied"
APPLIED_FROZEN = "frozen"  # without entries, because the indexer was frozen; unfreezing applies it again


@dataclass(frozen=True)
class ChainCursor:
    """Position in a publisher's chain. Every advertisement up to `last` has been applied (IPN-3)."""

    publisher: Peer
    last: Cid | None = None
    wanted: Cid | None = None  # a requested head that is not reached yet: a restart continues to it
    frozen_at: Cid | None = None  # `last` when the indexer froze; unfreezing returns to it
    floor: Cid | None = None  # handed off to this indexer: older advertisements are on the frozen one
    has_gaps: bool = False  # a provider was removed, so ads older than `last` may be applied again


@dataclass(frozen=True)
class AdState:
    """State of one advertisement, with its provider and publisher, so that removing a provider finds its own."""

    state: str
    provider: str
    publisher: str


@dataclass(frozen=True)
class EntriesProgress:
    """Progress within one advertisement: entry blocks still to read (the last is next), and what has been stored."""

    ad: Cid
    provider: str
    left: tuple[Cid, ...]
    blocks: int = 0
    multihashes: int = 0
    is_hamt: bool = False


@dataclass
class EntryBatch:
    """Some entries of an advertisement, and where reading continues; with nothing left, that was all."""

    multihashes: list[bytes]
    left: tuple[Cid, ...]
    blocks: int
    is_hamt: bool = False
    bytes_read: int = 0
    bad: int = 0  # entries that are not multihashes


def pack(value: object) -> bytes:
    return msgspec.msgpack.encode(value)


def unpack(data: bytes, kind: type[T]) -> T:
    return msgspec.msgpack.decode(data, type=kind)


BATCH_ROWS = 2000  # per write, so that a long list does not block finds

Change = dict[bytes, bytes | None]


class SyncState:
    """Cursors in memory, states of advertisements on disk: there are thousands of publishers and millions of ads."""

    def __init__(self, store: IndexStore) -> None:
        self._store = store
        self._cursors: dict[str, ChainCursor] = {}

    async def load(self) -> None:
        async for key, data in self._store.scan(keys.PUBLISHERS):
            self._cursors[key[len(keys.PUBLISHERS) :].decode()] = unpack(data, ChainCursor)

    # -- cursors ------------------------------------------------------------------------------------------------------

    def cursors(self) -> Sequence[ChainCursor]:
        return tuple(self._cursors.values())

    def cursor(self, publisher: str) -> ChainCursor:
        return self._cursors.get(publisher) or ChainCursor(Peer(publisher))

    def knows(self, publisher: str) -> bool:
        return publisher in self._cursors

    def apply(self, cursor: ChainCursor) -> None:
        self._cursors[cursor.publisher.id] = cursor

    async def store_cursor(self, cursor: ChainCursor, *, is_durable: bool = False) -> None:
        await self._store.write(cursor_row(cursor), is_durable=is_durable)
        self.apply(cursor)

    async def set_wanted(self, publisher: Peer, head: Cid | None) -> ChainCursor:
        """Stores where to read and up to which head before anything is read, so that a restart continues the sync."""
        was = self.cursor(publisher.id)
        # An announced head replaces the wanted one, a poll (no head) keeps it: the head that was requested first must
        # still be reached.
        cursor = replace(
            was,
            publisher=publisher if publisher.addresses else was.publisher,
            wanted=head or was.wanted,
        )
        if cursor != was or not self.knows(publisher.id):
            await self.store_cursor(cursor)
        return cursor

    # -- advertisements -----------------------------------------------------------------------------------------------

    async def ad_state(self, ad: Cid) -> AdState | None:
        data = await self._store.read(keys.mark(ad))
        return None if data is None else unpack(data, AdState)

    async def pending(self, publisher: str, ad: Cid) -> bytes | None:
        return await self._store.read(keys.pending(publisher, ad))

    async def store_pending(self, publisher: str, blocks: Iterable[tuple[Cid, bytes]]) -> None:
        await self._store.write({keys.pending(publisher, cid): block for cid, block in blocks})

    async def progress(self, publisher: str, ad: Cid) -> EntriesProgress | None:
        data = await self._store.read(keys.progress(publisher))
        # One row per publisher: progress in another advertisement is that of an earlier, abandoned one.
        found = None if data is None else unpack(data, EntriesProgress)
        return found if found is not None and found.ad == ad else None

    def complete(
        self, publisher: str, ad: Cid, provider: str, *, is_frozen: bool, is_refill: bool = False
    ) -> tuple[ChainCursor, Change]:
        """The cursor and rows after the advertisement is applied; store the rows, then `apply` the cursor.

        Progress within the advertisement survives a freeze, so that unfreezing resumes at the same block. A refill is
        older than the last applied advertisement and does not move the cursor.
        """
        was = self.cursor(publisher)
        cursor = was if is_refill else replace(was, last=ad)
        state = APPLIED_FROZEN if is_frozen else APPLIED
        rows: Change = {
            **cursor_row(cursor),
            keys.mark(ad): pack(AdState(state, provider, publisher)),
            # The block has served its purpose; in the same batch, so that no crash leaves a block behind.
            keys.pending(publisher, ad): None,
        }
        if not is_frozen:
            rows[keys.progress(publisher)] = None
        return cursor, rows

    async def reset_ads(self, publisher: str, ads: Sequence[bytes], *, then: ChainCursor) -> None:
        """Makes advertisements applicable again, newest first, so that a crash leaves the older ones applied."""
        for start in range(0, len(ads), BATCH_ROWS):
            await self._store.write({keys.MARKS + ad: None for ad in ads[start : start + BATCH_ROWS]})
        # The cursor moves last: a crash before that leaves it where it was, and the resync has to be requested again.
        await self._store.write({**cursor_row(then), keys.progress(publisher): None})
        self.apply(then)

    async def clear_pending(self, publisher: str) -> None:
        """Deletes blocks of an earlier scan that the chain no longer contains."""
        stale = [key async for key, _ in self._store.scan(keys.pending_of(publisher))]
        for start in range(0, len(stale), BATCH_ROWS):
            await self._store.write(dict.fromkeys(stale[start : start + BATCH_ROWS]))

    async def plan_removal(self, provider: str, publisher: str) -> tuple[list[ChainCursor], Change]:
        """Cursors and rows that make a removed provider's advertisements applicable again: its publishers' cursors get
        gaps."""
        # storetheindex keeps the marks, so the chain of a removed provider is never indexed again (decision 29).
        publishers = {publisher} if self.knows(publisher) else set()
        rows: Change = {}
        async for key, data in self._store.scan(keys.MARKS):
            mark = unpack(data, AdState)
            if mark.provider == provider:
                rows[key] = None
                publishers.add(mark.publisher)
        cursors = [replace(self.cursor(publisher), has_gaps=True) for publisher in sorted(publishers)]
        for cursor in cursors:
            rows.update(cursor_row(cursor))
            rows[keys.progress(cursor.publisher.id)] = None
        return cursors, rows

    async def drop_frozen_states(self) -> None:
        """Makes the advertisements that were applied without entries applicable again."""
        stale: list[bytes] = []
        async for key, data in self._store.scan(keys.MARKS):
            if unpack(data, AdState).state == APPLIED_FROZEN:
                stale.append(key)
        for start in range(0, len(stale), BATCH_ROWS):
            await self._store.write(dict.fromkeys(stale[start : start + BATCH_ROWS]))


def cursor_row(cursor: ChainCursor) -> Mapping[bytes, bytes | None]:
    return {keys.publisher(cursor.publisher.id): pack(cursor)}


ERROR_CHARS_MAX = 500  # of a provider's last error, which every list of providers contains


class NoAddress(Invalid):
    """A new provider without an address: its content could not be fetched."""


class UnknownWhileFrozen(Conflict):
    """A frozen indexer accepts no new providers."""


class ProviderTable:
    """The known providers, in memory; every find looks them up."""

    def __init__(self, providers: Iterable[Provider] = ()) -> None:
        self._by_id = {provider.id: provider for provider in providers}

    def __len__(self) -> int:
        return len(self._by_id)

    def all(self) -> Sequence[Provider]:
        return tuple(self._by_id.values())

    def find(self, id: str) -> Provider | None:
        return self._by_id.get(id)

    def get(self, id: str) -> Provider:
        provider = self._by_id.get(id)
        if provider is None:
            raise NotFound(f"provider {id} not found")
        return provider

    def of_publisher(self, publisher: str) -> list[Provider]:
        return [each for each in self._by_id.values() if each.publisher is not None and each.publisher.id == publisher]

    def apply(self, provider: Provider) -> None:
        self._by_id[provider.id] = provider

    def remove(self, id: str) -> None:
        self._by_id.pop(id, None)

    def provider_after(
        self,
        ad: Advertisement,
        publisher: Peer,
        *,
        addresses: Sequence[str] = (),
        lag: int = 0,
        is_frozen: bool = False,
    ) -> Provider:
        """The provider after this advertisement; `addresses` are newer ones, if known.

        `last_ad` does not change: it moves only when the whole advertisement is stored.
        """
        # Frozen before address: while frozen, a new provider is postponed and not an offence that pauses its publisher.
        known = self._by_id.get(ad.provider)
        if known is None and is_frozen:
            raise UnknownWhileFrozen(f"provider {ad.provider} is new, and this indexer is frozen")
        # Addresses of later advertisements in the batch win: a long chain would otherwise publish dead addresses until
        # its end is reached.
        newest = tuple(addresses) or ad.addresses
        if known is None and not newest:
            raise NoAddress(f"provider {ad.provider} is new and has no address; advertise one")
        was = known or Provider(ad.provider)
        return replace(
            was,
            addresses=newest or was.addresses,
            publisher=publisher
            if publisher.addresses or was.publisher is None
            else Peer(publisher.id, was.publisher.addresses),
            extended=extend(ad, was.extended),
            lag=lag,
            is_inactive=False,
        )


def with_applied(provider: Provider, ad: Cid, at: float, *, error: str = "") -> Provider:
    """The provider after the advertisement was applied in full, or skipped permanently with an error."""
    # A skipped advertisement counts as passed, or its error would stop the chain for good; a success clears the error.
    moved = replace(provider, last_ad=ad, last_ad_at=at)
    return with_error(moved, error, at) if error else replace(moved, last_error="", last_error_at=0.0)


def with_error(provider: Provider, error: str, at: float) -> Provider:
    return replace(provider, last_error=error[:ERROR_CHARS_MAX], last_error_at=at)


def provider_row(provider: Provider) -> Mapping[bytes, bytes | None]:
    return {keys.provider(provider.id): pack(provider)}


def extend(ad: Advertisement, was: ExtendedProviders) -> ExtendedProviders:
    """A set replaces all previous ones, of the chain and of every context; an empty one clears them.

    What the protocol forbids is ignored: a set on a removal, an override without a context. An error would block
    the chain forever, as it does in storetheindex.
    """
    if ad.extension is None or ad.is_removal:
        return was
    # An override hides the chain's set for one context; without a context it has no meaning.
    if ad.extension.is_override and not ad.context:
        return was
    peers = _peers(ad, ad.extension)
    if not peers:
        return ExtendedProviders()
    if ad.context:
        return ExtendedProviders(contexts={ad.context: ContextSet(peers, ad.extension.is_override)})
    return ExtendedProviders(chain=peers)


def _peers(ad: Advertisement, extension: AdvertisementExtension) -> tuple[ExtendedPeer, ...]:
    """Peers with an address; the provider's own entry may omit addresses that equal the advertisement's."""
    reachable = []
    for peer in extension.peers:
        addresses = peer.addresses or (ad.addresses if peer.id == ad.provider else ())
        if addresses:
            reachable.append(ExtendedPeer(peer.id, addresses, peer.metadata))
    return tuple(reachable)


class ProviderLocks(Protocol):
    """A lock by provider id."""

    def hold(self, key: str) -> AbstractAsyncContextManager[None]: ...


@dataclass(frozen=True)
class SharedState:
    """One instance per indexer, so that every part sees the same tables and takes the same locks."""

    store: IndexStore
    settings: IndexerSettings
    metrics: Metrics
    clock: Clock
    policy: PeerPolicy
    sync_state: SyncState
    # Several publishers may advertise for one provider: its row changes under its lock only.
    provider_locks: ProviderLocks
    providers: ProviderTable = field(default_factory=ProviderTable)
