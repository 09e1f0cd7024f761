"""dag-json and dag-cbor: canonical when written, validated when read."""

import json
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.base.errors import Invalid
from argosy.ipni.formats import cid, dag, dag_cbor, dag_json
from argosy.ipni.formats.cid import DAG_CBOR, DAG_JSON, RAW
from argosy.ipni.formats.node import DEPTH_MAX, Node

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
leaves = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False), texts,
    st.binary(max_size=40), st.binary(max_size=8).map(cid.of),
)  # fmt: skip
keys = texts.filter(lambda key: key != "/")
nodes = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=20
)
LINK = cid.parse("bafkreehdwdcefgh4dqkjv67uzcmw7oje")


@settings(deadline=None)
@given(nodes, st.sampled_from([DAG_JSON, DAG_CBOR]))
def test_a_node_is_read_back_as_it_was(node: Node, codec: int) -> None:
    name, data = dag.encode(node, codec)
    assert dag.decode(name, data) == node
    assert dag.encode(dag.decode(name, data), codec) == (name, data)
    dag.check(name, data)


def test_dag_json_is_written_in_its_one_form() -> None:
    node: Node = {"b": [1, -1, 1.5, None, True, "ü"], "a": b"\x80\x12", "é": LINK}
    assert dag_json.encode(node).decode() == (
        '{"a":{"/":{"bytes":"gBI"}},"b":[1,-1,1.5,null,true,"ü"],"é":{"/":"bafkreehdwdcefgh4dqkjv67uzcmw7oje"}}'
    )


def test_dag_cbor_is_written_in_its_one_form() -> None:
    """Keys by length first; the shortest heads; floats always of 64 bits."""
    node: Node = {"bb": 23, "c": 24, "a": [256, 65536, 2**32, -1, 1.5], "d": LINK}
    assert dag_cbor.encode(node).hex() == (
        "a4"
        "6161"
        "85"
        "190100"
        "1a00010000"
        "1b0000000100000000"
        "20"
        "fb3ff8000000000000"
        "6163"
        "1818"
        "6164"
        "d82a5500"
        "01551210e3b0c44298fc1c149afbf4c8996fb924"
        "626262"
        "17"
    )


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "nul", "1 2", '{"a":1,"a":2}', "NaN", "Infinity", "1e999", "18446744073709551616",
        "-9223372036854775809", "1" * 5000, '{"/":1}', '{"/":"x"}', '{"/":{"bytes":1}}', '{"/":{"bytes":"A"}}',
        '{"/":{"bytes":"AA","x":1}}',
        '{"/":{"bytes":"AA"},"x":1}', '{"/":"bafkreehdwdcefgh4dqkjv67uzcmw7oje","x":1}', '"\\ud800"', '{"\\ud800":1}',
        "[" * (DEPTH_MAX + 2) + "]" * (DEPTH_MAX + 2), "[" * 100_000,
    ],
)  # fmt: skip
def test_invalid_dag_json_is_rejected(text: str) -> None:
    with pytest.raises(Invalid):
        dag_json.decode(text.encode())


@pytest.mark.parametrize("data", [b"\xff", b'"\xff"', '"x"'.encode("utf-16")])
def test_dag_json_is_utf8(data: bytes) -> None:
    with pytest.raises(Invalid, match="not UTF-8"):
        dag_json.decode(data)


def test_dag_json_of_other_writers_is_read() -> None:
    assert dag_json.decode(b' { "b": 1, "a": {"/": {"bytes": "gBI="}} }\n') == {"b": 1, "a": b"\x80\x12"}


@pytest.mark.parametrize(
    "data",
    [
        "", "18", "1c", "5f", "9f", "bf", "42aa", "5a7fffffff", "9a7fffffff", "ba7fffffff", "bb7fffffffffffffff", "f7",
        "f8ff", "f97e00", "f97c00", "fb7ff8000000000000", "a10101", "a2616101616102", "c100", "d82a00",
        "d82a4100", "d82a4101", "d82a5500", "62c328", "0000", "3bffffffffffffffff",
        "81" * (DEPTH_MAX + 1) + "00", "81" * 100_000, "fa7f", "6261", "8158", "815822aa",
    ],
)  # fmt: skip
def test_invalid_dag_cbor_is_rejected(data: str) -> None:
    with pytest.raises(Invalid):
        dag_cbor.decode(bytes.fromhex(data))


def test_a_block_of_too_many_small_items_is_rejected() -> None:
    """Each byte would become an object."""
    inner = b"\x99\xff\xff" + b"\x80" * 65535
    with pytest.raises(Invalid, match="more than 524288 items"):
        dag_cbor.decode(b"\x8a" + inner * 10)
    with pytest.raises(Invalid, match="more than 524288 items"):
        dag_json.decode(b"[" + b"[]," * 400_000 + b"1]")


def test_dag_cbor_of_other_writers_is_read() -> None:
    """Keys in any order, long heads, short floats: unambiguous, and the block is never written again."""
    assert dag_cbor.decode(bytes.fromhex("a2626161016162190002")) == {"aa": 1, "b": 2}
    assert dag_cbor.decode(bytes.fromhex("82f93e00fa3fc00000")) == [1.5, 1.5]


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_any_cbor_is_read_to_its_end_or_refused(data: bytes) -> None:
    try:
        node = dag_cbor.decode(data)
    except Invalid:
        return
    assert dag_cbor.decode(dag_cbor.encode(node)) == node
    with pytest.raises(Invalid, match="1 bytes follow"):
        dag_cbor.decode(data + b"\0")


@settings(deadline=None)
@given(st.floats(width=16, allow_nan=False, allow_infinity=False))
def test_half_floats_are_read(number: float) -> None:
    assert dag_cbor.decode(b"\xf9" + struct.pack(">e", number)) == number


@pytest.mark.parametrize("node", [2**64, -(2**63) - 1, float("nan"), float("inf"), "\ud800", {"\ud800": 1}, object()])
def test_an_unrepresentable_value_is_not_written(node: Node) -> None:
    for codec in (DAG_JSON, DAG_CBOR):
        with pytest.raises(Invalid):
            dag.encode(node, codec)


def test_the_mark_of_links_is_no_key_in_dag_json() -> None:
    with pytest.raises(Invalid, match="cannot be a key"):
        dag_json.encode({"/": "x"})


def test_nesting_is_bounded_when_written() -> None:
    node: Node = 1
    for _ in range(DEPTH_MAX + 1):
        node = [node]
    for codec in (DAG_JSON, DAG_CBOR):
        with pytest.raises(Invalid, match="deeper"):
            dag.encode(node, codec)


def test_a_block_of_another_codec_is_rejected() -> None:
    with pytest.raises(Invalid, match="0x55"):
        dag.decode(cid.of(b"1", RAW), b"1")


def test_bytes_under_a_wrong_name_are_refused() -> None:
    name, data = dag.encode({"a": 1})
    with pytest.raises(Invalid, match="have another hash"):
        dag.check(name, data + b" ")


@settings(deadline=None)
@given(st.dictionaries(keys, st.integers(-1000, 1000) | texts))
def test_dag_json_is_json(node: dict[str, int | str]) -> None:
    assert json.loads(dag_json.encode(dict(node))) == node
