"""Results as records of delegated routing."""

import json

import pytest

from argosy.base.errors import Invalid
from argosy.ipni.formats import cid, metadata
from argosy.ipni.model import Peer, ProviderResult
from argosy.ipni.web.routing import FILTER_NAMES_MAX, Filters, RoutingRecord, encode_record, encode_records, records
from tests.ipni.web.builders import A, B, C, result

TCP, WSS = "/ip4/192.0.2.1/tcp/4001", "/dns4/example.org/tcp/443/wss"
HTTPS, QUIC = "/dns4/example.org/tcp/443/https", "/ip4/192.0.2.1/udp/4001/quic-v1"
BITSWAP, HTTP = ("transport-bitswap", b"\x80\x12"), ("transport-ipfs-gateway-http", b"\xa0\x12")


def test_a_record_names_its_protocols_and_the_metadata_of_each() -> None:
    [record] = records([result(A, b"c", metadata.join(metadata.http(), metadata.bitswap()), TCP)])
    assert json.loads(encode_record(record)) == {
        "Schema": "peer",
        "ID": A,
        "Addrs": [TCP],
        "Protocols": ["transport-bitswap", "transport-ipfs-gateway-http"],
        "transport-bitswap": "gBI=",
        "transport-ipfs-gateway-http": "oBI=",
    }


def test_the_third_protocol_is_not_lost() -> None:
    piece = metadata.graphsync(cid.of(b"piece"), is_verified=True, is_fast=True)
    joined = metadata.join(metadata.piece_http(), piece, metadata.bitswap(), metadata.http())
    [record] = records([result(A, b"c", joined)])
    assert [name for name, _ in record.protocols] == [
        "transport-bitswap",
        "transport-graphsync-filecoinv1",
        "transport-ipfs-gateway-http",
        "transport-filecoin-piece-http",
    ]
    assert b"".join(part for _, part in record.protocols) == joined


@pytest.mark.parametrize("data", [b"", b"\xff", b"nothing we know"])
def test_metadata_without_protocols_gives_a_record_without_protocols(data: bytes) -> None:
    [record] = records([result(A, b"c", data, TCP)])
    assert json.loads(encode_record(record)) == {"Schema": "peer", "ID": A, "Addrs": [TCP]}


def test_the_zero_that_one_publisher_writes_after_http_is_no_protocol() -> None:
    [record] = records([result(A, b"c", b"\xa0\x12\x00")])
    assert record.protocols == (HTTP,)


def test_records_that_differ_only_by_context_appear_once() -> None:
    found = [result(A, b"1"), result(A, b"2"), result(B, b"1"), result(A, b"1", metadata.http())]
    protocols_by_id = [(record.id, record.protocols) for record in records(found)]
    assert protocols_by_id == [(A, (BITSWAP,)), (B, (BITSWAP,)), (A, (HTTP,))]


def test_no_records_are_an_empty_list() -> None:
    assert encode_records([]) == b'{"Providers":[]}'


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        ("", (TCP, WSS, HTTPS, QUIC)),
        ("wss", (WSS,)),
        ("WSS, https", (WSS, HTTPS)),
        ("!tcp", (QUIC,)),
        ("tcp,!wss", (TCP, HTTPS)),
        ("udp,!quic-v1", ()),
        ("unknown", ()),
    ],
)
def test_addresses_are_filtered_by_protocols_and_refusals_come_first(wanted: str, left: tuple[str, ...]) -> None:
    filtered = Filters.parse(addresses=wanted).apply(RoutingRecord(A, (TCP, WSS, HTTPS, QUIC)))
    assert (() if filtered is None else filtered.addresses) == left
    assert filtered is not None or not left, "a record without any matching address is dropped"


def test_a_record_without_addresses_stays_only_when_unknown_is_requested() -> None:
    record = RoutingRecord(A, ())
    assert Filters.parse(addresses="tcp").apply(record) is None
    assert Filters.parse(addresses="!tcp").apply(record) is None
    assert Filters.parse(addresses="tcp,unknown").apply(record) == record
    assert Filters.parse().apply(record) == record


def test_an_unreadable_address_matches_no_filter() -> None:
    record = RoutingRecord(A, ("/carrier-pigeon/coop",))
    assert Filters.parse(addresses="tcp").apply(record) is None
    assert Filters.parse(addresses="!tcp").apply(record) == record


def test_records_are_filtered_by_protocols_but_not_changed() -> None:
    both = RoutingRecord(A, (TCP,), (BITSWAP, HTTP))
    assert Filters.parse(protocols="transport-ipfs-gateway-http").apply(both) == both
    assert Filters.parse(protocols="transport-graphsync-filecoinv1,unknown").apply(both) is None
    assert Filters.parse(protocols="unknown").apply(RoutingRecord(B, (TCP,))) == RoutingRecord(B, (TCP,))
    assert Filters.parse(protocols="transport-bitswap").apply(RoutingRecord(B, (TCP,))) is None


def test_filters_hold_for_all_results() -> None:
    found = [
        ProviderResult(b"", b"\x80\x12", Peer(A, (TCP, WSS))),
        ProviderResult(b"", b"\xa0\x12", Peer(B, (WSS,))),
        result(C),
    ]
    filters = Filters.parse(addresses="wss", protocols="transport-bitswap")
    assert list(records(found, filters)) == [RoutingRecord(A, (WSS,), (BITSWAP,))]


def test_a_filter_has_an_end() -> None:
    with pytest.raises(Invalid, match="at most"):
        Filters.parse(addresses="tcp," * (FILTER_NAMES_MAX + 1))
