"""The data model of blocks: what dag-json and dag-cbor both can express, and its bounds.

`*_field` reads a field of a decoded map: it is there and of the right kind, or Invalid names it.
"""

from __future__ import annotations

from math import isfinite

from argosy.base.errors import Invalid
from argosy.ipni.formats.cid import Cid

Node = None | bool | int | float | str | bytes | list["Node"] | dict[str, "Node"] | Cid

DEPTH_MAX = 32  # an advertisement has 4, a HAMT node 5
ITEMS_MAX = 1 << 19  # per block: an item of one byte may take a hundred bytes in memory
# CBOR's 64 bits for positive numbers, and those of a signed integer for negative ones.
INT_MIN, INT_MAX = -(1 << 63), (1 << 64) - 1


def check_int(number: int) -> int:
    if not INT_MIN <= number <= INT_MAX:
        raise Invalid("a number is beyond 64 bits")
    return number


def check_float(number: float) -> float:
    if not isfinite(number):
        raise Invalid("a number is not finite")
    return number


def check_text(text: str) -> str:
    """Rejects half of a surrogate pair, which JSON can express and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Invalid(f"{text[:80]!r} is not text") from None
    return text


Fields = dict[str, Node]


def _wrong_field(name: str, kind: str) -> Invalid:
    return Invalid(f"the field {name} is missing or not {kind}")


def text_field(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise _wrong_field(name, "text")
    return value


def bytes_field(fields: Fields, name: str, bytes_max: int | None = None) -> bytes:
    value = fields.get(name)
    if not isinstance(value, bytes):
        raise _wrong_field(name, "bytes")
    if bytes_max is not None and len(value) > bytes_max:
        raise Invalid(f"{name} has {len(value)} bytes: up to {bytes_max} are accepted")
    return value


def bool_field(fields: Fields, name: str) -> bool:
    value = fields.get(name)
    if not isinstance(value, bool):
        raise _wrong_field(name, "true or false")
    return value


def int_field(fields: Fields, name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong_field(name, "a whole number")
    return value


def link_field(fields: Fields, name: str) -> Cid:
    value = fields.get(name)
    if not isinstance(value, Cid):
        raise _wrong_field(name, "a link")
    return value


def optional_link(fields: Fields, name: str) -> Cid | None:
    """None if the field is absent; null is an error, because no writer produces it."""
    return link_field(fields, name) if name in fields else None


def list_field(fields: Fields, name: str) -> list[Node]:
    value = fields.get(name)
    if not isinstance(value, list):
        raise _wrong_field(name, "a list")
    return value


def text_list_field(fields: Fields, name: str, count_max: int) -> tuple[str, ...]:
    values = list_field(fields, name)
    if len(values) > count_max:
        raise Invalid(f"{name} has {len(values)} items: up to {count_max} are accepted")
    found = tuple(value for value in values if isinstance(value, str))
    if len(found) != len(values):
        raise _wrong_field(name, "a list of texts")
    return found


def as_map(value: Node, name: str) -> Fields:
    if not isinstance(value, dict):
        raise _wrong_field(name, "a map")
    return value
