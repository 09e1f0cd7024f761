"""The entries of an advertisement: multihashes in a chain of chunks, or in a HAMT.

A multihash that does not parse is passed over and counted, as one bad entry says nothing of the others; a block that
is no chunk at all is Invalid.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from argosy.base.errors import Invalid
from argosy.ipni.formats import cid as cids
from argosy.ipni.formats import dag, dag_cbor, dag_json, fields, fixed_width, multihash
from argosy.ipni.formats.bases import base64
from argosy.ipni.formats.cid import DAG_CBOR, Cid
from argosy.ipni.formats.node import ITEMS_MAX, Node

BUCKET_SIZE = 3
BIT_WIDTH = 8  # a child for every byte of the hash: 256 slots, a bitmap of 32 bytes
_SLOTS = 1 << BIT_WIDTH


@dataclass(frozen=True)
class HamtNode:
    """What one block holds, and the blocks below it; `skipped` keys were no multihashes."""

    multihashes: list[bytes]
    children: list[Cid]
    skipped: int = 0


@dataclass(frozen=True)
class HamtRoot(HamtNode):
    """The first block, which says how the keys were spread."""

    hash_code: int = multihash.SHA2_256
    bucket_size: int = BUCKET_SIZE


def decode_node(cid: Cid, data: bytes) -> HamtNode:
    """A block below the root."""
    keys, children, skipped = _parts(dag.decode(cid, data))
    return HamtNode(keys, children, skipped)


def root_of(node: fields.Fields) -> HamtRoot:
    hash_code, bucket_size = fields.number(node, "hashAlg"), fields.number(node, "bucketSize")
    keys, children, skipped = _parts(node.get("hamt"))
    return HamtRoot(keys, children, skipped, hash_code, bucket_size)


def _parts(node: Node) -> tuple[list[bytes], list[Cid], int]:
    match node:
        case [bytes(), list(items)]:
            pass
        case _:
            raise Invalid("a HAMT node is a list of two: its bitmap and its items")
    keys: list[bytes] = []
    children: list[Cid] = []
    for item in items:
        if isinstance(item, Cid):
            children.append(item)
        else:
            keys += _bucket(item)
    found = [key for key in keys if multihash.is_whole(key)]
    return found, children, len(keys) - len(found)


def _bucket(item: Node) -> Iterator[bytes]:
    if not isinstance(item, list):
        raise Invalid("an item of a HAMT node is a link or a bucket")
    for pair in item:
        match pair:
            case [bytes(key), _]:
                yield key
            case _:
                raise Invalid("a bucket of a HAMT holds pairs of a key and a value")


def encode_hamt(multihashes: Iterable[bytes], codec: int = DAG_CBOR) -> list[tuple[Cid, bytes]]:
    """The blocks of a HAMT of these keys, children before their parents, the root last. Keys are spread by sha2-256."""
    blocks: list[tuple[Cid, bytes]] = []
    node = _build([(sha256(each).digest(), each) for each in set(multihashes)], 0, codec, blocks)
    root: Node = {"hashAlg": multihash.SHA2_256, "bucketSize": BUCKET_SIZE, "hamt": node}
    return [*blocks, dag.encode(root, codec)]


def _build(keys: list[tuple[bytes, bytes]], depth: int, codec: int, blocks: list[tuple[Cid, bytes]]) -> Node:
    slots: dict[int, list[tuple[bytes, bytes]]] = {}
    for digest, key in keys:
        slots.setdefault(digest[depth], []).append((digest, key))
    items: list[Node] = []
    for slot in sorted(slots):
        inside = slots[slot]
        if len(inside) <= BUCKET_SIZE:
            items.append([[key, True] for key in sorted(key for _, key in inside)])
            continue
        block = dag.encode(_build(inside, depth + 1, codec, blocks), codec)
        blocks.append(block)
        items.append(block[0])
    bitmap = sum(1 << slot for slot in slots)
    return [bitmap.to_bytes(_SLOTS // 8, "big"), items]


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
