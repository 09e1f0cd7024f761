"""Providers as JSON, written and read."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.ipni.formats.cid import Cid
from argosy.ipni.model import ContextSet, ExtendedPeer, ExtendedProviders, Peer, Provider
from argosy.ipni.web import providers_json
from tests.ipni.web.builders import AD, A, B, C

BITSWAP = b"\x80\x12"
HTTP = "/dns4/example.org/tcp/443/https"
TIMES = st.integers(0, 2**32).map(float)
ADDRESSES = st.lists(st.text(), max_size=3).map(tuple)
OTHERS = st.builds(ExtendedPeer, st.text(min_size=1), ADDRESSES, st.binary(max_size=9))
EXTENDED = st.lists(OTHERS, max_size=3).map(tuple)
SETS = st.dictionaries(st.binary(max_size=64), st.builds(ContextSet, EXTENDED, st.booleans()), max_size=3)
LINKS: st.SearchStrategy[Cid | None] = st.sampled_from([None, AD])
PROVIDERS = st.builds(
    Provider,
    id=st.text(min_size=1),
    addresses=ADDRESSES,
    publisher=st.none() | st.builds(Peer, st.text(min_size=1), ADDRESSES),
    last_ad=LINKS,
    last_ad_at=TIMES,
    lag=st.integers(0, 2**40),
    extended=st.builds(ExtendedProviders, EXTENDED, SETS),
    frozen_at=LINKS,
    frozen_at_time=TIMES,
    is_inactive=st.booleans(),
    last_error=st.text(),
    last_error_at=TIMES,
)


@settings(max_examples=50, deadline=None)
@given(st.lists(PROVIDERS, max_size=3))
def test_providers_are_read_as_they_were_written_contexts_of_any_bytes_included(known: list[Provider]) -> None:
    assert providers_json.decode_providers(providers_json.encode_providers(known)) == known


def test_an_unsynced_provider_has_null_links_and_no_other_nulls() -> None:
    assert json.loads(providers_json.encode_provider(Provider(A))) == {
        "AddrInfo": {"ID": A, "Addrs": []},
        "LastAdvertisement": None,
        "FrozenAt": None,
    }


def test_a_provider_is_written_with_the_protocol_keys() -> None:
    provider = Provider(
        A,
        (HTTP,),
        Peer(B, (HTTP,)),
        AD,
        1767322985.0,
        3,
        ExtendedProviders((ExtendedPeer(C, (HTTP,), BITSWAP),), {b"\xff": ContextSet((ExtendedPeer(B, ()),), True)}),
        AD,
        1767322986.5,
        True,
        "no route",
        1767322985.0,
    )
    assert json.loads(providers_json.encode_provider(provider)) == {
        "AddrInfo": {"ID": A, "Addrs": [HTTP]},
        "LastAdvertisement": {"/": str(AD)},
        "LastAdvertisementTime": "2026-01-02T03:03:05Z",
        "Lag": 3,
        "Publisher": {"ID": B, "Addrs": [HTTP]},
        "ExtendedProviders": {
            "Providers": [{"ID": C, "Addrs": [HTTP]}],
            "Metadatas": ["gBI="],
            "Contextual": [
                {
                    "Override": True,
                    "ContextID": "\ufffd",
                    "ContextIDBytes": "/w==",
                    "Providers": [{"ID": B, "Addrs": []}],
                    "Metadatas": [""],
                }
            ],
        },
        "FrozenAt": {"/": str(AD)},
        "FrozenAtTime": "2026-01-02T03:03:06.500000Z",
        "Inactive": True,
        "LastError": "no route",
        "LastErrorTime": "2026-01-02T03:03:05Z",
    }


def test_the_original_is_read_which_has_no_twin_and_any_case_of_keys() -> None:
    text = {
        "addrinfo": {"id": A, "addrs": None},
        "LASTADVERTISEMENT": {"/": str(AD)},
        "LastAdvertisementTime": "2026-01-02T04:03:05.123456789+01:00",
        "ExtendedProviders": {
            "Contextual": [{"ContextID": "ctx", "Providers": [{"ID": B, "Addrs": [HTTP]}], "Metadatas": None}]
        },
    }
    provider = providers_json.decode_provider(json.dumps(text).encode())
    assert (provider.id, provider.addresses, provider.publisher, provider.last_ad) == (A, (), None, AD)
    assert int(provider.last_ad_at) == 1767322985
    assert provider.extended.contexts == {b"ctx": ContextSet((ExtendedPeer(B, (HTTP,)),))}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3",
        "{}",
        '{"AddrInfo":{"Addrs":[]}}',
        '{"AddrInfo":{"ID":"x"},"Lag":"many"}',
        '{"AddrInfo":{"ID":"x"},"LastAdvertisement":{"/":"nonsense"}}',
        '{"AddrInfo":{"ID":"x"},"LastAdvertisementTime":"yesterday"}',
        '{"AddrInfo":{"ID":"x"},"ExtendedProviders":{"Providers":3}}',
        '{"AddrInfo":{"ID":"x"},"ExtendedProviders":{"Providers":[],"Metadatas":["?"]}}',
    ],
)
def test_an_invalid_provider_is_rejected(text: str) -> None:
    with pytest.raises(Invalid):
        providers_json.decode_provider(text.encode())
