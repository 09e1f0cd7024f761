"""HAMTs: the other form of entries, a tree of blocks whose keys are the multihashes.

A reader walks every block and needs no hashing. A node is `[bitmap, items]`; an item is a link to a child block or a
bucket of `[key, value]` pairs. The root is `{hashAlg, bucketSize, hamt: node}`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256

from argosy.base.errors import Invalid
from argosy.ipni.formats import dag, fields, multihash
from argosy.ipni.formats.cid import DAG_CBOR, Cid
from argosy.ipni.formats.node import Node

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


def build(multihashes: Iterable[bytes], codec: int = DAG_CBOR) -> list[tuple[Cid, bytes]]:
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
