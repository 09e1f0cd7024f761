"""Blocks by CID: its codec selects the decoder, its hash verifies the bytes."""

from argosy.base.errors import Invalid
from argosy.ipni.formats import cid as cids
from argosy.ipni.formats import dag_cbor, dag_json, multihash
from argosy.ipni.formats.cid import DAG_CBOR, DAG_JSON, Cid
from argosy.ipni.formats.node import Node

CODECS = (DAG_JSON, DAG_CBOR)


def encode(node: Node, codec: int = DAG_JSON) -> tuple[Cid, bytes]:
    """The block and its CID."""
    data = dag_json.encode(node) if is_json(codec) else dag_cbor.encode(node)
    return cids.of(data, codec), data


def decode(cid: Cid, data: bytes) -> Node:
    """Decodes a block that has been verified where it was read (see `check`)."""
    return dag_json.decode(data) if is_json(cid.codec) else dag_cbor.decode(data)


def decode_map(cid: Cid, data: bytes) -> dict[str, Node]:
    node = decode(cid, data)
    if not isinstance(node, dict):
        raise Invalid(f"the block {cid} is not a map")
    return node


def check(cid: Cid, data: bytes) -> None:
    """Raises Invalid if the bytes do not have the hash of the CID."""
    if not multihash.is_of(cid.multihash, data):
        raise Invalid(f"the {len(data)} bytes received for {cid} have another hash")


def is_json(codec: int) -> bool:
    if codec not in CODECS:
        raise Invalid(f"codec {codec:#x} cannot be read: use dag-json or dag-cbor")
    return codec == DAG_JSON
