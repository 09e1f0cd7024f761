"""Blocks of the JavaScript implementations are read and written identically."""

import pytest

from argosy.ipni.formats import advertisement, cid, dag, entries, metadata, multiaddr
from argosy.ipni.formats.cid import DAG_CBOR, DAG_JSON
from argosy.ipni.formats.entries import HamtRoot
from argosy.ipni.formats.node import Node
from tests.ipni.formats.samples import javascript

MADE = javascript()


@pytest.mark.parametrize("name", MADE["adverts"])
def test_an_advertisement_verifies_and_is_written_again_byte_for_byte(name: str) -> None:
    data = bytes.fromhex(MADE["adverts"][name])
    block = cid.parse(name)
    dag.check(block, data)
    decoded = advertisement.decode(block, data)
    assert advertisement.signer(decoded) == decoded.provider
    assert advertisement.encode(decoded, block.codec) == (block, data)


def test_advertisements_of_three_kinds_of_keys_are_among_them() -> None:
    adverts = [advertisement.decode(cid.parse(name), bytes.fromhex(data)) for name, data in MADE["adverts"].items()]
    assert {decoded.provider[:2] for decoded in adverts} == {"12", "16", "Qm"}
    extended = [decoded for decoded in adverts if decoded.extension is not None]
    assert {len(decoded.extension.peers) for decoded in extended if decoded.extension} == {2}
    assert {tuple(metadata.protocols(decoded.metadata)) for decoded in adverts} == {
        (("transport-ipfs-gateway-http", b""),)
    }


@pytest.mark.parametrize("root", MADE["hamts"])
def test_every_key_of_a_hamt_is_found(root: str) -> None:
    blocks = {name: bytes.fromhex(data) for name, data in MADE["hamts"][root].items()}
    first = entries.decode_entries(cid.parse(root), blocks[root])
    assert isinstance(first, HamtRoot)
    assert (first.hash_code, first.bucket_size) == (0x12, 3)
    found, waiting = list(first.multihashes), list(first.children)
    while waiting:
        name = waiting.pop()
        dag.check(name, blocks[str(name)])
        node = entries.decode_node(name, blocks[str(name)])
        found += node.multihashes
        waiting += node.children
    assert sorted(each.hex() for each in found) == sorted(MADE["keys"])
    assert first.children


WITH_PATH = "/dns/example.org/tcp/443/https/http-path/sub%2Fpath"


@pytest.mark.parametrize("text", [text for text in MADE["multiaddrs"] if text != WITH_PATH])
def test_an_address_has_the_same_bytes(text: str) -> None:
    assert multiaddr.to_bytes(text).hex() == MADE["multiaddrs"][text]
    assert multiaddr.to_text(bytes.fromhex(MADE["multiaddrs"][text])) == text


def test_a_path_leads_to_the_same_place() -> None:
    """JavaScript adds a slash before the path where Go, and we, take it as it is written."""
    theirs = multiaddr.to_text(bytes.fromhex(MADE["multiaddrs"][WITH_PATH]))
    assert theirs == "/dns/example.org/tcp/443/https/http-path/%2Fsub%2Fpath"
    assert multiaddr.url_of(theirs) == multiaddr.url_of(WITH_PATH) == "https://example.org:443/sub/path"


@pytest.mark.parametrize(("codec", "name"), [(DAG_CBOR, "dag-cbor"), (DAG_JSON, "dag-json")])
def test_a_node_has_the_same_bytes(codec: int, name: str) -> None:
    link = cid.parse("bafkreehdwdcefgh4dqkjv67uzcmw7oje")
    numbers: list[Node] = [256, 65536, 4294967296, -1, -500, 1.5, None, True, 'ü\n"\\\u0001\u007f\u2028']
    node: Node = {"bb": 23, "c": 24, "a": numbers, "dd": link, "e": b"\x80\x12", "é": {}, "aaa": []}
    assert dag.encode(node, codec)[1].hex() == MADE["nodes"][name]
