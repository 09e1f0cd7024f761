"""Double hashing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.ipni.formats import privacy
from argosy.ipni.formats.bases import base58
from tests.ipni.formats.samples import CONTENT_HASH, PEER

KEY = privacy.value_key(PEER, b"ctx-1")
ENCRYPTED = (
    "a63653dac68864d6d72c285b8c4bcc82669901d5b9f389c5766c145ea4d17b7821113fcd3f8bdfc3"
    "37ea08f0a0201fdf3c2f2c220d395ea54316925369d11afba81440e006d1f4"
)


def test_the_known_values_are_computed() -> None:
    assert base58(privacy.second_hash(CONTENT_HASH)) == "2wvfmgPxJLr6Cti6by7N5yAeoLT1gKL5knZ6CCs2VwxgBU5"
    assert privacy.encrypt_value_key(KEY, CONTENT_HASH).hex() == ENCRYPTED
    assert base58(privacy.value_key_hash(KEY)) == "FQY1iybEqys3meUq9KzEBuQGyNyuwJkmkp1fmkRE4aDx"
    decoded = privacy.encrypt_metadata(b"\x80\x12", KEY)
    assert decoded.hex() == "9e8bfaae2425c699a024f4473f913bcaae616633981b7249d68f1b20c666"


def test_a_client_gets_from_a_multihash_to_the_metadata() -> None:
    key = privacy.decrypt_value_key(bytes.fromhex(ENCRYPTED), CONTENT_HASH)
    assert privacy.split_value_key(key) == (PEER, b"ctx-1")
    assert privacy.decrypt_metadata(privacy.encrypt_metadata(b"\x80\x12", key), key) == b"\x80\x12"


@settings(deadline=None)
@given(st.binary(max_size=64), st.binary(max_size=100))
def test_encrypted_values_are_decrypted_only_with_their_key(context: bytes, metadata: bytes) -> None:
    key = privacy.value_key(PEER, context)
    assert privacy.split_value_key(key) == (PEER, context)
    encrypted = privacy.encrypt_metadata(metadata, key)
    assert privacy.decrypt_metadata(encrypted, key) == metadata
    with pytest.raises(Invalid, match="with another key"):
        privacy.decrypt_metadata(encrypted, key + b"x")


@pytest.mark.parametrize("data", [b"", b"x" * 27])
def test_too_few_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(Invalid, match="too few"):
        privacy.decrypt_value_key(data, CONTENT_HASH)
