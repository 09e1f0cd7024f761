"""The signed head of a publisher's chain: its newest advertisement, and the publisher's word for it."""

from dataclasses import dataclass

from argosy.base.errors import Invalid
from argosy.ipni.formats import dag_json, fields
from argosy.ipni.formats.cid import Cid
from argosy.ipni.formats.keys import PrivateKey, PublicKey
from argosy.ipni.formats.node import Node

TOPIC = "/indexer/ingest/mainnet"
HEAD_BYTES_MAX = 16384  # one with the largest RSA key and signature has under 4096


@dataclass(frozen=True)
class SignedHead:
    """`signer` is the peer id of the key in it, whose signature has been checked."""

    head: Cid
    signer: str
    topic: str = ""


def sign(head: Cid, key: PrivateKey, topic: str = TOPIC) -> bytes:
    """As dag-json; without a topic if that is empty."""
    node: dict[str, Node] = {
        "head": head,
        "pubkey": key.public.to_protobuf(),
        "sig": key.sign(_signable(head, topic)),
    }
    if topic:
        node["topic"] = topic
    return dag_json.encode(node)


def decode(data: bytes) -> SignedHead:
    """Invalid if the signature in it is not that of the key in it; whose key it should be is for the caller to say."""
    if len(data) > HEAD_BYTES_MAX:
        raise Invalid(f"a head of {len(data)} bytes is longer than {HEAD_BYTES_MAX}")
    node = fields.mapping(dag_json.decode(data), "head")
    head = fields.link(node, "head")
    topic = fields.text(node, "topic") if "topic" in node else ""
    public = PublicKey.from_protobuf(fields.content(node, "pubkey"))
    if not public.verify(_signable(head, topic), fields.content(node, "sig")):
        raise Invalid(f"the signature of {public.peer_id} under the head {head} is wrong")
    return SignedHead(head, public.peer_id, topic)


def _signable(head: Cid, topic: str) -> bytes:
    return head.bytes + topic.encode()
