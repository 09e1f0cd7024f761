"""Keys of every type sign what other implementations verify; peer ids are derived from them."""

import pytest

from argosy.base.errors import Invalid
from argosy.ipni.formats.peer import Kind, PrivateKey, PublicKey, parse_peer, peer_bytes, peer_of_bytes
from argosy.ipni.formats.varint import encode_message, last_fields
from tests.ipni.formats.samples import KEY, PEER, PUBLIC_HEX

KINDS: list[Kind] = ["ed25519", "rsa", "secp256k1", "ecdsa"]


def test_the_known_key_has_the_known_public_half_and_id() -> None:
    assert KEY.public.to_protobuf().hex() == PUBLIC_HEX
    assert KEY.peer_id == KEY.public.peer_id == PEER
    assert KEY.to_protobuf().hex().startswith("08011240d2343878")


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_of_any_kind_signs_and_is_read_back(kind: Kind) -> None:
    key = PrivateKey.generate(kind)
    public = PublicKey.from_protobuf(key.public.to_protobuf())
    assert PrivateKey.from_protobuf(key.to_protobuf()).public == public == key.public
    signature = key.sign(b"data")
    assert public.kind == kind
    assert public.verify(b"data", signature)
    assert not public.verify(b"other", signature)
    assert not public.verify(b"data", signature[:-1])
    assert not public.verify(b"data", b"")
    assert not PrivateKey.generate(kind).public.verify(b"data", signature)


@pytest.mark.parametrize(("kind", "begin"), [("ed25519", "12D3KooW"), ("secp256k1", "16Uiu2HA"), ("rsa", "Qm")])
def test_an_id_reveals_the_type_of_its_key(kind: Kind, begin: str) -> None:
    key = PrivateKey.generate(kind)
    assert key.peer_id.startswith(begin)
    assert peer_of_bytes(peer_bytes(key.peer_id)) == key.peer_id


@pytest.mark.parametrize("kind", ["ed25519", "secp256k1", "ecdsa"])
def test_the_same_bytes_give_the_same_key(kind: Kind) -> None:
    assert PrivateKey.generate(kind, b"\x07" * 32).public == PrivateKey.generate(kind, b"\x07" * 32).public
    with pytest.raises(Invalid, match="32 bytes, not 3"):
        PrivateKey.generate(kind, b"abc")


def test_the_old_form_of_an_ed25519_key_is_read() -> None:
    raw = KEY.to_protobuf()[4:]
    assert PrivateKey.from_protobuf(encode_message([(1, 1), (2, raw + raw[32:])])).public == KEY.public


def test_a_secp256k1_signature_has_the_form_that_all_readers_accept() -> None:
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
    key = PrivateKey.generate("secp256k1")
    signatures = [decode_dss_signature(key.sign(bytes([n]))) for n in range(20)]
    assert [s for _, s in signatures if s > order // 2] == []


def test_a_private_key_does_not_show_itself() -> None:
    assert repr(KEY) == f"<private key of {PEER}>"


def test_a_peer_id_is_read_in_its_cid_form_too() -> None:
    assert (
        parse_peer("bafzbeihcifmg5gnwepjyfrs2fzpnzeqpdtpsau6dffb2wjgewkosvx6bti")
        == "QmdZre8ojuCjqQMgfryVF7uXAz5kWFD1uzY5jiNfFrVUMP"
    )


@pytest.mark.parametrize("text", ["", "Qm", "1", "12D3KooW", "bafkreehdwdcefgh4dqkjv67uzcmw7oje", "0x00", PEER + "1"])
def test_an_invalid_peer_id_is_rejected(text: str) -> None:
    with pytest.raises(Invalid):
        parse_peer(text)
    with pytest.raises(Invalid):
        peer_bytes(text)


@pytest.mark.parametrize(
    "message",
    ["", "0801", "08011220", "080412200000", "08011221" + "00" * 33, "08021221" + "00" * 33, "0a00", "08001200"],
)
def test_an_invalid_key_is_rejected(message: str) -> None:
    with pytest.raises(Invalid):
        PublicKey.from_protobuf(bytes.fromhex(message))
    with pytest.raises(Invalid):
        PrivateKey.from_protobuf(bytes.fromhex(message))


def test_a_key_of_another_type_than_declared_is_rejected() -> None:
    der = last_fields(PrivateKey.generate("ecdsa").public.to_protobuf())[2]
    with pytest.raises(Invalid, match="is not of kind rsa"):
        PublicKey.from_protobuf(encode_message([(1, 0), (2, der)]))


def test_a_short_rsa_key_is_refused() -> None:
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = generate_private_key(65537, 1024).public_key()
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    with pytest.raises(Invalid, match="1024 bits is refused"):
        PublicKey.from_protobuf(encode_message([(1, 0), (2, der)]))
