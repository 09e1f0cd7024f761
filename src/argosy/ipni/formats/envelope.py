"""Signed envelopes of libp2p: a payload, its kind, and the key that signed both. Peer records are sealed in them.

The domain is signed too but not contained in the envelope: the verifier states it, so an envelope that was made for one
purpose cannot be used for another.
"""

from dataclasses import dataclass

from argosy.base.errors import Invalid
from argosy.ipni.formats import multiaddr, varint
from argosy.ipni.formats.peer import PrivateKey, PublicKey, peer_bytes, peer_of_bytes
from argosy.ipni.formats.varint import bytes_value, encode_message, int_value, last_fields, message_fields
from argosy.ipni.model import Peer

ENVELOPE_BYTES_MAX = 1 << 20  # as the largest HTTP body that carries one

_KEY, _KIND, _PAYLOAD, _SIGNATURE = 1, 2, 3, 5  # field numbers; 4 is unused


@dataclass(frozen=True)
class UnsealedEnvelope:
    """The content of an envelope whose signature is verified."""

    payload: bytes
    signer: str


def seal(payload: bytes, *, kind: bytes, domain: str, key: PrivateKey) -> bytes:
    signature = key.sign(_signable(domain, kind, payload))
    public = key.public.to_protobuf()
    return encode_message([(_KEY, public), (_KIND, kind), (_PAYLOAD, payload), (_SIGNATURE, signature)])


def unseal(envelope: bytes, *, kind: bytes, domain: str) -> UnsealedEnvelope:
    """Raises Invalid if it is of another kind, or not signed by the key in it."""
    if len(envelope) > ENVELOPE_BYTES_MAX:
        raise Invalid(f"an envelope of {len(envelope)} bytes is longer than {ENVELOPE_BYTES_MAX}")
    found = last_fields(envelope)
    public = PublicKey.from_protobuf(bytes_value(found, _KEY, "the key of an envelope"))
    if (found_kind := bytes_value(found, _KIND, "the kind of an envelope")) != kind:
        raise Invalid(f"the envelope is of kind {found_kind[:80]!r}, not {kind!r}")
    payload = bytes_value(found, _PAYLOAD, "the payload of an envelope")
    signature = bytes_value(found, _SIGNATURE, "the signature of an envelope")
    if not public.verify(_signable(domain, kind, payload), signature):
        raise Invalid(f"the signature of {public.peer_id} in the envelope is wrong")
    return UnsealedEnvelope(payload, public.peer_id)


def _signable(domain: str, kind: bytes, payload: bytes) -> bytes:
    return b"".join(varint.encode_bytes(part) for part in (domain.encode(), kind, payload))


RECORD_DOMAIN = "libp2p-peer-record"
RECORD_KIND = b"\x03\x01"  # the multicodec of libp2p peer records
# As for announcements.
RECORD_ADDRESSES_MAX = 128

_PEER, _SEQUENCE, _ADDRESS, _MULTIADDR = 1, 2, 3, 1  # field numbers; the last one within an address


@dataclass(frozen=True)
class PeerRecord:
    """A provider's signed addresses. `sequence` is nanoseconds since 1970 by convention; the indexer checks its age and
    order."""

    peer: Peer
    sequence: int


def sign_record(record: PeerRecord, key: PrivateKey) -> bytes:
    """Seals the record; the key must be the peer's own."""
    if key.peer_id != record.peer.id:
        raise Invalid(f"the record of {record.peer.id} cannot be signed by {key.peer_id}")
    addresses = [encode_message([(_MULTIADDR, multiaddr.to_bytes(each))]) for each in record.peer.addresses]
    payload = encode_message(
        [
            (_PEER, peer_bytes(record.peer.id)),
            (_SEQUENCE, record.sequence),
            *((_ADDRESS, each) for each in addresses),
        ]
    )
    return seal(payload, kind=RECORD_KIND, domain=RECORD_DOMAIN, key=key)


def decode_record(data: bytes) -> PeerRecord:
    """Raises Invalid unless the peer itself signed it. Addresses of unknown protocols are skipped."""
    opened = unseal(data, kind=RECORD_KIND, domain=RECORD_DOMAIN)
    found = list(message_fields(opened.payload))
    by_number = dict(found)
    id = peer_of_bytes(bytes_value(by_number, _PEER, "the id of a peer record"))
    # A peer may state only its own addresses.
    if id != opened.signer:
        raise Invalid(f"the record of {id} is signed by {opened.signer}")
    messages = [value for number, value in found if number == _ADDRESS and isinstance(value, bytes)]
    if len(messages) > RECORD_ADDRESSES_MAX:
        raise Invalid(f"the record has {len(messages)} addresses: up to {RECORD_ADDRESSES_MAX} are taken")
    addresses = tuple(text for text in map(_record_address, messages) if text)
    return PeerRecord(Peer(id, addresses), int_value(by_number, _SEQUENCE, "the sequence of a peer record"))


def _record_address(message: bytes) -> str | None:
    data = bytes_value(last_fields(message), _MULTIADDR, "an address of a peer record")
    try:
        return multiaddr.to_text(data)
    # One address of a newer protocol must not make the others unusable.
    except multiaddr.UnknownProtocol:
        return None
