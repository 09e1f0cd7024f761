"""The head of a chain: signed, as indexers read it from the publisher, and announced, as publishers send it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from argosy.base.errors import Invalid
from argosy.ipni.formats import dag_cbor, dag_json, multiaddr
from argosy.ipni.formats.bases import from_base64, padded_base64
from argosy.ipni.formats.cid import Cid
from argosy.ipni.formats.node import Node, as_map, bytes_field, link_field, text_field, text_list_field
from argosy.ipni.formats.peer import PrivateKey, PublicKey, parse_peer
from argosy.ipni.model import Peer

TOPIC = "/indexer/ingest/mainnet"
HEAD_BYTES_MAX = 16384  # a head with the largest RSA key and signature takes less than 4096


@dataclass(frozen=True)
class SignedHead:
    """A verified head; `signer` is the peer id of the key in it."""

    head: Cid
    signer: str
    topic: str = ""


def sign_head(head: Cid, key: PrivateKey, topic: str = TOPIC) -> bytes:
    """Encodes as dag-json; an empty topic is omitted."""
    node: dict[str, Node] = {
        "head": head,
        "pubkey": key.public.to_protobuf(),
        "sig": key.sign(_signable(head, topic)),
    }
    if topic:
        node["topic"] = topic
    return dag_json.encode(node)


def decode_head(data: bytes) -> SignedHead:
    """Raises Invalid if the signature is wrong. The caller compares `signer` with the publisher that it expects: the
    key is in the head itself, so a valid signature alone proves nothing."""
    if len(data) > HEAD_BYTES_MAX:
        raise Invalid(f"a head of {len(data)} bytes is longer than {HEAD_BYTES_MAX}")
    node = as_map(dag_json.decode(data), "head")
    head = link_field(node, "head")
    # Signed but not compared: the original does not check it either.
    topic = text_field(node, "topic") if "topic" in node else ""
    public = PublicKey.from_protobuf(bytes_field(node, "pubkey"))
    if not public.verify(_signable(head, topic), bytes_field(node, "sig")):
        raise Invalid(f"the signature of {public.peer_id} under the head {head} is wrong")
    return SignedHead(head, public.peer_id, topic)


def _signable(head: Cid, topic: str) -> bytes:
    return head.bytes + topic.encode()


ANNOUNCE_BYTES_MAX = 1 << 20  # as storetheindex
# Each is parsed before the announcement is accepted.
ANNOUNCE_ADDRESSES_MAX = 128


@dataclass(frozen=True)
class Announcement:
    """A hint that a publisher has a new head. On the wire every address ends in `/p2p/<id>` of the publisher; here the
    addresses are without that end."""

    head: Cid
    publisher: Peer
    extra: bytes = b""
    origin: str = ""  # the original publisher, if another peer forwards the announcement by gossip


def encode_announcement(announce: Announcement) -> bytes:
    """Encodes as CBOR."""
    addresses: list[Node] = list(_addresses(announce))
    node: list[Node] = [announce.head, addresses, announce.extra]
    if announce.origin:
        node.append(announce.origin)
    return dag_cbor.encode(node)


def encode_announcement_json(announce: Announcement) -> bytes:
    node = {
        "Cid": {"/": str(announce.head)},
        "Addrs": [padded_base64(each) for each in _addresses(announce)],
        "ExtraData": padded_base64(announce.extra) if announce.extra else None,
        "OrigPeer": announce.origin,
    }
    return json.dumps(node, separators=(",", ":")).encode()


def _addresses(announce: Announcement) -> list[bytes]:
    """Without a public address the publisher is still named: the receiver may know its address."""
    publisher = announce.publisher
    whole = [multiaddr.with_peer(each, publisher.id) for each in publisher.addresses] or [f"/p2p/{publisher.id}"]
    return [multiaddr.to_bytes(each) for each in whole]


def decode_announcement(data: bytes, is_json: bool) -> Announcement:
    """Skips addresses of unknown protocols; at least one address must remain, and all must end in the same peer."""
    if len(data) > ANNOUNCE_BYTES_MAX:
        raise Invalid(f"an announcement of {len(data)} bytes is longer than {ANNOUNCE_BYTES_MAX}")
    head, addresses, extra, origin = _json_parts(data) if is_json else _cbor_parts(data)
    if not isinstance(head, Cid):
        raise Invalid("an announcement names the CID of an advertisement")
    if not isinstance(addresses, list) or len(addresses) > ANNOUNCE_ADDRESSES_MAX:
        raise Invalid(f"an announcement has a list of addresses, up to {ANNOUNCE_ADDRESSES_MAX}")
    if not isinstance(extra, bytes) or not isinstance(origin, str):
        raise Invalid("the extra data of an announcement is bytes, and its origin is text")
    publisher = _publisher([each if isinstance(each, bytes) else _refuse_address() for each in addresses])
    return Announcement(head, publisher, extra, parse_peer(origin) if origin else "")


def _refuse_address() -> bytes:
    raise Invalid("an address in an announcement is not bytes")


def _cbor_parts(data: bytes) -> tuple[Node, Node, Node, Node]:
    match dag_cbor.decode(data):
        case [head, addresses, extra]:
            return head, addresses, extra, ""
        case [head, addresses, extra, origin]:
            return head, addresses, extra, origin
    raise Invalid("an announcement in CBOR is a list of 3 or 4: CID, addresses, extra data, origin")


def _json_parts(data: bytes) -> tuple[Node, Node, Node, Node]:
    node = as_map(dag_json.decode(data), "announcement")
    addresses: list[Node] = [from_base64(each) for each in text_list_field(node, "Addrs", ANNOUNCE_ADDRESSES_MAX)]
    extra = node.get("ExtraData")
    if isinstance(extra, str):
        extra = from_base64(extra)
    return node.get("Cid"), addresses, extra or b"", node.get("OrigPeer") or ""


def _publisher(addresses: Sequence[bytes]) -> Peer:
    if not addresses:
        raise Invalid("an announcement has at least one address")
    # storetheindex drops unknown protocols too, but then reads the first element of an empty list and crashes.
    found = [each for each in map(_split, addresses) if each is not None]
    if not found:
        raise Invalid("every address in the announcement is of an unknown protocol: announce one of http or https")
    # One publisher per announcement: addresses of several would make it unclear whose head this is.
    ids = {id for _, id in found}
    if len(ids) != 1 or None in ids:
        raise Invalid("the addresses of an announcement all end in /p2p/ and the one id of the publisher")
    return Peer(str(ids.pop()), tuple(dict.fromkeys(text for text, _ in found if text)))


def _split(address: bytes) -> tuple[str, str | None] | None:
    try:
        return multiaddr.split_peer(multiaddr.to_text(address))
    except multiaddr.UnknownProtocol:
        return None
