"""Ports of the content index: the index store, publishers to read from, and the three APIs of an indexer."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from argosy.ipni.formats.cid import Cid
from argosy.ipni.formats.head import Announcement, SignedHead
from argosy.ipni.model import Assignment, IndexerStatus, IndexValue, Peer, Provider, ProviderResult, StoreStats

# Rows of the indexer's own small tables (see keys.py), written in the same batch as the data; None deletes a row.
Rows = Mapping[bytes, bytes | None]


class IndexStore(Protocol):
    """Maps multihashes to values, and stores the rows that record how far the indexer has come.

    Every call is atomic. Writes are ordered: after a crash, a later write is never present without the earlier ones.
    With `is_durable` a write is on disk before the call returns. The one exception is a large put that is interrupted:
    it may leave some of its multihashes under a context that existed before; its rows are not written, so the put is
    repeated.
    """

    async def put(
        self,
        value: IndexValue,
        multihashes: Sequence[bytes] = (),
        rows: Rows | None = None,
        *,
        is_durable: bool = False,
    ) -> None:
        """Adds the multihashes under (provider, context), and sets the metadata of all multihashes under it."""
        ...

    async def remove_context(self, provider: str, context: bytes, rows: Rows | None = None) -> None:
        """Hides everything under the context at once; `sweep` frees the space later."""
        ...

    async def remove_provider(self, provider: str, rows: Rows | None = None) -> None: ...

    async def sweep(self, entries_max: int) -> int:
        """Frees the space of at most `entries_max` removed entries and returns how many. Continues after a restart."""
        ...

    async def find(self, multihashes: Sequence[bytes]) -> list[tuple[IndexValue, ...]]:
        """The values of each multihash, in the given order."""
        ...

    async def find_second(self, digests: Sequence[bytes]) -> list[bytes | None]:
        """The multihash with this second digest (double-hashed lookups); needs a store with second hashes."""
        ...

    async def find_value(self, value_key_hash: bytes) -> IndexValue | None:
        """The value by sha2-256 of its value key: the provider's id as bytes, then the context."""
        ...

    async def multihashes(self, provider: str, context: bytes, *, start: bytes, limit: int) -> list[bytes]:
        """Some multihashes of a context in digest order, from `start` (a digest or a prefix of one) on."""
        ...

    async def context_size(self, provider: str, context: bytes) -> int:
        """The number of multihashes of the context; one that was put twice may count twice."""
        ...

    async def write(self, rows: Rows, *, is_durable: bool = False) -> None: ...

    async def read(self, key: bytes) -> bytes | None: ...

    def scan(self, prefix: bytes) -> AsyncIterator[tuple[bytes, bytes]]:
        """The rows whose keys start with the prefix, in key order, from a snapshot taken when the scan begins."""
        ...

    async def stats(self) -> StoreStats: ...

    async def close(self) -> None: ...


# For moves of slots between query nodes: a page is bounded, and `rest` continues it.
class EntryPage(NamedTuple):
    """Some entries of a range, and where to go on; empty when there are no more."""

    entries: list[tuple[bytes, IndexValue]]
    rest: bytes


class RangedStore(IndexStore, Protocol):
    """An IndexStore that can list and drop a range of digests, given by prefixes; an empty `end` is the last one."""

    async def entries(self, start: bytes, end: bytes, *, limit: int) -> EntryPage:
        """Reads up to `limit` entries from `start` on: the prefix of a digest, or `rest` of another page."""
        ...

    async def drop(self, start: bytes, end: bytes, *, limit: int) -> int:
        """Deletes up to `limit` entries and returns how many. Their contexts stay."""
        ...


class PublisherSource(Protocol):
    """One publisher's chain, read over the network. Blocks are verified against their CID.

    NotFound: the publisher does not have it. Invalid: it is wrong or exceeds a bound, and a retry is useless.
    Unavailable: the publisher is unreachable.
    """

    async def head(self) -> SignedHead | None:
        """The newest advertisement, signed by the publisher; None if it has published nothing."""
        ...

    async def block(self, cid: Cid, *, is_entries: bool) -> bytes: ...


class PublisherSources(Protocol):
    def open(self, publisher: Peer) -> PublisherSource:
        """Invalid if none of its addresses can be read from."""
        ...


class FindApi(Protocol):
    """The find API: of an indexer, or of the query frontend of a keyspace."""

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
        """Queues the announcement and returns; a repeated one causes no traffic."""
        ...

    async def register(self, peer: Peer, sequence: int) -> None:
        """New addresses of a provider, from a signed peer record."""
        ...

    def sync_status(self, publisher: str | None = None) -> Mapping[str, object]:
        """Status by publisher in storetheindex's shape, with the distance to the head added."""
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
        """Reloads policy and limits from the settings."""
        ...


class IndexerApi(FindApi, IngestApi, AdminApi, Protocol):
    """All three APIs of an indexer, for an application that serves them on one port."""
