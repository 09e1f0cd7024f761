"""The entries of an advertisement: multihashes in a chain of chunks, or in a HAMT.

A multihash that does not parse is skipped and counted, because one bad entry does not make the others bad; a block
that is no chunk at all is Invalid.

The standard library decodes a chunk of dag-json at 0.4 million multihashes a second, which is less than the store takes
(decision 27). In a regular chunk the byte strings have one length and lie at equal distances, so they are checked and
cut as one numpy table; a block that is not regular goes to the strict decoders.
"""

from binascii import Error, a2b_base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from argosy.base.errors import Invalid
from argosy.ipni.formats import cid as cids
from argosy.ipni.formats import dag, dag_cbor, dag_json, multihash
from argosy.ipni.formats.bases import base64
from argosy.ipni.formats.cid import DAG_CBOR, Cid
from argosy.ipni.formats.node import ITEMS_MAX, Fields, Node, int_field, list_field, optional_link

# The default of IPLD's HAMT.
BUCKET_SIZE = 3
BIT_WIDTH = 8  # one level per byte of the hash: 256 slots, a bitmap of 32 bytes
_SLOTS = 1 << BIT_WIDTH
Table = NDArray[np.uint8]

_SIGNS = [bytes([sign]) for sign in b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"]
# By the length of base64 text modulo 4: what it may end in, so that no bit is left over, and the padding it lacks.
_LAST_SIGNS = (tuple(_SIGNS), (), tuple(_SIGNS[::16]), tuple(_SIGNS[::4]))
_PADDING = (b"", b"", b"==", b"=")
_JSON_BEFORE, _JSON_AFTER = b'{"/":{"bytes":"', b'"}}'
_JSON_BEGIN = b'{"Entries":['
_CBOR_KEY = b"\x67Entries"
_CBOR_NEXT_KEY = b"\x64Next"


@dataclass(frozen=True)
class EntryChunk:
    """A block of the chain; `skipped` entries were not multihashes."""

    multihashes: list[bytes]
    next: Cid | None = None
    skipped: int = 0


@dataclass(frozen=True)
class HamtNode:
    """The multihashes of one block and the blocks below it; `skipped` keys were not multihashes."""

    multihashes: list[bytes]
    children: list[Cid]
    skipped: int = 0


@dataclass(frozen=True)
class HamtRoot(HamtNode):
    """The first block, which declares how the keys are distributed. Readers visit every block and need not hash."""

    hash_code: int = multihash.SHA2_256
    bucket_size: int = BUCKET_SIZE


def encode_chunk(multihashes: Sequence[bytes], next: Cid | None = None, codec: int = DAG_CBOR) -> tuple[Cid, bytes]:
    """The block and its CID."""
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
    """Decodes regular chunks, which nearly all are, as a table, and all others strictly."""
    fast = _fast_json(data) if dag.is_json(cid.codec) else _fast_cbor(data)
    return fast if fast is not None else _chunk(dag.decode_map(cid, data))


def decode_entries(cid: Cid, data: bytes) -> EntryChunk | HamtRoot:
    """Decodes the first block of an advertisement's entries: only its content tells a chunk from a HAMT."""
    fast = _fast_json(data) if dag.is_json(cid.codec) else _fast_cbor(data)
    if fast is not None:
        return fast
    node = dag.decode_map(cid, data)
    return root_of(node) if "hamt" in node else _chunk(node)


def _chunk(node: Fields) -> EntryChunk:
    entries = list_field(node, "Entries")
    found = [each for each in entries if isinstance(each, bytes) and multihash.is_whole(each)]
    if not all(isinstance(each, bytes) for each in entries):
        raise Invalid("the field Entries is not a list of bytes")
    return EntryChunk(found, optional_link(node, "Next"), len(entries) - len(found))


def _fast_json(data: bytes) -> EntryChunk | None:
    if not data.startswith(_JSON_BEGIN):
        return None
    at = len(_JSON_BEGIN) - 1
    found = _json_table(data, at) or _json_items(data, at)
    if found is None:
        return None
    items, end = found
    return _with_rest(items, dag_json.decode(data[: at + 1] + b"]" + data[end:]))


def _fast_cbor(data: bytes) -> EntryChunk | None:
    """Reads the keys at their positions, in either order, so that the same bytes inside a value are not mistaken for
    them."""
    at = 1
    if data.startswith(b"\xa2" + _CBOR_NEXT_KEY):
        _, at = dag_cbor.decode_at(data, at + len(_CBOR_NEXT_KEY))
    if data[:1] not in (b"\xa1", b"\xa2") or not data.startswith(_CBOR_KEY, at):
        return None
    start = at + len(_CBOR_KEY)
    major, count, first = dag_cbor.read_head(data, start)
    if major != dag_cbor.LIST or not 0 < count <= ITEMS_MAX:
        return None
    found = _cbor_table(data, first, count)
    if found is None:
        return None
    rows, end = found
    return _with_rest(rows, dag_cbor.decode(data[:start] + dag_cbor.list_head(0) + data[end:]))


def _with_rest(items: Table | list[bytes], rest: Node) -> EntryChunk | None:
    """`rest` is the block around the list, decoded strictly with an empty list in its place."""
    # Not a chunk after all: the strict decoders decide.
    if not isinstance(rest, dict) or "hamt" in rest:
        return None
    if not isinstance(items, list):
        found = _as_multihashes(items)
        if found is not None:
            return EntryChunk(found, optional_link(rest, "Next"))
        items = [row.tobytes() for row in items]
    found = [each for each in items if multihash.is_whole(each)]
    return EntryChunk(found, optional_link(rest, "Next"), len(items) - len(found))


def _cbor_table(data: bytes, at: int, count: int) -> tuple[Table, int] | None:
    """The `count` byte strings from `at` on, one row each, and where they end; None if their lengths differ."""
    try:
        _, size, start = dag_cbor.read_head(data, at)
    except Invalid:
        return None
    frame = dag_cbor.bytes_head(size)
    stride = len(frame) + size
    end = at + count * stride
    if data[at:start] != frame or end > len(data) or not size:
        return None
    rows = np.frombuffer(data, np.uint8, count * stride, at).reshape(count, stride)
    return (rows[:, len(frame) :], end) if _all_begin(rows, frame) else None


def _json_table(data: bytes, at: int) -> tuple[Table, int] | None:
    """The bytes in the list that begins at `at`, one row each, and where the list ends; None if their lengths differ.

    Each row is `[` or `,`, then `{"/":{"bytes":"`, base64, and `"}}`. Base64 has no `]`, so the first one ends the
    list.
    """
    end = data.find(b"]", at)
    stop = data.find(b'"', at + 1 + len(_JSON_BEFORE), end)
    if end < 0 or stop < 0:
        return None
    signs = stop - at - 1 - len(_JSON_BEFORE)
    stride = 1 + len(_JSON_BEFORE) + signs + len(_JSON_AFTER)
    count, rest = divmod(end - at, stride)
    # The list is no whole number of rows, or no base64 has this length.
    if rest or not signs or signs % 4 == 1:
        return None
    rows = np.frombuffer(data, np.uint8, end - at, at).reshape(count, stride)
    text = rows[:, 1 + len(_JSON_BEFORE) : -len(_JSON_AFTER)]
    is_framed = (
        rows[0, 0] == ord("[")
        and bool((rows[1:, 0] == ord(",")).all())
        and _all_begin(rows[:, 1:], _JSON_BEFORE)
        and _all_begin(rows[:, -len(_JSON_AFTER) :], _JSON_AFTER)
    )
    made = _from_base64(text) if is_framed else None
    return (made, end + 1) if made is not None else None


def _json_items(data: bytes, at: int) -> tuple[list[bytes], int] | None:
    """As `_json_table`, for items of different lengths: the bytes between two items are always the same."""
    end = data.find(b"]", at)
    body = data[at + 1 : end] if end > at + 1 else b""
    if not (body.startswith(_JSON_BEFORE) and body.endswith(_JSON_AFTER)):
        return None
    texts = body[len(_JSON_BEFORE) : -len(_JSON_AFTER)].split(_JSON_AFTER + b"," + _JSON_BEFORE)
    if not all(text.endswith(_LAST_SIGNS[len(text) % 4]) for text in texts):
        return None
    try:
        return [a2b_base64(text + _PADDING[len(text) % 4], strict_mode=True) for text in texts], end + 1
    except Error:
        return None


def _from_base64(text: Table) -> Table | None:
    """Decodes all rows in one call: each is padded with `A`, which is zero, to a multiple of four characters."""
    count, signs = text.shape
    full = -(-signs // 4) * 4
    padded = np.full((count, full), ord("A"), np.uint8)
    padded[:, :signs] = text
    try:
        made = a2b_base64(padded.tobytes(), strict_mode=True)
    except Error:
        return None
    # Padding or other bytes inside a row would make the result shorter.
    if len(made) != count * full // 4 * 3:
        return None
    rows = np.frombuffer(made, np.uint8).reshape(count, full // 4 * 3)
    size = signs * 3 // 4
    # The bytes of the filled-up characters must be zero, or the text was not canonical.
    return None if rows[:, size:].any() else rows[:, :size]


def _all_begin(rows: Table, begin: bytes) -> bool:
    """Compares column by column, because there are few columns and many rows."""
    return all(bool((rows[:, column] == byte).all()) for column, byte in enumerate(begin))


def _as_multihashes(rows: Table) -> list[bytes] | None:
    """The rows as multihashes if all have the same function and length: then parsing the first one is enough."""
    first = rows[0].tobytes()
    try:
        _, digest = multihash.split(first)
    except Invalid:
        return None
    if not _all_begin(rows, first[: len(first) - len(digest)]):
        return None
    items: list[bytes] = np.ascontiguousarray(rows).view(f"V{len(first)}").ravel().tolist()
    return items


def decode_node(cid: Cid, data: bytes) -> HamtNode:
    """Decodes a block below the root."""
    keys, children, skipped = _parts(dag.decode(cid, data))
    return HamtNode(keys, children, skipped)


def root_of(node: Fields) -> HamtRoot:
    hash_code, bucket_size = int_field(node, "hashAlg"), int_field(node, "bucketSize")
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
    """The blocks of a HAMT of these keys, children before parents, the root last. Keys are distributed by sha2-256."""
    blocks: list[tuple[Cid, bytes]] = []
    node = _build([(sha256(each).digest(), each) for each in set(multihashes)], 0, codec, blocks)
    root: Node = {"hashAlg": multihash.SHA2_256, "bucketSize": BUCKET_SIZE, "hamt": node}
    return [*blocks, dag.encode(root, codec)]


def _build(keys: list[tuple[bytes, bytes]], depth: int, codec: int, blocks: list[tuple[Cid, bytes]]) -> Node:
    slots: dict[int, list[tuple[bytes, bytes]]] = {}
    for digest, key in keys:
        # A digest has 32 bytes, so the tree has at most 32 levels; keys with equal digests are equal.
        slots.setdefault(digest[depth], []).append((digest, key))
    items: list[Node] = []
    for slot in sorted(slots):
        inside = slots[slot]
        # Sorted, so that equal sets give equal blocks and CIDs.
        if len(inside) <= BUCKET_SIZE:
            items.append([[key, True] for key in sorted(key for _, key in inside)])
            continue
        block = dag.encode(_build(inside, depth + 1, codec, blocks), codec)
        blocks.append(block)
        items.append(block[0])
    bitmap = sum(1 << slot for slot in slots)
    return [bitmap.to_bytes(_SLOTS // 8, "big"), items]
