"""Checks of column values: only values that every store returns exactly as they were written are accepted.

A check is built once per column and runs for every row written, so each is a closure that tests the common types first.
It returns the size of the value in bytes.
"""

from collections.abc import Callable, Mapping
from math import isfinite

from argosy.base.errors import Invalid

KEY_PART_BYTES_MAX = 1024  # one part of a key, in UTF-8
PAYLOAD_BYTES_MAX = 16 << 20  # one log entry
EXACT_MAX = 1 << 53  # larger integers are not exact in Lua, which Redis scripts use
DEPTH_MAX = 32  # nesting of maps and lists
_NUMBER_BYTES = 8

Check = Callable[[object], int]


def text(name: str) -> Check:
    def check(value: object) -> int:
        if not isinstance(value, str):
            raise wrong(name, "text", value)
        return len(value) if value.isascii() else len(utf8(name, value))

    return check


def state(name: str, states: tuple[str, ...]) -> Check:
    sizes = {text: len(text) for text in states}

    def check(value: object) -> int:
        if not isinstance(value, str) or value not in sizes:
            raise wrong(name, f"one of {', '.join(states)}", value)
        return sizes[value]

    return check


def integer(name: str) -> Check:
    def check(value: object) -> int:
        if type(value) is int and -EXACT_MAX <= value <= EXACT_MAX:
            return _NUMBER_BYTES
        raise wrong(name, "integer", value) if type(value) is not int else inexact(name, value)

    return check


def boolean(name: str) -> Check:
    def check(value: object) -> int:
        if type(value) is not bool:
            raise wrong(name, "boolean", value)
        return 1

    return check


def raw(name: str) -> Check:
    def check(value: object) -> int:
        if type(value) is not bytes:
            raise wrong(name, "bytes", value)
        return len(value)

    return check


def texts(name: str) -> Check:
    item = text(f"an item of {name}")

    def check(value: object) -> int:
        if not isinstance(value, tuple):
            raise wrong(name, "list of texts, as a tuple", value)
        return sum(map(item, value))

    return check


def mapping(name: str) -> Check:
    def check(value: object) -> int:
        if not isinstance(value, Mapping):
            raise wrong(name, "map", value)
        return _json_size(name, value, 0) if value else 0

    return check


def check_key_part(table: str, part: object) -> None:
    """Raises `Invalid` unless a key part is a non-empty text of bounded length."""
    if not isinstance(part, str) or not 0 < len(utf8(f"a key of {table}", part)) <= KEY_PART_BYTES_MAX:
        raise Invalid(f"a key of {table} must be text of 1 to {KEY_PART_BYTES_MAX} bytes, not {part!r:.80}")


def check_payload(payload: object) -> None:
    """Raises `Invalid` unless the payload is one log entry of bounded size."""
    if not isinstance(payload, bytes) or len(payload) > PAYLOAD_BYTES_MAX:
        raise Invalid(f"a log entry must be at most {PAYLOAD_BYTES_MAX} bytes, not {payload!r:.80}")


def inexact(name: str, value: int) -> Invalid:
    return Invalid(f"{name} must lie within ±2^53 to be exact in every store, not {value}")


def utf8(name: str, value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise Invalid(f"{name} cannot be written as UTF-8: {value!r:.80}") from error


def wrong(name: str, expected: str, value: object) -> Invalid:
    return Invalid(f"{name} must be {expected}, not {value!r:.80}")


def _json_size(name: str, value: object, depth: int) -> int:
    """Size of a value inside a map, in bytes. Only JSON values are allowed."""
    if depth > DEPTH_MAX:
        raise Invalid(f"{name} is nested more than {DEPTH_MAX} levels deep")
    match value:
        case str():
            return len(value) if value.isascii() else len(utf8(name, value))
        case None | bool():
            return 1
        case int():
            if not -EXACT_MAX <= value <= EXACT_MAX:
                raise inexact(name, value)
            return _NUMBER_BYTES
        case float():
            if not isfinite(value):
                raise Invalid(f"{name} cannot hold {value}: JSON has no such number")
            return _NUMBER_BYTES
        case Mapping():
            size = 0
            for key, item in value.items():
                if not isinstance(key, str):
                    raise wrong(f"a key in {name}", "text", key)
                size += _json_size(name, key, depth) + _json_size(name, item, depth + 1)
            return size
        case list() | tuple():
            return sum(_json_size(name, item, depth + 1) for item in value)
    raise wrong(name, "JSON values", value)
