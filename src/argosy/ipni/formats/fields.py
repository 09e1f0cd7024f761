"""The fields of a decoded map: there and of the right kind, or Invalid with the field's name."""

from argosy.base.errors import Invalid
from argosy.ipni.formats.cid import Cid
from argosy.ipni.formats.node import Node

Fields = dict[str, Node]


def _refuse(name: str, kind: str) -> Invalid:
    return Invalid(f"the field {name} is missing or not {kind}")


def text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise _refuse(name, "text")
    return value


def content(fields: Fields, name: str, bytes_max: int | None = None) -> bytes:
    value = fields.get(name)
    if not isinstance(value, bytes):
        raise _refuse(name, "bytes")
    if bytes_max is not None and len(value) > bytes_max:
        raise Invalid(f"{name} has {len(value)} bytes: up to {bytes_max} are taken")
    return value


def flag(fields: Fields, name: str) -> bool:
    value = fields.get(name)
    if not isinstance(value, bool):
        raise _refuse(name, "true or false")
    return value


def number(fields: Fields, name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _refuse(name, "a whole number")
    return value


def link(fields: Fields, name: str) -> Cid:
    value = fields.get(name)
    if not isinstance(value, Cid):
        raise _refuse(name, "a link")
    return value


def optional_link(fields: Fields, name: str) -> Cid | None:
    """Absent or a link; null is neither."""
    return link(fields, name) if name in fields else None


def items(fields: Fields, name: str) -> list[Node]:
    value = fields.get(name)
    if not isinstance(value, list):
        raise _refuse(name, "a list")
    return value


def texts(fields: Fields, name: str, count_max: int) -> tuple[str, ...]:
    values = items(fields, name)
    if len(values) > count_max:
        raise Invalid(f"{name} has {len(values)} items: up to {count_max} are taken")
    found = tuple(value for value in values if isinstance(value, str))
    if len(found) != len(values):
        raise _refuse(name, "a list of texts")
    return found


def mapping(value: Node, name: str) -> Fields:
    if not isinstance(value, dict):
        raise _refuse(name, "a map")
    return value
