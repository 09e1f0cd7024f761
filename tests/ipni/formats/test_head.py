"""The signed head."""

import pytest

from argosy.base.errors import Invalid
from argosy.ipni.formats import cid, dag_json
from argosy.ipni.formats.bases import from_base64
from argosy.ipni.formats.head import TOPIC, SignedHead, decode_head, sign_head
from argosy.ipni.formats.node import Node
from argosy.ipni.formats.peer import Kind, PrivateKey
from tests.ipni.formats import samples
from tests.ipni.formats.samples import KEY, PEER

HEAD = cid.parse("baguqeeraui7j6fjjdhumpsbud2hrebavzva4wh7ruedxtetjcehwqnwvmphq")
SIGNATURE = "RXiadUE3Y357kKYi7n0oj+l2/i4N5HoFO6OF2UACvqQY7SisLsHGFOMnbOImg+YwhR1z7f5ktR0XRFXPchNIAQ"


def fields(data: bytes) -> dict[str, Node]:
    node = dag_json.decode(data)
    assert isinstance(node, dict)
    return node


def test_our_signature_equals_that_of_other_implementations() -> None:
    assert fields(sign_head(HEAD, KEY, TOPIC))["sig"] == from_base64(SIGNATURE)


def test_a_head_of_go_is_read() -> None:
    read = decode_head(samples.block("go-documented-head")[1])
    assert read.signer == "12D3KooWGVwcVphAgpXjJWHoWyKZUrZsXyc34jeuUmG5nSRZyuQq"
    assert str(read.head) == "bafy2bzaceaceibjf5pottpm4ghfnu7jo7sjcqjom4vhzm5jmq7domxun5vor4"


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "secp256k1"])
@pytest.mark.parametrize("topic", [TOPIC, ""])
def test_a_head_is_read_back(kind: Kind, topic: str) -> None:
    key = PrivateKey.generate(kind)
    data = sign_head(HEAD, key, topic)
    assert decode_head(data) == SignedHead(HEAD, key.peer_id, topic)
    assert ("topic" in fields(data)) == bool(topic)


@pytest.mark.parametrize("change", [{"head": cid.of(b"other")}, {"topic": "/other"}, {"sig": b""}, {"pubkey": b""}])
def test_a_changed_head_is_refused(change: dict[str, Node]) -> None:
    with pytest.raises(Invalid):
        decode_head(dag_json.encode(fields(sign_head(HEAD, KEY)) | change))


def test_a_head_of_another_key_names_that_key() -> None:
    other = PrivateKey.generate()
    node = fields(sign_head(HEAD, KEY)) | {"pubkey": other.public.to_protobuf()}
    with pytest.raises(Invalid, match=f"the signature of {other.peer_id}"):
        decode_head(dag_json.encode(node))
    assert decode_head(sign_head(HEAD, KEY)).signer == PEER


def test_an_oversized_head_is_rejected_unparsed() -> None:
    with pytest.raises(Invalid, match="longer than 16384"):
        decode_head(b" " * 16385)
