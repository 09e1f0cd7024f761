"""Signed peer records: a provider's signed addresses, newer than any with a lower sequence number."""

from dataclasses import dataclass

from argosy.base.errors import Invalid
from argosy.ipni.formats import envelope, multiaddr, protobuf
from argosy.ipni.formats.keys import PrivateKey
from argosy.ipni.formats.peer import peer_bytes, peer_of_bytes
from argosy.ipni.model import Peer

DOMAIN = "libp2p-peer-record"
KIND = b"\x03\x01"
ADDRESSES_MAX = 128

_PEER, _SEQUENCE, _ADDRESS, _MULTIADDR = 1, 2, 3, 1


@dataclass(frozen=True)
class PeerRecord:
    """`sequence` is nanoseconds since 1970 by custom; its age and order are the registry's to judge."""

    peer: Peer
    sequence: int


def sign(record: PeerRecord, key: PrivateKey) -> bytes:
    """The envelope; the key must be the peer's own."""
    if key.peer_id != record.peer.id:
        raise Invalid(f"the record of {record.peer.id} cannot be signed by {key.peer_id}")
    addresses = [protobuf.encode([(_MULTIADDR, multiaddr.to_bytes(each))]) for each in record.peer.addresses]
    payload = protobuf.encode(
        [
            (_PEER, peer_bytes(record.peer.id)),
            (_SEQUENCE, record.sequence),
            *((_ADDRESS, each) for each in addresses),
        ]
    )
    return envelope.seal(payload, kind=KIND, domain=DOMAIN, key=key)


def decode(data: bytes) -> PeerRecord:
    """Invalid if anybody else than the peer signed it. Addresses of unknown protocols are passed over."""
    opened = envelope.unseal(data, kind=KIND, domain=DOMAIN)
    found = list(protobuf.fields(opened.payload))
    by_number = dict(found)
    id = peer_of_bytes(protobuf.content(by_number, _PEER, "the id of a peer record"))
    if id != opened.signer:
        raise Invalid(f"the record of {id} is signed by {opened.signer}")
    messages = [value for number, value in found if number == _ADDRESS and isinstance(value, bytes)]
    if len(messages) > ADDRESSES_MAX:
        raise Invalid(f"the record has {len(messages)} addresses: up to {ADDRESSES_MAX} are taken")
    addresses = tuple(text for text in map(_address, messages) if text)
    return PeerRecord(Peer(id, addresses), protobuf.number(by_number, _SEQUENCE, "the sequence of a peer record"))


def _address(message: bytes) -> str | None:
    data = protobuf.content(protobuf.last_fields(message), _MULTIADDR, "an address of a peer record")
    try:
        return multiaddr.to_text(data)
    except multiaddr.UnknownProtocol:
        return None
