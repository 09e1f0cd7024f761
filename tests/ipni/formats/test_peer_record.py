"""The signed record in which a provider publishes its addresses."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.ipni.formats import envelope
from argosy.ipni.formats.envelope import RECORD_DOMAIN, RECORD_KIND, PeerRecord, decode_record, sign_record
from argosy.ipni.formats.peer import PrivateKey, peer_bytes
from argosy.ipni.formats.varint import encode_message, last_fields
from argosy.ipni.model import Peer
from tests.ipni.formats.samples import KEY, PEER

RECORD = PeerRecord(Peer(PEER, ("/ip4/1.2.3.4/tcp/1", "/dns/a/https")), 1_700_000_000_000_000_000)


def sealed(fields: list[tuple[int, int | bytes]], key: PrivateKey = KEY) -> bytes:
    return envelope.seal(encode_message(fields), kind=RECORD_KIND, domain=RECORD_DOMAIN, key=key)


@settings(deadline=None)
@given(st.integers(0, 2**63 - 1), st.lists(st.sampled_from(RECORD.peer.addresses), max_size=4))
def test_a_record_is_read_back(sequence: int, addresses: list[str]) -> None:
    record = PeerRecord(Peer(PEER, tuple(addresses)), sequence)
    assert decode_record(sign_record(record, KEY)) == record


def test_a_record_signed_by_another_is_refused() -> None:
    other = PrivateKey.generate()
    with pytest.raises(Invalid, match="cannot be signed"):
        sign_record(RECORD, other)
    with pytest.raises(Invalid, match=f"is signed by {other.peer_id}"):
        decode_record(sealed([(1, peer_bytes(PEER)), (2, 1)], other))


def test_an_address_of_an_unknown_protocol_is_passed_over() -> None:
    unknown = encode_message([(1, bytes.fromhex("bf843d"))])
    assert decode_record(sealed([(1, peer_bytes(PEER)), (2, 7), (3, unknown)])) == PeerRecord(Peer(PEER), 7)


@pytest.mark.parametrize("field", [(1, 5), (2, b"x"), (3, b"\x0a\x01\x04"), (3, b"\x08\x01")])
def test_a_wrong_field_is_refused(field: tuple[int, int | bytes]) -> None:
    with pytest.raises(Invalid):
        decode_record(sealed([(1, peer_bytes(PEER)), (2, 7), field]))


def test_too_many_addresses_are_refused() -> None:
    with pytest.raises(Invalid, match="129 addresses"):
        decode_record(sign_record(PeerRecord(Peer(PEER, ("/ws",) * 129), 1), KEY))


def test_an_envelope_for_something_else_is_refused() -> None:
    payload = encode_message([(1, peer_bytes(PEER)), (2, 1)])
    for kind, domain in ((b"\x03\x02", RECORD_DOMAIN), (RECORD_KIND, "indexer")):
        with pytest.raises(Invalid):
            decode_record(envelope.seal(payload, kind=kind, domain=domain, key=KEY))


def test_a_message_of_other_wire_types_is_refused() -> None:
    with pytest.raises(Invalid, match="wire type 5"):
        last_fields(bytes.fromhex("0d00000000"))
