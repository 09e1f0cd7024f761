"""What an indexer knows: which provider has which content, in which context, and what it knows of the provider.

Peer ids are texts in their usual form (`12D3KooW…`), multiaddrs are texts, multihashes and context ids are bytes. A
time is in seconds since 1970.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from argosy.ipni.formats.cid import Cid

CONTEXT_BYTES_MAX = 64
METADATA_BYTES_MAX = 1024


@dataclass(frozen=True)
class Peer:
    """Somebody, and where to reach them."""

    id: str
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True)
class IndexValue:
    """What a multihash leads to: under one (provider, context) there is one metadata for all multihashes."""

    provider: str
    context: bytes
    metadata: bytes


@dataclass(frozen=True)
class ExtendedPeer:
    """Another provider of the same content; empty metadata means the value's own."""

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
    """Every advertisement that has a set replaces all of it, for the chain and for contexts together."""

    chain: tuple[ExtendedPeer, ...] = ()
    contexts: Mapping[bytes, ContextSet] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Provider:
    """What an indexer knows of one provider, and how far it has come with it."""

    id: str
    addresses: tuple[str, ...] = ()
    publisher: Peer | None = None
    last_ad: Cid | None = None  # the newest advertisement that was applied in full
    last_ad_at: float = 0.0
    lag: int = 0  # advertisements known and not yet applied
    extended: ExtendedProviders = field(default_factory=ExtendedProviders)
    frozen_at: Cid | None = None  # the last advertisement applied in full before the indexer froze
    frozen_at_time: float = 0.0
    is_inactive: bool = False  # hidden from finds: not heard of for long
    last_error: str = ""
    last_error_at: float = 0.0


@dataclass(frozen=True)
class ProviderResult:
    """One line of an answer: a provider that has the content."""

    context: bytes
    metadata: bytes
    provider: Peer


@dataclass(frozen=True)
class Assignment:
    """A publisher on an indexer's allow-list; `continued` is the frozen indexer it was taken over from, or empty."""

    publisher: str
    continued: str = ""


@dataclass(frozen=True)
class IndexerStatus:
    """What an assigner and an operator ask first. `usage_percent` is -1 when it cannot be read."""

    id: str
    is_frozen: bool
    usage_percent: float


@dataclass(frozen=True)
class StoreStats:
    entries: int  # (multihash, value) pairs, as well as the engine can tell
    values: int
    disk_bytes: int
