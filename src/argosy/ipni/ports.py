"""What an indexer stands on: a store that changes in whole steps, and publishers to read from."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from argosy.ipni.formats.announce import Announcement
from argosy.ipni.formats.cid import Cid
from argosy.ipni.formats.head import SignedHead
from argosy.ipni.model import Assignment, IndexerStatus, IndexValue, Peer, Provider, ProviderResult, StoreStats

# Rows of the indexer's own small tables (see keys.py), changed in the same batch as the data; None takes a row away.
Rows = Mapping[bytes, bytes | None]


class IndexStore(Protocol):
    """Multihashes to values, and the rows that say how far the indexer has come.

    Every call is one step: all of it counts, or none. What was written first is there if what was written later is,
    whatever crashes; with `is_durable` it is on disk before the call returns. Only a large put that is cut off may
    leave some of its multihashes under a context that was there before: its rows are not written, so it is put again.
    """

    async def put(
        self,
        value: IndexValue,
        multihashes: Sequence[bytes] = (),
        rows: Rows | None = None,
        *,
        is_durable: bool = False,
    ) -> None:
        """Adds the multihashes under (provider, context), and makes the metadata that of all under it."""
        ...

    async def remove_context(self, provider: str, context: bytes, rows: Rows | None = None) -> None:
        """Nothing under it is found from now on; its space is freed by `sweep`."""
        ...

    async def remove_provider(self, provider: str, rows: Rows | None = None) -> None: ...

    async def sweep(self, entries_max: int) -> int:
        """Frees the space of up to so many removed entries; how many there were. Goes on after a restart."""
        ...

    async def find(self, multihashes: Sequence[bytes]) -> list[tuple[IndexValue, ...]]:
        """What each leads to, in the order asked."""
        ...

    async def find_second(self, digests: Sequence[bytes]) -> list[bytes | None]:
        """The multihash whose second hash (of double-hashed lookups) has this digest; only if the store keeps them."""
        ...

    async def find_value(self, value_key_hash: bytes) -> IndexValue | None:
        """The value by sha2-256 of its value key: the provider's id as bytes, then the context."""
        ...

    async def multihashes(self, provider: str, context: bytes, *, start: bytes, limit: int) -> list[bytes]:
        """Some of those under a context, in order of their digests, from `start` (a digest or its beginning) on."""
        ...

    async def context_size(self, provider: str, context: bytes) -> int:
        """How many multihashes lie under it; one that was put twice may count twice."""
        ...

    async def write(self, rows: Rows, *, is_durable: bool = False) -> None: ...

    async def read(self, key: bytes) -> bytes | None: ...

    def scan(self, prefix: bytes) -> AsyncIterator[tuple[bytes, bytes]]:
        """The rows whose keys begin so, in key order, as they were when it began."""
        ...

    async def stats(self) -> StoreStats: ...

    async def close(self) -> None: ...


class PublisherSource(Protocol):
    """One publisher's chain, read over the network. Whatever it returns has been checked against its name.

    NotFound: the publisher does not have it. Invalid: it lies or breaks a bound, asking again is no use. Unavailable:
    it cannot be reached now.
    """

    async def head(self) -> SignedHead | None:
        """The newest advertisement, signed by the publisher; None when it has published nothing."""
        ...

    async def block(self, cid: Cid, *, is_entries: bool) -> bytes: ...


class PublisherSources(Protocol):
    def open(self, publisher: Peer) -> PublisherSource:
        """Invalid if none of its addresses can be read from."""
        ...


class FindApi(Protocol):
    """What answers who has which content: an indexer, or the front of a query layer."""

    async def find(self, multihashes: Sequence[bytes]) -> list[tuple[ProviderResult, ...]]: ...

    async def find_encrypted(self, second_hashes: Sequence[bytes]) -> list[tuple[bytes, ...]]:
        """The encrypted value keys under each second hash of double-hashed lookups."""
        ...

    async def encrypted_metadata(self, value_key_hash: bytes) -> bytes | None: ...

    async def sample(self, provider: str, context: bytes, *, beacon: bytes, multihashes_max: int) -> list[bytes]: ...

    def providers(self) -> Sequence[Provider]: ...

    def provider(self, id: str) -> Provider:
        """NotFound if it is unknown, not allowed, or inactive."""
        ...

    async def stats(self) -> StoreStats: ...

    def status(self) -> IndexerStatus: ...


class IngestApi(Protocol):
    """What publishers call: announcements, address records, and the state of their syncs."""

    async def announce(self, announce: Announcement) -> None:
        """Returns when it is noted, not when it is done; a repeated one makes no traffic."""
        ...

    async def register(self, peer: Peer, sequence: int) -> None:
        """New addresses of a provider, from a signed peer record."""
        ...

    def sync_status(self, publisher: str | None = None) -> Mapping[str, object]:
        """By publisher, in the shape in which other indexers tell it, with the distance to the head besides."""
        ...

    async def is_indexed(self, ad: Cid) -> bool: ...


class AdminApi(Protocol):
    """What operators and assigners call.

    Errors: Invalid 400, Forbidden 403 (policy), NotFound 404, Conflict 409 (frozen; sync already running),
    Unavailable 503 (no assigner is configured). "Already assigned" is Invalid, because storetheindex answers 400.
    """

    def status(self) -> IndexerStatus: ...

    async def check_health(self) -> None:
        """Writes, reads and removes a probe."""
        ...

    async def freeze(self) -> None: ...

    async def assign(self, publisher: str) -> None: ...

    async def unassign(self, publisher: str) -> None: ...

    async def handoff(self, publisher: str, *, frozen_id: str, frozen_url: str) -> None: ...

    def assignments(self) -> Sequence[Assignment]: ...

    def preferred_publishers(self) -> Sequence[str]: ...

    def allow(self, peer: str) -> None: ...

    def block(self, peer: str) -> None: ...

    async def sync(
        self, publisher: str, address: str | None = None, *, depth: int = 0, is_resync: bool = False
    ) -> None: ...

    def syncs(self) -> Sequence[str]: ...

    async def remove_provider(self, id: str, *, is_blocked: bool = False) -> None: ...

    async def import_providers(self, url: str) -> int: ...

    async def mark_processed(self, provider: str, ad: Cid) -> None: ...

    def telemetry(self) -> Mapping[str, tuple[int, float, int]]:
        """By provider since the last call: multihashes, seconds, samples."""
        ...

    async def reload(self) -> None:
        """Reads policy and limits again."""
        ...


class Indexer(FindApi, IngestApi, AdminApi, Protocol):
    """All three APIs of an indexer, for an application that serves them on one port."""
