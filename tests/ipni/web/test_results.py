"""Answers of a find, written and read."""

import json
from base64 import b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.ipni.formats import multihash
from argosy.ipni.model import Peer, ProviderResult
from argosy.ipni.web import results
from tests.ipni.web.builders import CONTENT, A, B, result

PEERS = st.builds(Peer, st.text(min_size=1), st.lists(st.text(), max_size=3).map(tuple))
RESULTS = st.builds(ProviderResult, st.binary(max_size=64), st.binary(max_size=64), PEERS)


def text(data: bytes) -> str:
    return b64encode(data).decode()


def test_a_document_has_the_keys_and_the_padded_base64_that_clients_read() -> None:
    place = "/ip4/192.0.2.1/tcp/1"
    encoded = json.loads(results.encode_json([(CONTENT, [result(A, b"ctx-1", b"\x80\x12", place)])]))
    assert encoded == {
        "MultihashResults": [
            {
                "Multihash": text(CONTENT),
                "ProviderResults": [
                    {"ContextID": "Y3R4LTE=", "Metadata": "gBI=", "Provider": {"ID": A, "Addrs": [place]}}
                ],
            }
        ]
    }


def test_a_multihash_without_results_is_not_in_the_document() -> None:
    other = multihash.of(b"other")
    encoded = results.encode_json([(other, ()), (CONTENT, [result()])])
    assert [multihash for multihash, _ in results.decode_json(encoded)] == [CONTENT]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.binary(min_size=1, max_size=40), st.lists(RESULTS, min_size=1, max_size=4)), max_size=4))
def test_a_document_is_read_as_it_was_written(found: list[tuple[bytes, list[ProviderResult]]]) -> None:
    assert results.decode_json(results.encode_json(found)) == [(key, tuple(its)) for key, its in found]


@settings(max_examples=50, deadline=None)
@given(RESULTS)
def test_a_line_is_one_line_and_is_read_as_it_was_written(encoded: ProviderResult) -> None:
    line = results.encode_line(encoded)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert results.decode_line(line) == encoded


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(max_size=80), min_size=1, max_size=4))
def test_encrypted_keys_are_read_as_they_were_written(keys: list[bytes]) -> None:
    assert results.decode_encrypted_json(results.encode_encrypted_json([(CONTENT, keys)])) == [(CONTENT, tuple(keys))]
    assert [results.decode_encrypted_line(results.encode_encrypted_line(key)) for key in keys] == keys


def test_nulls_written_by_go_are_read_as_empty() -> None:
    line = json.dumps({"ContextID": None, "Metadata": None, "Provider": {"ID": B, "Addrs": None}}).encode()
    assert results.decode_line(line) == ProviderResult(b"", b"", Peer(B))
    assert results.decode_json(b'{"MultihashResults":null}') == []
    without_providers = b'{"MultihashResults":[{"Multihash":"EiA=","ProviderResults":null}]}'
    assert results.decode_json(without_providers) == [(b"\x12 ", ())]


def test_records_without_a_provider_are_dropped_and_the_others_stay() -> None:
    good = results.encode_result(result()).decode()
    document = f'{{"MultihashResults":[{{"Multihash":"EiA=","ProviderResults":[{{"Provider":null}},{good}]}}]}}'
    assert results.decode_json(document.encode()) == [(b"\x12 ", (result(),))]
    with pytest.raises(Invalid, match="without a provider"):
        results.decode_line(b'{"ContextID":"","Metadata":"","Provider":{"Addrs":[]}}')


@pytest.mark.parametrize("data", [b"", b"[", b"[]", b"\xff", b'{"MultihashResults":3}', b"[" * 100_000])
def test_an_invalid_document_is_rejected(data: bytes) -> None:
    with pytest.raises(Invalid, match="not the JSON of a find"):
        results.decode_json(data)


def test_changed_provider_addresses_are_encoded_again() -> None:
    first, second = result(A, b"c", b"m", "/ip4/192.0.2.1/tcp/1"), result(A, b"c", b"m", "/ip4/192.0.2.2/tcp/1")
    assert results.encode_line(first) != results.encode_line(second)
    assert results.encode_line(first) == results.encode_line(result(A, b"c", b"m", "/ip4/192.0.2.1/tcp/1"))
