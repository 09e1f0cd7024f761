"""The entries of an advertisement: multihashes in a chain of chunks, or in a HAMT.

A multihash that does not parse is passed over and counted, as one bad entry says nothing of the others; a block that
is no chunk at all is Invalid.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from argosy.base.errors import Invalid
from argosy.ipni.formats import cid as cids
from argosy.ipni.formats import dag, dag_cbor, dag_json, fields, fixed_width, multihash
from argosy.ipni.formats.bases import base64
from argosy.ipni.formats.cid import DAG_CBOR, Cid
from argosy.ipni.formats.hamt import HamtNode, HamtRoot, root_of
from argosy.ipni.formats.node import ITEMS_MAX, Node

__all__ = ["Block", "EntryChunk", "HamtNode", "HamtRoot", "decode_chunk", "decode_entries", "encode_chunk"]


@dataclass(frozen=True)
class EntryChunk:
    """`skipped` entries were no multihashes."""

    multihashes: list[bytes]
    next: Cid | None = None
    skipped: int = 0


Block = EntryChunk | HamtNode

_JSON_BEGIN = b'{"Entries":['
_CBOR_KEY = b"\x67Entries"
_CBOR_NEXT_KEY = b"\x64Next"


def encode_chunk(multihashes: Sequence[bytes], next: Cid | None = None, codec: int = DAG_CBOR) -> tuple[Cid, bytes]:
    """The block and its name."""
    data = _json_chunk(multihashes, next) if dag.is_json(codec) else _cbor_chunk(multihashes, next)
    return cids.of(data, codec), data


def _json_chunk(multihashes: Sequence[bytes], next: Cid | None) -> bytes:
    items = ",".join([f'{{"/":{{"bytes":"{base64(each)}"}}}}' for each in multihashes])
    tail = f',"Next":{{"/":"{next}"}}' if next is not None else ""
    return f'{{"Entries":[{items}]{tail}}}'.encode()


def _cbor_chunk(multihashes: Sequence[bytes], next: Cid | None) -> bytes:
    start = b"\xa1" if next is None else b"\xa2" + _CBOR_NEXT_KEY + dag_cbor.encode(next)
    items = [part for each in multihashes for part in (dag_cbor.bytes_head(len(each)), each)]
    return b"".join((start, _CBOR_KEY, dag_cbor.list_head(len(multihashes)), *items))


def decode_chunk(cid: Cid, data: bytes) -> EntryChunk:
    """Regular chunks, which nearly all are, are read as a table; all others by the strict decoder."""
    fast = _fast_json(data) if dag.is_json(cid.codec) else _fast_cbor(data)
    return fast if fast is not None else _chunk(dag.decode_map(cid, data))


def decode_entries(cid: Cid, data: bytes) -> EntryChunk | HamtRoot:
    """The first block of an advertisement's entries, whichever it is."""
    fast = _fast_json(data) if dag.is_json(cid.codec) else _fast_cbor(data)
    if fast is not None:
        return fast
    node = dag.decode_map(cid, data)
    return root_of(node) if "hamt" in node else _chunk(node)


def _chunk(node: fields.Fields) -> EntryChunk:
    entries = fields.items(node, "Entries")
    found = [each for each in entries if isinstance(each, bytes) and multihash.is_whole(each)]
    if not all(isinstance(each, bytes) for each in entries):
        raise Invalid("the field Entries is not a list of bytes")
    return EntryChunk(found, fields.optional_link(node, "Next"), len(entries) - len(found))


def _fast_json(data: bytes) -> EntryChunk | None:
    if not data.startswith(_JSON_BEGIN):
        return None
    at = len(_JSON_BEGIN) - 1
    found = fixed_width.json_table(data, at) or fixed_width.json_items(data, at)
    if found is None:
        return None
    items, end = found
    return _with_rest(items, dag_json.decode(data[: at + 1] + b"]" + data[end:]))


def _fast_cbor(data: bytes) -> EntryChunk | None:
    """Either key may come first; which one does is told by its place, so nothing within a value is mistaken for it."""
    at = 1
    if data.startswith(b"\xa2" + _CBOR_NEXT_KEY):
        _, at = dag_cbor.decode_at(data, at + len(_CBOR_NEXT_KEY))
    if data[:1] not in (b"\xa1", b"\xa2") or not data.startswith(_CBOR_KEY, at):
        return None
    start = at + len(_CBOR_KEY)
    major, count, first = dag_cbor.read_head(data, start)
    if major != dag_cbor.LIST or not 0 < count <= ITEMS_MAX:
        return None
    found = fixed_width.cbor_table(data, first, count)
    if found is None:
        return None
    rows, end = found
    return _with_rest(rows, dag_cbor.decode(data[:start] + dag_cbor.list_head(0) + data[end:]))


def _with_rest(items: fixed_width.Table | list[bytes], rest: Node) -> EntryChunk | None:
    """What is around the list has been decoded strictly, with an empty list in its place."""
    if not isinstance(rest, dict) or "hamt" in rest:
        return None
    if not isinstance(items, list):
        found = fixed_width.multihashes(items)
        if found is not None:
            return EntryChunk(found, fields.optional_link(rest, "Next"))
        items = [row.tobytes() for row in items]
    found = [each for each in items if multihash.is_whole(each)]
    return EntryChunk(found, fields.optional_link(rest, "Next"), len(items) - len(found))
