"""Announcements: "there is a new advertisement, and here is where to read it", as CBOR or JSON."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from argosy.base.errors import Invalid
from argosy.ipni.formats import dag_cbor, dag_json, fields, multiaddr
from argosy.ipni.formats.bases import from_base64, padded_base64
from argosy.ipni.formats.cid import Cid
from argosy.ipni.formats.node import Node
from argosy.ipni.formats.peer import parse_peer
from argosy.ipni.model import Peer

ANNOUNCE_BYTES_MAX = 1 << 20
ADDRESSES_MAX = 128


@dataclass(frozen=True)
class Announcement:
    """`publisher` is who all addresses end in (`/p2p/<id>`); its addresses here are without that end."""

    head: Cid
    publisher: Peer
    extra: bytes = b""
    origin: str = ""  # the first publisher, when somebody else passes it on by gossip


def encode(announce: Announcement) -> bytes:
    """As CBOR."""
    addresses: list[Node] = list(_addresses(announce))
    node: list[Node] = [announce.head, addresses, announce.extra]
    if announce.origin:
        node.append(announce.origin)
    return dag_cbor.encode(node)


def encode_json(announce: Announcement) -> bytes:
    node = {
        "Cid": {"/": str(announce.head)},
        "Addrs": [padded_base64(each) for each in _addresses(announce)],
        "ExtraData": padded_base64(announce.extra) if announce.extra else None,
        "OrigPeer": announce.origin,
    }
    return json.dumps(node, separators=(",", ":")).encode()


def _addresses(announce: Announcement) -> list[bytes]:
    """Who has no address that may be told is still named: the receiver may know where to read from."""
    publisher = announce.publisher
    whole = [multiaddr.with_peer(each, publisher.id) for each in publisher.addresses] or [f"/p2p/{publisher.id}"]
    return [multiaddr.to_bytes(each) for each in whole]


def decode(data: bytes, is_json: bool) -> Announcement:
    """Addresses of unknown protocols are passed over, if one is left; each must end in the same peer."""
    if len(data) > ANNOUNCE_BYTES_MAX:
        raise Invalid(f"an announcement of {len(data)} bytes is longer than {ANNOUNCE_BYTES_MAX}")
    head, addresses, extra, origin = _json_parts(data) if is_json else _cbor_parts(data)
    if not isinstance(head, Cid):
        raise Invalid("an announcement names the CID of an advertisement")
    if not isinstance(addresses, list) or len(addresses) > ADDRESSES_MAX:
        raise Invalid(f"an announcement has a list of addresses, up to {ADDRESSES_MAX}")
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
    node = fields.mapping(dag_json.decode(data), "announcement")
    addresses: list[Node] = [from_base64(each) for each in fields.texts(node, "Addrs", ADDRESSES_MAX)]
    extra = node.get("ExtraData")
    if isinstance(extra, str):
        extra = from_base64(extra)
    return node.get("Cid"), addresses, extra or b"", node.get("OrigPeer") or ""


def _publisher(addresses: Sequence[bytes]) -> Peer:
    if not addresses:
        raise Invalid("an announcement has one address at least")
    found = [each for each in map(_split, addresses) if each is not None]
    if not found:
        raise Invalid("every address in the announcement is of an unknown protocol: announce one of http or https")
    ids = {id for _, id in found}
    if len(ids) != 1 or None in ids:
        raise Invalid("the addresses of an announcement all end in /p2p/ and the one id of the publisher")
    return Peer(str(ids.pop()), tuple(dict.fromkeys(text for text, _ in found if text)))


def _split(address: bytes) -> tuple[str, str | None] | None:
    try:
        return multiaddr.split_peer(multiaddr.to_text(address))
    except multiaddr.UnknownProtocol:
        return None
