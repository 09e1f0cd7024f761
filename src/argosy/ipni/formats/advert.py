"""Advertisements: the links of a publisher's chain, each saying what a provider has, has changed, or has no more."""

from dataclasses import dataclass

from argosy.ipni.formats.cid import Cid


@dataclass(frozen=True)
class AdvertPeer:
    """An extended provider as an advertisement names it; `signature` is its own envelope."""

    id: str
    addresses: tuple[str, ...]
    metadata: bytes
    signature: bytes = b""


@dataclass(frozen=True)
class AdvertExtension:
    peers: tuple[AdvertPeer, ...]
    is_override: bool = False


@dataclass(frozen=True)
class Advert:
    """`entries` is NO_ENTRIES where there are none."""

    provider: str
    addresses: tuple[str, ...]
    entries: Cid
    context: bytes
    metadata: bytes
    is_removal: bool = False
    previous: Cid | None = None
    extension: AdvertExtension | None = None
    signature: bytes = b""
