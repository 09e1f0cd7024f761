"""The data model of blocks: what dag-json and dag-cbor both can say, and the bounds on it."""

from __future__ import annotations

from math import isfinite

from argosy.base.errors import Invalid
from argosy.ipni.formats.cid import Cid

Node = None | bool | int | float | str | bytes | list["Node"] | dict[str, "Node"] | Cid

DEPTH_MAX = 32  # an advertisement has 4, a HAMT node 5
ITEMS_MAX = 1 << 19  # in all of a block: an item of one byte may cost a hundred in memory
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
    """Half of a surrogate pair, which JSON can write, is no text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Invalid(f"{text[:80]!r} is not text") from None
    return text
