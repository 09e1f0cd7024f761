"""Announcements in both forms, and their publishers."""

import json
from base64 import b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.ipni.formats import cid, dag_cbor, multiaddr
from argosy.ipni.formats.head import (
    Announcement,
    decode_announcement,
    encode_announcement,
    encode_announcement_json,
)
from argosy.ipni.formats.node import Node
from argosy.ipni.model import Peer
from tests.ipni.formats.samples import PEER, PUBLIC_HEX

HEAD = cid.parse("baguqeerasw3lv4o42js4c5wd4c7fudo5pwkzynzzgwtm6ekrrzpc2m3ywg3a")
ADDRESS = "/ip4/127.0.0.1/tcp/18081/http"
ANNOUNCE = Announcement(HEAD, Peer(PEER, (ADDRESS,)))
CBOR = bytes.fromhex(
    "83d82a58260001a902122095b6baf1dcd265c176c3e0be5a0ddd7d959c373935a6cf11518e5e2d3378b1b6"
    "815833047f0000010646a1e003a503260024" + PUBLIC_HEX + "40"
)
UNKNOWN = bytes.fromhex("bf843d")
GOOD = multiaddr.to_bytes(f"{ADDRESS}/p2p/{PEER}")
OTHER = "QmSPbSLo26Lt3SZ5r9ccqtoM6zjuxobLxc7JM4VivCMCmB"


def test_an_announcement_of_another_implementation_round_trips_byte_for_byte() -> None:
    assert decode_announcement(CBOR, is_json=False) == ANNOUNCE
    assert encode_announcement(ANNOUNCE) == CBOR


def test_the_json_form_equals_that_of_other_implementations() -> None:
    assert json.loads(encode_announcement_json(ANNOUNCE)) == {
        "Cid": {"/": str(HEAD)},
        "Addrs": ["BH8AAAEGRqHgA6UDJgAkCAESIEWa4FA11sMQsD7WFABkqF1z8dQasYvcLwH3krCL1GoF"],
        "ExtraData": None,
        "OrigPeer": "",
    }
    assert decode_announcement(encode_announcement_json(ANNOUNCE), is_json=True) == ANNOUNCE


@settings(deadline=None)
@given(
    st.binary(max_size=50),
    st.sampled_from(["", OTHER]),
    st.lists(st.sampled_from([ADDRESS, "/dns/a/https"])),
)
def test_any_announcement_is_read_back(extra: bytes, origin: str, addresses: list[str]) -> None:
    decoded = Announcement(HEAD, Peer(PEER, tuple(dict.fromkeys(addresses))), extra, origin)
    assert decode_announcement(encode_announcement(decoded), is_json=False) == decoded
    assert decode_announcement(encode_announcement_json(decoded), is_json=True) == decoded


def both_forms(addresses: list[bytes]) -> list[tuple[bytes, bool]]:
    nodes: list[Node] = list(addresses)
    texts = [b64encode(each).decode() for each in addresses]
    body = {"Cid": {"/": str(HEAD)}, "Addrs": texts, "ExtraData": None}
    return [(dag_cbor.encode([HEAD, nodes, b""]), False), (json.dumps(body).encode(), True)]


def test_an_address_of_an_unknown_protocol_is_passed_over() -> None:
    for data, is_json in both_forms([UNKNOWN, GOOD]):
        assert decode_announcement(data, is_json) == ANNOUNCE


@pytest.mark.parametrize(
    ("addresses", "message"),
    [
        ([], "at least one address"),
        ([UNKNOWN], "every address in the announcement is of an unknown protocol"),
        ([multiaddr.to_bytes(ADDRESS)], "all end in /p2p/"),
        ([GOOD, multiaddr.to_bytes(ADDRESS)], "all end in /p2p/"),
        ([GOOD, multiaddr.to_bytes(f"{ADDRESS}/p2p/{OTHER}")], "all end in /p2p/"),
        ([b"\x04"], "ends in the middle"),
        ([b""], "at least one protocol"),
        ([GOOD] * 129, "128"),
    ],
)
def test_an_announcement_without_one_publisher_is_refused(addresses: list[bytes], message: str) -> None:
    """Trap 7 among them: an announcement with unknown protocols alone is answered, not crashed on."""
    for data, is_json in both_forms(addresses):
        with pytest.raises(Invalid, match=message):
            decode_announcement(data, is_json)


@pytest.mark.parametrize(
    "node", [1, [], [HEAD, [GOOD]], [HEAD, [GOOD], b"", "", 1], [1, [GOOD], b""], [HEAD, 1, b""], [HEAD, [1], b""],
             [HEAD, [GOOD], "x"], [HEAD, [GOOD], b"", 1], [HEAD, [GOOD], b"", "nobody"]],
)  # fmt: skip
def test_an_invalid_announcement_is_rejected(node: Node) -> None:
    with pytest.raises(Invalid):
        decode_announcement(dag_cbor.encode(node), is_json=False)


@pytest.mark.parametrize("body", ["", "1", "{}", '{"Cid":1,"Addrs":[]}', '{"Cid":{"/":"x"},"Addrs":[]}'])
def test_json_that_is_no_announcement_is_refused(body: str) -> None:
    with pytest.raises(Invalid):
        decode_announcement(body.encode(), is_json=True)


def test_an_oversized_announcement_is_rejected_unparsed() -> None:
    with pytest.raises(Invalid, match="longer than 1048576"):
        decode_announcement(CBOR.ljust((1 << 20) + 1, b"\0"), is_json=False)
