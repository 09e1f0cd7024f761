"""Chunks and HAMTs: decoded fast where they are regular, with the same result where they are not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.ipni.formats import cid, dag, dag_cbor, dag_json, entries, multihash
from argosy.ipni.formats.cid import DAG_CBOR, DAG_JSON, Cid
from argosy.ipni.formats.entries import EntryChunk, HamtRoot
from argosy.ipni.formats.node import Node
from tests.ipni.formats import samples

CODECS = [DAG_JSON, DAG_CBOR]
NEXT = cid.of(b"next", DAG_CBOR)
HASHES = [multihash.of(bytes([n])) for n in range(5)]

digests = st.binary(min_size=1, max_size=40)
hashes = st.builds(multihash.wrap, st.sampled_from([0x12, 0x00, 0xB220, 0x56]), digests)
uniform = st.lists(st.binary(min_size=32, max_size=32).map(lambda digest: multihash.wrap(0x12, digest)), max_size=20)


def strict(name: Cid, data: bytes) -> EntryChunk:
    """The result of the decoders without tables."""
    node = dag.decode_map(name, data)
    items = node["Entries"]
    assert isinstance(items, list)
    found = [each for each in items if isinstance(each, bytes) and multihash.is_whole(each)]
    following = node.get("Next")
    assert following is None or isinstance(following, Cid)
    return EntryChunk(found, following, len(items) - len(found))


def test_chunks_of_another_implementation_round_trip_byte_for_byte() -> None:
    tail, head = samples.block(samples.CHUNK_TAIL), samples.block(samples.CHUNK_HEAD)
    first, last = entries.decode_chunk(*head), entries.decode_chunk(*tail)
    assert (first.next, last.next, len(first.multihashes), len(last.multihashes)) == (tail[0], None, 3, 2)
    assert first.multihashes[0] == samples.CONTENT_HASH
    assert entries.encode_chunk(first.multihashes, first.next, DAG_JSON) == head
    assert entries.encode_chunk(last.multihashes, None, DAG_JSON) == tail


@pytest.mark.parametrize("codec", CODECS)
@settings(deadline=None)
@given(multihashes=uniform | st.lists(hashes, max_size=20), has_next=st.booleans())
def test_any_chunk_is_read_back(codec: int, multihashes: list[bytes], has_next: bool) -> None:
    name, data = entries.encode_chunk(multihashes, NEXT if has_next else None, codec)
    chunk = entries.decode_chunk(name, data)
    assert chunk == EntryChunk(multihashes, NEXT if has_next else None) == strict(name, data)
    assert all(type(each) is bytes for each in chunk.multihashes)
    assert entries.decode_entries(name, data) == chunk


@pytest.mark.parametrize("codec", CODECS)
@settings(deadline=None)
@given(multihashes=st.lists(st.binary(max_size=6) | hashes, max_size=12))
def test_an_invalid_multihash_is_skipped_and_counted(codec: int, multihashes: list[bytes]) -> None:
    block = entries.encode_chunk(multihashes, None, codec)
    whole = [each for each in multihashes if multihash.is_whole(each)]
    assert entries.decode_chunk(*block) == EntryChunk(whole, None, len(multihashes) - len(whole))


@pytest.mark.parametrize("codec", CODECS)
@settings(deadline=None)
@given(at=st.integers(0, 10_000), change=st.integers(1, 255), has_next=st.booleans())
def test_a_chunk_with_one_byte_changed_reads_as_in_strict_decoders(
    codec: int, at: int, change: int, has_next: bool
) -> None:
    name, data = entries.encode_chunk(HASHES, NEXT if has_next else None, codec)
    changed = bytearray(data)
    changed[at % len(changed)] ^= change
    try:
        expected = strict(name, bytes(changed))
    except (Invalid, KeyError, AssertionError):
        with pytest.raises(Invalid):
            entries.decode_chunk(name, bytes(changed))
        return
    if all(isinstance(each, bytes) for each in dag.decode_map(name, bytes(changed))["Entries"]):  # type: ignore[union-attr]
        assert entries.decode_chunk(name, bytes(changed)) == expected


@pytest.mark.parametrize("codec", CODECS)
def test_a_full_chunk_has_the_size_of_other_implementations(codec: int) -> None:
    multihashes = [multihash.of(n.to_bytes(4, "big")) for n in range(16384)]
    name, data = entries.encode_chunk(multihashes, None, codec)
    assert len(data) == (1_064_973 if codec == DAG_JSON else 589_836)
    assert entries.decode_chunk(name, data) == EntryChunk(multihashes)


@pytest.mark.parametrize("codec", CODECS)
def test_the_general_encoders_write_the_same_chunk(codec: int) -> None:
    items: list[Node] = list(HASHES)
    assert entries.encode_chunk(HASHES, NEXT, codec) == dag.encode({"Entries": items, "Next": NEXT}, codec)


def test_keys_in_another_order_and_padding_are_read() -> None:
    items = dag_cbor.encode(list(HASHES))
    data = b"\xa2\x67Entries" + items + b"\x64Next" + dag_cbor.encode(NEXT)
    assert entries.decode_chunk(cid.of(data, DAG_CBOR), data) == EntryChunk(HASHES, NEXT)
    text = dag_json.encode({"Entries": list(HASHES)}).replace(b'"}}', b'=="}}').replace(b"[", b"[ ")
    assert entries.decode_chunk(cid.of(text, DAG_JSON), text) == EntryChunk(HASHES)


@pytest.mark.parametrize(
    "node",
    [[], {}, {"Entries": 1}, {"Entries": [1]}, {"Entries": [HASHES[0]], "Next": None}, {"Entries": [], "Next": "x"}],
)
@pytest.mark.parametrize("codec", CODECS)
def test_an_invalid_chunk_is_rejected(node: Node, codec: int) -> None:
    block = dag.encode(node, codec)
    with pytest.raises(Invalid):
        entries.decode_chunk(*block)
    with pytest.raises(Invalid):
        entries.decode_entries(*block)


def walk(blocks: list[tuple[Cid, bytes]]) -> list[bytes]:
    by_name = dict(blocks)
    root = entries.decode_entries(*blocks[-1])
    assert isinstance(root, HamtRoot)
    found, waiting = list(root.multihashes), list(root.children)
    while waiting:
        name = waiting.pop()
        node = entries.decode_node(name, by_name[name])
        found += node.multihashes
        waiting += node.children
    return found


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", [0, 1, 500, 3000])
def test_every_key_of_a_hamt_is_found_once(codec: int, count: int) -> None:
    keys = [multihash.of(n.to_bytes(4, "big")) for n in range(count)]
    blocks = entries.encode_hamt(keys, codec)
    for block in blocks:
        dag.check(*block)
    assert sorted(walk(blocks)) == sorted(keys)
    assert (len(blocks) > 1) == (count >= 500)


def test_a_hamt_of_another_writer_is_read() -> None:
    """As npm ipld-hashmap writes them: murmur3, width 5, buckets and links in one node."""
    child: Node = [b"\x80\0\0\0", [[[HASHES[0], True]]]]
    name, data = dag.encode(child, DAG_CBOR)
    bucket: Node = [[HASHES[1], True], [HASHES[2], True]]
    root: Node = {"hashAlg": 0x22, "bucketSize": 3, "hamt": [b"\xff\0\0\0", [name, bucket]]}
    decoded = entries.decode_entries(*dag.encode(root, DAG_CBOR))
    assert decoded == HamtRoot([HASHES[1], HASHES[2]], [name], 0, 0x22, 3)
    assert entries.decode_node(name, data) == entries.HamtNode([HASHES[0]], [])


@pytest.mark.parametrize(
    "node", [1, [], [b""], [b"", 1], [b"", [1]], [b"", [[1]]], [b"", [[[1, 2]]]], [b"", [[[b"", 1, 2]]]]]
)
def test_an_invalid_hamt_is_rejected(node: Node) -> None:
    with pytest.raises(Invalid):
        entries.decode_node(*dag.encode(node, DAG_CBOR))
    root: Node = {"hashAlg": 0x12, "bucketSize": 3, "hamt": node}
    with pytest.raises(Invalid):
        entries.decode_entries(*dag.encode(root, DAG_CBOR))


def test_keys_of_a_hamt_that_are_no_multihashes_are_counted() -> None:
    node: Node = [b"\x01", [[[HASHES[0], True], [b"x", True]]]]
    assert entries.decode_node(*dag.encode(node, DAG_JSON)) == entries.HamtNode([HASHES[0]], [], 1)
