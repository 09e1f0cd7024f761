"""Advertisements: the links of a publisher's chain. Each states content that a provider has, has changed or has
removed.

The signature covers everything but the context and the extended providers; these have signatures of their own, which
cover the context too. Without extended providers the context is protected only by the chain of CIDs up to the signed
head: a block that is changed has another CID.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from argosy.base.errors import Invalid
from argosy.ipni.formats import dag, envelope, multihash, varint
from argosy.ipni.formats.cid import DAG_JSON, Cid
from argosy.ipni.formats.node import (
    Fields,
    Node,
    as_map,
    bool_field,
    bytes_field,
    link_field,
    list_field,
    optional_link,
    text_field,
    text_list_field,
)
from argosy.ipni.formats.peer import PrivateKey, parse_peer
from argosy.ipni.model import CONTEXT_BYTES_MAX, METADATA_BYTES_MAX

# These are signed as part of the envelope, byte for byte as go-libipni writes them.
DOMAIN = "indexer"
SIGNATURE_KIND = b"/indexer/ingest/adSignature"
EXTENDED_SIGNATURE_KIND = b"/indexer/ingest/extendedProviderSignature"
# Each is stored with the provider and repeated in every result of a find.
ADDRESSES_MAX = 1000
EXTENDED_PEERS_MAX = 256  # each costs the verification of a signature
SIGNATURE_BYTES_MAX = 16384  # the largest key and signature take less; a legacy payload holds the signed text itself


@dataclass(frozen=True)
class AdvertisementPeer:
    """An extended provider in an advertisement; `signature` is its own envelope."""

    id: str
    addresses: tuple[str, ...]
    metadata: bytes
    signature: bytes = b""
    id_text: str = ""  # the id as the block writes it, if that is not its normal form


@dataclass(frozen=True)
class AdvertisementExtension:
    peers: tuple[AdvertisementPeer, ...]
    is_override: bool = False


@dataclass(frozen=True)
class Advertisement:
    """`entries` is NO_ENTRIES where there are none."""

    provider: str
    addresses: tuple[str, ...]
    entries: Cid
    context: bytes
    metadata: bytes
    is_removal: bool = False
    previous: Cid | None = None
    extension: AdvertisementExtension | None = None
    signature: bytes = b""
    provider_text: str = ""  # the id as the block writes it, if that is not its normal form: this text is signed


def encode(ad: Advertisement, codec: int = DAG_JSON) -> tuple[Cid, bytes]:
    """The block and its CID; raises Invalid for an advertisement that no reader would accept."""
    node: dict[str, Node] = {
        "Provider": ad.provider_text or ad.provider,
        "Addresses": list(ad.addresses),
        "Entries": ad.entries,
        "ContextID": ad.context,
        "Metadata": ad.metadata,
        "IsRm": ad.is_removal,
        "Signature": ad.signature,
    }
    if ad.previous is not None:
        node["PreviousID"] = ad.previous
    if ad.extension is not None:
        peers: list[Node] = [_peer_node(each) for each in ad.extension.peers]
        node["ExtendedProvider"] = {"Providers": peers, "Override": ad.extension.is_override}
    _ad_from_node(node)  # the reader's limits hold for the writer: a block that is too large would stop its chain
    return dag.encode(node, codec)


def _peer_node(each: AdvertisementPeer) -> Node:
    return {
        "ID": each.id_text or each.id,
        "Addresses": list(each.addresses),
        "Metadata": each.metadata,
        "Signature": each.signature,
    }


def is_advertisement(node: Node) -> bool:
    """Whether a block of a chain is an advertisement, not entries."""
    return isinstance(node, dict) and "Signature" in node


def decode(cid: Cid, data: bytes) -> Advertisement:
    """The fields, not verified; see `signer`."""
    return _ad_from_node(dag.decode_map(cid, data))


def _ad_from_node(node: Fields) -> Advertisement:
    text = text_field(node, "Provider")
    id, id_text = _id(text)
    return Advertisement(
        provider=id,
        addresses=text_list_field(node, "Addresses", ADDRESSES_MAX),
        entries=link_field(node, "Entries"),
        context=bytes_field(node, "ContextID", CONTEXT_BYTES_MAX),
        metadata=bytes_field(node, "Metadata", METADATA_BYTES_MAX),
        is_removal=bool_field(node, "IsRm"),
        previous=optional_link(node, "PreviousID"),
        extension=_extension(node["ExtendedProvider"]) if "ExtendedProvider" in node else None,
        signature=bytes_field(node, "Signature", SIGNATURE_BYTES_MAX),
        provider_text=id_text,
    )


def _id(text: str) -> tuple[str, str]:
    # The signature covers the text as written, so a form other than the normal one is remembered.
    id = parse_peer(text)
    return id, "" if id == text else text


def _extension(value: Node) -> AdvertisementExtension:
    node = as_map(value, "ExtendedProvider")
    peers = list_field(node, "Providers")
    # Before any is decoded.
    if len(peers) > EXTENDED_PEERS_MAX:
        raise Invalid(f"there are {len(peers)} extended providers: up to {EXTENDED_PEERS_MAX} are taken")
    return AdvertisementExtension(tuple(_peer(each) for each in peers), bool_field(node, "Override"))


def _peer(value: Node) -> AdvertisementPeer:
    node = as_map(value, "Providers")
    id, id_text = _id(text_field(node, "ID"))
    return AdvertisementPeer(
        id=id,
        addresses=text_list_field(node, "Addresses", ADDRESSES_MAX),
        # The specification calls it optional, the schema of go-libipni does not: both forms occur.
        metadata=bytes_field(node, "Metadata", METADATA_BYTES_MAX) if "Metadata" in node else b"",
        signature=bytes_field(node, "Signature", SIGNATURE_BYTES_MAX),
        id_text=id_text,
    )


def sign(ad: Advertisement, key: PrivateKey, extended_keys: Sequence[PrivateKey] = ()) -> Advertisement:
    """Signs with the key, and each extended provider's part with that provider's key, which must be among the keys."""
    extension = ad.extension
    if extension is not None:
        _check_extension(ad)
        keys = {each.peer_id: each for each in (key, *extended_keys)}
        missing = [each.id for each in extension.peers if each.id not in keys]
        # Checked before anything is signed, so that all missing keys are named in one message.
        if missing:
            raise Invalid(f"the keys of extended providers are missing: {', '.join(missing)}")
        peers = tuple(_sign_peer(ad, each, keys[each.id]) for each in extension.peers)
        extension = replace(extension, peers=peers)
    payload = _sha256_multihash(b"".join(_signable(ad)))
    signature = envelope.seal(payload, kind=SIGNATURE_KIND, domain=DOMAIN, key=key)
    return replace(ad, extension=extension, signature=signature)


def _sign_peer(ad: Advertisement, each: AdvertisementPeer, key: PrivateKey) -> AdvertisementPeer:
    payload = _sha256_multihash(b"".join(_signable_peer(ad, each)))
    return replace(each, signature=envelope.seal(payload, kind=EXTENDED_SIGNATURE_KIND, domain=DOMAIN, key=key))


def signer(ad: Advertisement) -> str:
    """The peer that signed it. Raises Invalid if any signature in it is wrong.

    Whether this peer may publish for the provider is decided by `indexer.policy`.
    """
    # The context is not in what is signed (a gap of the protocol): the CID chain up to the signed head protects it.
    opened = envelope.unseal(ad.signature, kind=SIGNATURE_KIND, domain=DOMAIN)
    _check_payload(opened.payload, b"".join(_signable(ad)), f"the advertisement of {ad.provider}")
    if ad.extension is not None:
        _check_extension(ad)
        for each in ad.extension.peers:
            _check_peer(ad, each)
    return opened.signer


def _check_extension(ad: Advertisement) -> None:
    assert ad.extension is not None
    ids = {each.id for each in ad.extension.peers}
    # A rule of the specification; an empty list, which removes all extended providers, is exempt.
    if ids and ad.provider not in ids:
        raise Invalid(f"the provider {ad.provider} is not among its own extended providers")


def _check_peer(ad: Advertisement, each: AdvertisementPeer) -> None:
    opened = envelope.unseal(each.signature, kind=EXTENDED_SIGNATURE_KIND, domain=DOMAIN)
    # storetheindex accepts any key here, so a publisher could add a provider that never agreed (decision 29).
    if opened.signer != each.id:
        raise Invalid(f"the extended provider {each.id} is signed by {opened.signer}")
    _check_payload(opened.payload, b"".join(_signable_peer(ad, each)), f"the extended provider {each.id}")


def _check_payload(payload: bytes, signable: bytes, what: str) -> None:
    # A payload of another length is the legacy form: the signed bytes themselves, framed as a multihash.
    hashed = _sha256_multihash(signable)
    expected = (
        hashed if len(payload) == len(hashed) else varint.encode(multihash.SHA2_256) + varint.encode_bytes(signable)
    )
    if payload != expected:
        raise Invalid(f"what was signed is not {what}")


def _sha256_multihash(signable: bytes) -> bytes:
    return multihash.wrap(multihash.SHA2_256, sha256(signable).digest())


# The order and the scope of the signed bytes follow go-libipni; where the specification's text differs, all existing
# chains follow the code. Addresses are concatenated without a separator.


def _signable(ad: Advertisement) -> Iterator[bytes]:
    if ad.previous is not None:
        yield ad.previous.bytes
    yield ad.entries.bytes
    yield (ad.provider_text or ad.provider).encode()
    yield from (address.encode() for address in ad.addresses)
    yield ad.metadata
    yield _flag(ad.is_removal)


def _signable_peer(ad: Advertisement, each: AdvertisementPeer) -> Iterator[bytes]:
    assert ad.extension is not None
    if ad.previous is not None:
        yield ad.previous.bytes
    yield ad.entries.bytes
    yield (ad.provider_text or ad.provider).encode()
    yield ad.context
    yield (each.id_text or each.id).encode()
    yield from (address.encode() for address in each.addresses)
    yield each.metadata
    yield _flag(ad.extension.is_override)


def _flag(value: bool) -> bytes:
    return b"\x01" if value else b"\x00"
