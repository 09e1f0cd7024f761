"""Peer ids: the hash of a public key, or the key itself where it is short.

The normal form is base58 without a multibase letter (`12D3KooW…`, `Qm…`); ids are compared as such texts.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

from argosy.base.errors import Invalid
from argosy.ipni.formats import cid, multihash
from argosy.ipni.formats.bases import base58, from_base58

if TYPE_CHECKING:
    from argosy.ipni.formats.keys import PublicKey

INLINE_BYTES_MAX = 42  # a key message up to this size is its own id
CACHED_IDS = 16384  # an indexer meets a few thousand peers again and again


def peer_id(public: "PublicKey") -> str:
    return id_of_key(public.to_protobuf())


def id_of_key(message: bytes) -> str:
    """From the key's protobuf message."""
    code = multihash.IDENTITY if len(message) <= INLINE_BYTES_MAX else multihash.SHA2_256
    return base58(multihash.of(message, code))


@lru_cache(CACHED_IDS)
def peer_bytes(id: str) -> bytes:
    """The multihash that the id is."""
    data = from_base58(parse_peer(id))
    _check(data)
    return data


@lru_cache(CACHED_IDS)
def peer_of_bytes(data: bytes) -> str:
    _check(data)
    return base58(data)


@lru_cache(CACHED_IDS)
def parse_peer(text: str) -> str:
    """In its normal form; the CID form (`bafz…`) is read too. Invalid says what one looks like."""
    try:
        data = from_base58(text) if text.startswith(("Qm", "1")) else _multihash_of_cid(text)
        _check(data)
    except Invalid:
        raise Invalid(f"{text[:80]!r} is no peer id: one looks like 12D3KooW… or Qm…, or as a CID bafz…") from None
    return base58(data)


def _multihash_of_cid(text: str) -> bytes:
    key = cid.parse(text)
    if key.codec != cid.LIBP2P_KEY:
        raise Invalid(f"it is a CID of codec {key.codec:#x}")
    return key.multihash


def _check(data: bytes) -> None:
    code, digest = multihash.split(data)
    match code:
        case multihash.SHA2_256 if len(digest) == 32:
            return
        case multihash.IDENTITY if len(digest) <= INLINE_BYTES_MAX:
            return
    raise Invalid(f"{data.hex()[:80]} is not a peer id: it is a sha2-256, or a key of up to {INLINE_BYTES_MAX} bytes")
