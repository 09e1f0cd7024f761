"""dag-cbor: CBOR with definite lengths, text keys and one tag, 42, for links.

The encoder writes the canonical form, which all implementations hash: shortest heads, keys sorted by length and then by
bytes, 64-bit floats. The decoder is lenient where real publishers are (decision 29): a block is verified against its
CID and never written again, so any order of keys, longer heads and shorter floats are accepted. It rejects what is
ambiguous or costs memory: indefinite lengths, other tags, keys that are duplicate or not text, numbers beyond 64 bits,
`undefined`, bytes after the end, nesting deeper than DEPTH_MAX, and more than ITEMS_MAX items.
"""

import struct
from functools import lru_cache

from argosy.base.errors import Invalid
from argosy.ipni.formats import cid
from argosy.ipni.formats.cid import Cid
from argosy.ipni.formats.node import DEPTH_MAX, ITEMS_MAX, Node, check_float, check_int

_UINT, _NEGATIVE, _BYTES, _TEXT, LIST, _MAP, _TAG, _SIMPLE = range(8)
_LINK_TAG = 42
_SIZES = {24: 1, 25: 2, 26: 4, 27: 8}  # by the head's additional information: bytes of the number that follows
_FLOATS = {25: ">e", 26: ">f", 27: ">d"}


def encode(node: Node) -> bytes:
    out: list[bytes] = []
    _write(node, out, 0)
    return b"".join(out)


def head(major: int, number: int) -> bytes:
    """The head of an item, in its shortest form."""
    if number < 24:
        return bytes([major << 5 | number])
    for info, size in _SIZES.items():
        if number < 1 << 8 * size:
            return bytes([major << 5 | info]) + number.to_bytes(size, "big")
    raise Invalid("a number is beyond 64 bits")


@lru_cache(256)  # the multihashes of a chunk have few lengths
def bytes_head(size: int) -> bytes:
    return head(_BYTES, size)


def list_head(size: int) -> bytes:
    return head(LIST, size)


def _write(node: Node, out: list[bytes], depth: int) -> None:
    if depth > DEPTH_MAX:
        raise Invalid(f"nesting is deeper than {DEPTH_MAX}")
    match node:
        case None:
            out.append(b"\xf6")
        case bool():
            out.append(b"\xf5" if node else b"\xf4")
        case int():
            check_int(node)
            out.append(head(_UINT, node) if node >= 0 else head(_NEGATIVE, -1 - node))
        case float():
            out.append(b"\xfb" + struct.pack(">d", check_float(node)))
        case bytes():
            out += (head(_BYTES, len(node)), node)
        case str():
            out.append(_text(node))
        case Cid():
            out += (head(_TAG, _LINK_TAG), head(_BYTES, len(node.bytes) + 1), b"\0", node.bytes)
        case list():
            out.append(head(LIST, len(node)))
            for each in node:
                _write(each, out, depth + 1)
        case dict():
            out.append(head(_MAP, len(node)))
            for key in sorted(node, key=_map_order):
                out.append(_text(key))
                _write(node[key], out, depth + 1)
        case _:
            raise Invalid(f"{type(node).__name__} is not a kind of node")


def _map_order(key: str) -> tuple[int, bytes]:
    # Only for sorting: `_text` rejects such a key with a message when it is written.
    data = key.encode(errors="surrogatepass")
    return len(data), data


def _text(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise Invalid(f"{text[:80]!r} is not text") from None
    return head(_TEXT, len(data)) + data


def decode(data: bytes) -> Node:
    node, end = decode_at(data, 0)
    if end != len(data):
        raise Invalid(f"{len(data) - end} bytes follow the block")
    return node


def decode_at(data: bytes, at: int) -> tuple[Node, int]:
    """The item that begins at `at`, and where it ends."""
    return _CborReader(data).read(at, 0)


def read_head(data: bytes, at: int) -> tuple[int, int, int]:
    """Major type, number, and where the head ends. For floats the number is the raw bits."""
    if at >= len(data):
        raise Invalid(f"the block ends at byte {at}, in the middle of an item")
    major, info = data[at] >> 5, data[at] & 31
    if info < 24:
        return major, info, at + 1
    size = _SIZES.get(info)
    # 31 would be an indefinite length, 28 to 30 are reserved.
    if size is None:
        raise Invalid(f"the head {data[at]:#04x} at byte {at} is not dag-cbor: lengths are definite")
    if at + 1 + size > len(data):
        raise Invalid(f"the block ends at byte {at}, in the middle of an item")
    return major, int.from_bytes(data[at + 1 : at + 1 + size], "big"), at + 1 + size


class _CborReader:
    """Reads one block and limits the number of its items."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._items_left = ITEMS_MAX

    def read(self, at: int, depth: int) -> tuple[Node, int]:
        if depth > DEPTH_MAX:
            raise Invalid(f"nesting is deeper than {DEPTH_MAX}")
        major, number, start = read_head(self._data, at)
        match major:
            case 0:
                return number, start
            case 1:
                return check_int(-1 - number), start
            case 2:
                return self._take(start, number), start + number
            case 3:
                return self._text(start, number), start + number
            case 4:
                return self._list(start, number, depth)
            case 5:
                return self._map(start, number, depth)
            case 6:
                return self._link(start, number)
            case _:
                return self._simple(at, start)

    def _take(self, at: int, size: int) -> bytes:
        if at + size > len(self._data):
            raise Invalid(f"{size} bytes are declared before byte {at}, and {len(self._data) - at} remain")
        return self._data[at : at + size]

    def _text(self, at: int, size: int) -> str:
        try:
            return self._take(at, size).decode()
        except UnicodeDecodeError:
            raise Invalid(f"the text at byte {at} is not UTF-8") from None

    def _list(self, at: int, size: int, depth: int) -> tuple[Node, int]:
        self._count(at, size)
        data = self._data
        items: list[Node] = []
        for _ in range(size):
            item: Node
            if data.startswith(b"\x58", at) and at + 1 < len(data) and (end := at + 2 + data[at + 1]) <= len(data):
                item, at = data[at + 2 : end], end  # fast path: nearly all items of a chunk are short byte strings
            else:
                item, at = self.read(at, depth + 1)
            items.append(item)
        return items, at

    def _map(self, at: int, size: int, depth: int) -> tuple[Node, int]:
        self._count(at, 2 * size)
        decoded: dict[str, Node] = {}
        for _ in range(size):
            major, number, start = read_head(self._data, at)
            if major != _TEXT:
                raise Invalid(f"the key at byte {at} is not text")
            key = self._text(start, number)
            # Two readers could take different ones of them, and both would match the CID.
            if key in decoded:
                raise Invalid(f"a map has the key {key[:80]!r} twice")
            decoded[key], at = self.read(start + number, depth + 1)
        return decoded, at

    def _count(self, at: int, count: int) -> None:
        # Every item takes at least one byte, so a larger count is rejected before memory is allocated for it.
        if count > len(self._data) - at:
            raise Invalid(f"{count} items are declared before byte {at}, and {len(self._data) - at} bytes remain")
        self._items_left -= count
        if self._items_left < 0:
            raise Invalid(f"the block has more than {ITEMS_MAX} items")

    def _link(self, at: int, tag: int) -> tuple[Cid, int]:
        if tag != _LINK_TAG:
            raise Invalid(f"the tag {tag} before byte {at} is not dag-cbor: only {_LINK_TAG} is, for links")
        major, size, start = read_head(self._data, at)
        link = self._take(start, size)
        if major != _BYTES or link[:1] != b"\0":
            raise Invalid(f"the link at byte {at} is not a byte string that begins with 00")
        return cid.decode(link[1:]), start + size

    def _simple(self, at: int, start: int) -> tuple[Node, int]:
        first = self._data[at]
        match first:
            case 0xF4:
                return False, start
            case 0xF5:
                return True, start
            case 0xF6:
                return None, start
        form = _FLOATS.get(first & 31)
        if form is None:
            raise Invalid(f"the value {first:#04x} at byte {at} is not dag-cbor")
        (number,) = struct.unpack(form, self._data[at + 1 : start])
        return check_float(number), start
