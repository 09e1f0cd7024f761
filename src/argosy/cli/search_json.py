"""Search results as JSON.

UTF-8 text is written unchanged. Of a name or line that is not UTF-8, the field has U+FFFD for invalid bytes, and a
second field, `…_base64`, has the exact bytes. Terminal control characters are escaped as JSON allows.
"""

import json
import re
from base64 import b64encode
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argosy.search.model import FileMatch, SearchResult

# JSON requires escapes only below U+0020; these also control terminals, or end lines for some readers.
_CONTROLS = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def document(value: Any, *, indent: int | None = None) -> str:
    """The value as JSON, on one line unless indented."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=None if indent else (",", ":"))
    return _CONTROLS.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def answer_fields(answer: "SearchResult") -> dict[str, Any]:
    """The fields of a result besides its files."""
    stats, limits_hit = plain(answer.stats), plain(answer.limits_hit)
    return {"stats": stats, "limits_hit": limits_hit, "is_complete": answer.is_complete}


def file_fields(file: "FileMatch", name: str) -> dict[str, Any]:
    """A matching file; the field `file` is its path relative to the working directory."""
    fields: dict[str, Any] = plain(file)
    del fields["encoded_matches"]  # only used between a node and a gateway
    return _exact("file", name) | fields


def plain(value: Any) -> Any:
    """Structs, enums and bytes as JSON types."""
    import msgspec

    return _to_json(msgspec.to_builtins(value, builtin_types=(bytes,)))


def _to_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: field for name, inner in value.items() for key, field in _field(name, inner).items()}
    if isinstance(value, list | tuple):
        return [_to_json(inner) for inner in value]
    if isinstance(value, str):  # a list has no second field for the exact bytes
        return value.encode("utf-8", "surrogateescape").decode(errors="replace")
    return value


def _field(name: str, value: Any) -> dict[str, Any]:
    return _exact(name, value) if isinstance(value, bytes | str) else {name: _to_json(value)}


def _exact(name: str, value: bytes | str) -> dict[str, Any]:
    content = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {name: content.decode(errors="replace"), f"{name}_base64": b64encode(content).decode()}
