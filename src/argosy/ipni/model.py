"""Data model of the content index: providers, and the content each of them has in its contexts.

Peer ids are texts in their usual form (`12D3KooW…`), multiaddrs are texts, multihashes and context ids are bytes.
Times are seconds since 1970.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from argosy.ipni.formats.cid import Cid

# Limits of the protocol; storetheindex rejects an advertisement that exceeds them.
CONTEXT_BYTES_MAX = 64
METADATA_BYTES_MAX = 1024


@dataclass(frozen=True)
class Peer:
    """A peer and its addresses."""

    id: str
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True)
class IndexValue:
    """The record stored for a multihash. Under one (provider, context) all multihashes have the same metadata."""

    provider: str
    context: bytes
    metadata: bytes


@dataclass(frozen=True)
class ExtendedPeer:
    """Another provider of the same content; empty metadata means that of the value."""

    id: str
    addresses: tuple[str, ...]
    metadata: bytes = b""


@dataclass(frozen=True)
class ContextSet:
    """The extended providers of one context; with `is_override` those of the whole chain are hidden for it."""

    peers: tuple[ExtendedPeer, ...]
    is_override: bool = False


@dataclass(frozen=True)
class ExtendedProviders:
    """Extended providers. An advertisement that carries a set replaces the whole set."""

    chain: tuple[ExtendedPeer, ...] = ()
    contexts: Mapping[bytes, ContextSet] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Provider:
    """An indexer's record of one provider, and how far its chain has been applied."""

    id: str
    addresses: tuple[str, ...] = ()
    publisher: Peer | None = None
    last_ad: Cid | None = None  # the newest advertisement that was applied in full
    last_ad_at: float = 0.0
    lag: int = 0  # advertisements known and not yet applied
    extended: ExtendedProviders = field(default_factory=ExtendedProviders)
    frozen_at: Cid | None = None  # the last advertisement applied in full before the indexer froze
    frozen_at_time: float = 0.0
    is_inactive: bool = False  # hidden from finds: no contact for a long time
    last_error: str = ""
    last_error_at: float = 0.0


@dataclass(frozen=True)
class ProviderResult:
    """One provider that has the content, as a line of a find's answer."""

    context: bytes
    metadata: bytes
    provider: Peer


@dataclass(frozen=True)
class Assignment:
    """A publisher on an indexer's allow list; `continued` is the id of the frozen indexer that it was handed off from,
    or empty."""

    publisher: str
    continued: str = ""


@dataclass(frozen=True)
class IndexerStatus:
    """Status of an indexer. `usage_percent` is -1 when it cannot be read."""

    id: str
    is_frozen: bool
    usage_percent: float


@dataclass(frozen=True)
class StoreStats:
    """Counts and sizes of an index store."""

    entries: int  # (multihash, value) pairs, as estimated by the engine
    values: int
    disk_bytes: int
