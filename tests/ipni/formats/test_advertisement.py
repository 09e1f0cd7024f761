"""Advertisements and their signatures, compared with those of other implementations."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.ipni.formats import advertisement, cid, dag, dag_cbor, dag_json, envelope, varint
from argosy.ipni.formats.advertisement import Advertisement, AdvertisementExtension, AdvertisementPeer
from argosy.ipni.formats.cid import DAG_CBOR, DAG_JSON, NO_ENTRIES
from argosy.ipni.formats.head import decode_head
from argosy.ipni.formats.peer import Kind, PrivateKey
from tests.ipni.formats import samples
from tests.ipni.formats.samples import KEY, PEER

OTHER = PrivateKey.generate("ed25519", b"\x02" * 32)
PLAIN = Advertisement(
    PEER, ("/ip4/1.2.3.4/tcp/1",), cid.of(b"entries"), b"ctx", b"\x80\x12", previous=cid.of(b"previous")
)
EXTENDED = replace(
    PLAIN,
    extension=AdvertisementExtension(
        (AdvertisementPeer(PEER, ("/dns/a/http",), b"\x80\x12"), AdvertisementPeer(OTHER.peer_id, (), b"")),
        is_override=True,
    ),
)


@pytest.mark.parametrize("name", samples.ADVERTS)
def test_advertisements_of_others_are_signed_by_their_provider(name: str) -> None:
    decoded = advertisement.decode(*samples.block(name))
    assert advertisement.signer(decoded) == decoded.provider


@pytest.mark.parametrize("name", [samples.AD, samples.EXTENDED, samples.SIMPLE])
def test_a_block_of_another_implementation_round_trips_byte_for_byte(name: str) -> None:
    block = samples.block(name)
    dag.check(*block)
    assert advertisement.encode(advertisement.decode(*block)) == block


def test_our_signature_equals_that_of_other_implementations() -> None:
    theirs = advertisement.decode(*samples.block(samples.AD))
    assert advertisement.sign(replace(theirs, signature=b""), KEY) == theirs
    assert len(theirs.signature) == 169


def test_an_advertisement_of_go_is_read_as_it_was_published() -> None:
    """Printed as dag-json; published as dag-cbor under blake2b-256, its keys in the order of their letters alone."""
    head = decode_head(samples.block("go-documented-head")[1])
    decoded = advertisement.decode(*samples.block("go-documented"))
    assert head.signer == decoded.provider
    fields = dag_json.decode(samples.block("go-documented")[1])
    assert isinstance(fields, dict)
    parts = [dag_cbor.encode(key) + dag_cbor.encode(fields[key]) for key in sorted(fields)]
    block = bytes([0xA0 + len(parts)]) + b"".join(parts)
    dag.check(head.head, block)
    assert advertisement.decode(head.head, block) == decoded


def test_a_provider_spelled_as_a_cid_is_known_by_its_usual_id() -> None:
    name, data = samples.block("go-rsa")
    decoded = advertisement.decode(name, data)
    assert decoded.provider == "QmdZre8ojuCjqQMgfryVF7uXAz5kWFD1uzY5jiNfFrVUMP"
    assert dag_json.decode(advertisement.encode(decoded)[1]) == dag_json.decode(data)


@pytest.mark.parametrize("codec", [DAG_JSON, DAG_CBOR])
@pytest.mark.parametrize("kind", ["ed25519", "rsa", "secp256k1", "ecdsa"])
def test_an_advertisement_is_signed_and_read_by_any_kind_of_key(kind: Kind, codec: int) -> None:
    key = PrivateKey.generate(kind)
    signed = advertisement.sign(replace(PLAIN, provider=key.peer_id), key)
    read = advertisement.decode(*advertisement.encode(signed, codec))
    assert read == signed
    assert advertisement.signer(read) == key.peer_id


def test_a_publisher_signs_for_a_provider() -> None:
    assert advertisement.signer(advertisement.sign(PLAIN, OTHER)) == OTHER.peer_id


@pytest.mark.parametrize(
    "changed",
    [
        {"is_removal": True}, {"provider": OTHER.peer_id}, {"addresses": ()}, {"entries": NO_ENTRIES},
        {"metadata": b""}, {"previous": None}, {"previous": NO_ENTRIES}, {"signature": b""}, {"signature": b"\x0a\x00"},
    ],
)  # fmt: skip
def test_a_changed_advertisement_is_refused(changed: dict[str, object]) -> None:
    signed = advertisement.sign(PLAIN, KEY)
    with pytest.raises(Invalid):
        advertisement.signer(replace(signed, **changed))  # type: ignore[arg-type]


@settings(deadline=None)
@given(st.integers(0, 168), st.integers(1, 255))
def test_no_byte_of_the_envelope_can_be_changed(at: int, change: int) -> None:
    signed = advertisement.sign(PLAIN, KEY)
    envelope = bytearray(signed.signature)
    envelope[at] ^= change
    with pytest.raises(Invalid):
        advertisement.signer(replace(signed, signature=bytes(envelope)))


def test_the_old_form_of_the_signature_is_read() -> None:
    """The old form contains the text itself instead of its hash."""
    assert PLAIN.previous is not None
    signable = (
        PLAIN.previous.bytes + PLAIN.entries.bytes + PEER.encode() + b"/ip4/1.2.3.4/tcp/1" + PLAIN.metadata + b"\0"
    )
    payload = b"\x12" + varint.encode_bytes(signable)
    sealed = envelope.seal(payload, kind=advertisement.SIGNATURE_KIND, domain=advertisement.DOMAIN, key=KEY)
    old = replace(PLAIN, signature=sealed)
    assert advertisement.signer(old) == PEER
    with pytest.raises(Invalid, match="what was signed is not"):
        advertisement.signer(replace(old, is_removal=True))


def test_extended_providers_sign_for_themselves() -> None:
    signed = advertisement.sign(EXTENDED, KEY, [OTHER])
    read = advertisement.decode(*advertisement.encode(signed))
    assert read == signed
    assert advertisement.signer(read) == PEER
    with pytest.raises(Invalid, match=f"are missing: {OTHER.peer_id}"):
        advertisement.sign(EXTENDED, KEY)


def test_an_extended_provider_signed_by_another_is_refused() -> None:
    """Trap 1: the reference takes any key."""
    signed = advertisement.sign(EXTENDED, KEY, [OTHER])
    assert signed.extension is not None
    main, other = signed.extension.peers
    stranger = PrivateKey.generate()
    as_stranger = replace(EXTENDED.extension, peers=(main, replace(other, id=stranger.peer_id)))  # type: ignore[type-var]
    forged = advertisement.sign(replace(EXTENDED, extension=as_stranger), KEY, [stranger]).extension
    assert forged is not None
    peers = (main, replace(other, signature=forged.peers[1].signature))
    with pytest.raises(Invalid, match=f"is signed by {stranger.peer_id}"):
        advertisement.signer(replace(signed, extension=AdvertisementExtension(peers, is_override=True)))


@pytest.mark.parametrize("changed", [{"addresses": ("/dns/b/http",)}, {"metadata": b"x"}])
def test_a_changed_extended_provider_is_refused(changed: dict[str, object]) -> None:
    signed = advertisement.sign(EXTENDED, KEY, [OTHER])
    assert signed.extension is not None
    main, other = signed.extension.peers
    extension = replace(signed.extension, peers=(main, replace(other, **changed)))  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="what was signed is not the extended provider"):
        advertisement.signer(replace(signed, extension=extension))


def test_the_context_and_the_override_of_extended_providers_are_signed() -> None:
    signed = advertisement.sign(EXTENDED, KEY, [OTHER])
    assert signed.extension is not None
    extension = replace(signed.extension, is_override=False)
    for changed in (replace(signed, context=b"other"), replace(signed, extension=extension)):
        with pytest.raises(Invalid, match="what was signed is not the extended provider"):
            advertisement.signer(changed)


def test_a_provider_must_be_among_its_extended_providers_unless_there_are_none() -> None:
    alone = replace(PLAIN, extension=AdvertisementExtension((AdvertisementPeer(OTHER.peer_id, (), b""),)))
    with pytest.raises(Invalid, match="not among its own"):
        advertisement.sign(alone, KEY, [OTHER])
    assert advertisement.signer(advertisement.sign(replace(PLAIN, extension=AdvertisementExtension(())), KEY)) == PEER


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("Provider", None, "Provider"), ("Provider", "nobody", "no peer id"), ("Addresses", "x", "Addresses"),
        ("Addresses", [1], "list of texts"), ("Addresses", ["/ws"] * 1001, "up to 1000"), ("Entries", "x", "Entries"),
        ("ContextID", b"x" * 65, "up to 64"), ("ContextID", "x", "ContextID"), ("Metadata", b"x" * 1025, "up to 1024"),
        ("IsRm", 0, "IsRm"), ("PreviousID", None, "PreviousID"), ("Signature", b"x" * 16385, "up to 16384"),
        ("ExtendedProvider", [], "ExtendedProvider"),
        ("ExtendedProvider", {"Providers": [], "Override": 1}, "Override"),
        ("ExtendedProvider", {"Providers": [1], "Override": False}, "Providers"),
        ("ExtendedProvider", {"Providers": [{}] * 257, "Override": False}, "up to 256"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named(field: str, value: object, message: str) -> None:
    node = dag_cbor.decode(advertisement.encode(advertisement.sign(PLAIN, KEY), DAG_CBOR)[1])
    assert isinstance(node, dict)
    node[field] = value  # type: ignore[assignment]
    with pytest.raises(Invalid, match=message):
        advertisement.decode(*dag.encode(node, DAG_CBOR))


@pytest.mark.parametrize("field", ["Provider", "Addresses", "Entries", "ContextID", "Metadata", "IsRm", "Signature"])
def test_a_missing_field_is_named(field: str) -> None:
    node = dag_cbor.decode(advertisement.encode(advertisement.sign(PLAIN, KEY), DAG_CBOR)[1])
    assert isinstance(node, dict)
    del node[field]
    with pytest.raises(Invalid, match=field):
        advertisement.decode(*dag.encode(node, DAG_CBOR))


def test_an_extended_provider_without_metadata_is_read() -> None:
    node = dag_cbor.decode(advertisement.encode(EXTENDED, DAG_CBOR)[1])
    match node:
        case {"ExtendedProvider": {"Providers": [_, dict(other)]}}:
            del other["Metadata"]
    extension = advertisement.decode(*dag.encode(node, DAG_CBOR)).extension
    assert extension is not None
    assert extension.peers[1].metadata == b""


def test_an_advertisement_no_reader_would_accept_is_not_written() -> None:
    with pytest.raises(Invalid, match="ContextID has 65 bytes"):
        advertisement.encode(replace(PLAIN, context=b"x" * 65))


def test_an_advertisement_is_distinguished_from_entries() -> None:
    assert advertisement.is_advertisement(dag_json.decode(samples.block(samples.AD)[1]))
    assert not advertisement.is_advertisement(dag_json.decode(samples.block(samples.CHUNK_HEAD)[1]))


@settings(deadline=None)
@given(st.binary(max_size=64), st.binary(max_size=100), st.lists(st.just("/dns/a/http"), max_size=3), st.booleans())
def test_any_advertisement_is_read_back(
    context: bytes, metadata: bytes, addresses: list[str], is_removal: bool
) -> None:
    decoded = Advertisement(PEER, tuple(addresses), NO_ENTRIES, context, metadata, is_removal)
    signed = advertisement.sign(decoded, KEY)
    for codec in (DAG_JSON, DAG_CBOR):
        assert advertisement.decode(*advertisement.encode(signed, codec)) == signed
    assert advertisement.signer(signed) == PEER
