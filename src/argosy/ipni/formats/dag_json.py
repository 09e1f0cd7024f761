"""dag-json: JSON in which bytes are `{"/":{"bytes":"<base64>"}}` and links `{"/":"<cid>"}`.

The encoder writes the canonical form, which all implementations hash: keys sorted, no blanks, base64 without padding.
The decoder accepts blanks, any order of keys, and padding, because a block is verified against its CID and never
written again. It rejects duplicate keys, numbers beyond 64 bits, NaN and infinities, a `/` key that is neither bytes
nor link, nesting deeper than DEPTH_MAX, and more than ITEMS_MAX items.
"""

import json
from typing import Any

from argosy.base.errors import Invalid
from argosy.ipni.formats import cid
from argosy.ipni.formats.bases import base64, from_base64
from argosy.ipni.formats.cid import Cid
from argosy.ipni.formats.node import DEPTH_MAX, ITEMS_MAX, Node, check_float, check_int, check_text


def encode(node: Node) -> bytes:
    """Raises Invalid for what dag-json cannot express."""
    text = json.dumps(_plain(node, 0), ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode()


def _plain(node: Node, depth: int) -> Any:
    if depth > DEPTH_MAX:
        raise Invalid(f"nesting is deeper than {DEPTH_MAX}")
    match node:
        case None | bool():
            return node
        case str():
            return check_text(node)
        case int():
            return check_int(node)
        case float():
            return check_float(node)
        case bytes():
            return {"/": {"bytes": base64(node)}}
        case Cid():
            return {"/": str(node)}
        case list():
            return [_plain(each, depth + 1) for each in node]
        case dict():
            if "/" in node:
                raise Invalid('"/" cannot be a key: it marks bytes and links')
            return {check_text(key): _plain(value, depth + 1) for key, value in node.items()}
    raise Invalid(f"{type(node).__name__} is not a kind of node")


def decode(data: bytes) -> Node:
    # Counted before json.loads allocates; punctuation inside texts counts too, which makes the bound a little tighter.
    if data.count(b",") + data.count(b"[") + data.count(b"{") > ITEMS_MAX:
        raise Invalid(f"the block has more than {ITEMS_MAX} items")
    try:
        parsed = json.loads(
            data.decode(), object_pairs_hook=_map, parse_constant=_no_constant, parse_int=_int, parse_float=_float
        )
    except UnicodeDecodeError:
        raise Invalid("the block is not UTF-8 text") from None
    # Python's parser recurses, so very deep nesting fails there before it is counted.
    except RecursionError:
        raise Invalid(f"nesting is deeper than {DEPTH_MAX}") from None
    except ValueError as error:
        raise Invalid(f"the block is not JSON: {error}") from None
    return _node(parsed, 0)


def _map(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    decoded = dict(pairs)
    if len(decoded) != len(pairs):
        raise Invalid("a map has a duplicate key")
    return decoded


def _no_constant(text: str) -> None:
    raise Invalid(f"{text} is not a number of dag-json")


def _int(text: str) -> int:
    # int() is quadratic in the length; 20 characters hold every 64-bit number, and longer texts are out of range.
    return check_int(int(text)) if len(text) <= 20 else check_int(1 << 64)


def _float(text: str) -> float:
    return check_float(float(text))


def _node(value: Any, depth: int) -> Node:
    if depth > DEPTH_MAX:
        raise Invalid(f"nesting is deeper than {DEPTH_MAX}")
    if isinstance(value, dict):
        # Reserved: any other map with this key is rejected, so a link cannot be mistaken for data.
        if "/" in value:
            return _bytes_or_link(value)
        return {check_text(key): _node(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list):
        return [_node(each, depth + 1) for each in value]
    if isinstance(value, str):
        return check_text(value)
    assert value is None or isinstance(value, bool | int | float)
    return value


def _bytes_or_link(value: dict[str, Any]) -> bytes | Cid:
    match value:
        case {"/": str(text), **rest} if not rest:
            return cid.parse(text)
        case {"/": {"bytes": str(text), **more}, **rest} if not rest and not more:
            return from_base64(text)
    raise Invalid('a map with the key "/" is {"/":"<cid>"} or {"/":{"bytes":"<base64>"}}')
