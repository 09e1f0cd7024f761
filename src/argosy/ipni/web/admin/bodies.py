"""The bodies that admin routes read: JSON whose keys are matched in any case, as the original's servers do."""

from base64 import b64decode
from typing import Any

import msgspec

from argosy.base.errors import Invalid


def address(body: bytes) -> str | None:
    """Of a sync: a multiaddr as a JSON text, or nothing."""
    if not body.strip():
        return None
    value = _parsed(body)
    if not isinstance(value, str):
        raise Invalid("the body of a sync is a multiaddr as a JSON text, or empty")
    return value or None


def handoff(body: bytes) -> tuple[str, str]:
    """The id and the find URL of the indexer that froze."""
    values = _object(body)
    return _text(values, "FrozenID"), _url(_text(values, "FrozenURL"))


def import_url(body: bytes) -> str:
    """Of the indexer to import providers from; the wire has it in base64."""
    text = _text(_object(body), "indexer")
    try:
        return _url(b64decode(text, validate=True).decode())
    except ValueError:
        raise Invalid(f"the field indexer is a URL in base64, not {text[:80]!r}") from None


def _object(body: bytes) -> dict[str, Any]:
    value = _parsed(body)
    if not isinstance(value, dict):
        raise Invalid("the body is a JSON object")
    return {str(key).lower(): each for key, each in value.items()}


def _parsed(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as why:
        raise Invalid(f"the body is not JSON: {why}") from None


def _text(values: dict[str, Any], name: str) -> str:
    value = values.get(name.lower())
    if not isinstance(value, str) or not value:
        raise Invalid(f"the body lacks the field {name}, a text")
    return value


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise Invalid(f"{text[:80]!r} is not a URL: it begins with http:// or https://")
    return text
