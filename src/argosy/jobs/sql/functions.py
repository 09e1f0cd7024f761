"""Functions on lists and maps, which SQLite lacks and existing statements use. Lists and maps are JSON text here."""

from typing import Any

import msgspec

from argosy.jobs.sql.tables import Value


def element_at(container: Value, key: Value) -> str | None:
    """The values a map has under a key, as a list: of one, or of none."""
    found = _parse(container)
    if isinstance(found, dict):
        return _json([found[key]]) if key in found else "[]"
    if isinstance(found, list) and isinstance(key, int) and 1 <= key <= len(found):
        return _json([found[key - 1]])
    return None


def array_contains(items: Value, item: Value) -> bool | None:
    found = _parse(items)
    return item in found if isinstance(found, list) else None


def array_any_value(items: Value) -> Value:
    """The first that is not null."""
    found = _parse(items)
    values = found if isinstance(found, list) else []
    first = next((value for value in values if value is not None), None)
    return _json(first) if isinstance(first, dict | list) else first


def starts_with(text: Value, prefix: Value) -> bool | None:
    if not isinstance(text, str) or not isinstance(prefix, str):
        return None
    return text.startswith(prefix)


FUNCTIONS = (
    ("element_at", 2, element_at), ("array_contains", 2, array_contains), ("array_has", 2, array_contains),
    ("array_any_value", 1, array_any_value), ("starts_with", 2, starts_with),
)  # fmt: skip
# Of SQLite's own: what computes, and nothing that makes large values out of small ones or looks outside.
BUILT_IN = frozenset((
    "abs", "avg", "coalesce", "count", "cume_dist", "date", "datetime", "dense_rank", "first_value",
    "glob", "group_concat", "hex", "ifnull", "iif", "instr", "json_array_length", "json_extract", "json_type",
    "json_valid", "lag", "last_value", "lead", "length", "like", "lower", "ltrim", "max", "min", "nth_value", "ntile",
    "nullif", "percent_rank", "quote", "rank", "round", "row_number", "rtrim", "sign", "strftime", "substr",
    "substring", "sum", "time", "total", "trim", "typeof", "unicode", "upper", "->", "->>",
))  # fmt: skip


def _parse(value: Value) -> Any:
    if not isinstance(value, str):
        return None
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return None


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
