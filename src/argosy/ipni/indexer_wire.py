"""JSON of an indexer's admin API, decoded; and the normal form of its URLs.

Keys are case-insensitive, as in storetheindex; a missing field has its zero value. A field of the wrong type is
Invalid: guessing could cause wrong assignments.
"""

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from argosy.base.errors import Invalid
from argosy.ipni.model import Assignment, IndexerStatus, StoreStats


def normalize_url(text: str) -> str:
    """The normal form of a base URL: http by default, without a slash at the end."""
    url = text.strip()
    if "://" not in url:
        url = f"http://{url}"
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_good = False
    if not is_good or parts.query or parts.fragment:
        raise Invalid(f"{text!r} is not the URL of an HTTP API; use http://host:port or https://host")
    return url.rstrip("/")


T = TypeVar("T")

QUOTED_CHARS_MAX = 200  # of foreign text in our messages
NS_PER_S = 1e9


def parse(data: bytes) -> Any:
    """Decodes JSON; an empty body, as with 204, is None."""
    if not data.strip():
        return None
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as why:
        raise Invalid(f"the answer is not JSON ({why}); check the URL") from None


def fields(node: Any) -> Mapping[str, Any]:
    """An object's fields by their names in lower case."""
    if not isinstance(node, dict):
        raise Invalid(f"expected a JSON object, not {truncate_repr(node)}")
    return {name.lower(): value for name, value in node.items()}


def field(node: Mapping[str, Any], name: str, zero: T) -> T:
    """One of `fields`; its zero value if it is absent or null."""
    value = node.get(name.lower())
    if value is None:
        return zero
    # JSON has one kind of number: a Go float without a fraction is written as an integer.
    if isinstance(zero, float) and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not type(zero):
        raise Invalid(f"{name} should be a {type(zero).__name__}, not {truncate_repr(value)}")
    found: T = value
    return found


def truncate_repr(value: object) -> str:
    text = repr(value)
    return text if len(text) <= QUOTED_CHARS_MAX else text[:QUOTED_CHARS_MAX] + "…"


def items(node: Any) -> list[Any]:
    """A list; null and nothing are empty ones."""
    if node is None:
        return []
    if not isinstance(node, list):
        raise Invalid(f"expected a JSON list, not {truncate_repr(node)}")
    return node


def status(data: bytes) -> IndexerStatus:
    decoded = fields(parse(data))
    found = IndexerStatus(field(decoded, "ID", ""), field(decoded, "Frozen", False), field(decoded, "Usage", 0.0))
    # A URL of another service may answer 200 with JSON too; an assigner must not take it for an indexer.
    if not found.id:
        raise Invalid("the status has no ID; check that this is the admin URL of an indexer")
    return found


def assignments(data: bytes) -> list[Assignment]:
    decoded = [fields(item) for item in items(parse(data))]
    return [Assignment(_required_text(each, "Publisher"), field(each, "Continued", "")) for each in decoded]


def texts(data: bytes) -> list[str]:
    found = items(parse(data))
    for item in found:
        if not isinstance(item, str):
            raise Invalid(f"expected a list of texts, not one with {truncate_repr(item)}")
    return found


def telemetry(data: bytes) -> dict[str, tuple[int, float, int]]:
    """By provider: multihashes, seconds, samples."""
    node = parse(data)
    if node is None:
        return {}
    if not isinstance(node, dict):
        raise Invalid(f"expected a JSON object, not {truncate_repr(node)}")
    decoded = {provider: fields(counts) for provider, counts in node.items()}
    return {
        provider: (field(counts, "Count", 0), field(counts, "Elapsed", 0.0) / NS_PER_S, field(counts, "Samples", 0))
        for provider, counts in decoded.items()
    }


def stats(data: bytes) -> StoreStats:
    """The counts of `/stats`, which has no others."""
    decoded = fields(parse(data))
    return StoreStats(entries=field(decoded, "EntriesCount", 0), values=0, disk_bytes=0)


def is_indexed(data: bytes) -> bool:
    return field(fields(parse(data)), "Indexed", False)


def refusal(data: bytes) -> str:
    """The error message: plain text, or our own JSON; truncated."""
    text = data.decode("utf-8", "replace").strip()
    try:
        decoded = fields(msgspec.json.decode(data))
        text = field(fields(decoded.get("error")), "message", text)
    except (Invalid, msgspec.DecodeError):
        pass  # plain text
    # In one line, because the text ends up in log lines and error messages.
    return " ".join(text.split())[:QUOTED_CHARS_MAX]


def _required_text(decoded: Mapping[str, Any], name: str) -> str:
    value = field(decoded, name, "")
    if not value:
        raise Invalid(f"an entry without {name}: {truncate_repr(dict(decoded))}")
    return value
