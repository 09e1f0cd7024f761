"""An answer as JSON.

Text that is UTF-8 is told as it is. Where a name or a line is not, the field holds it with U+FFFD for what cannot be
read, and a second field, `…_base64`, its very bytes. What would direct a terminal is escaped in JSON's own way.
"""

import json
import re
from base64 import b64encode
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argosy.search.model import FileMatch, SearchResult

# JSON demands an escape only below U+0020; these steer terminals as well, or end lines for some readers.
_STEERING = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def document(value: Any, *, indent: int | None = None) -> str:
    """The value as JSON, on one line unless indented."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, separators=None if indent else (",", ":"))
    return _STEERING.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def answer_fields(answer: "SearchResult") -> dict[str, Any]:
    """What is told of an answer besides its files."""
    stats, limits_hit = plain(answer.stats), plain(answer.limits_hit)
    return {"stats": stats, "limits_hit": limits_hit, "is_complete": answer.is_complete}


def file_fields(file: "FileMatch", name: str) -> dict[str, Any]:
    """A file that matched; `file` is its name as a person would write it from where they are."""
    fields: dict[str, Any] = plain(file)
    del fields["sealed"]  # is for between a node and a front door; files here are open
    return _exact("file", name) | fields


def plain(value: Any) -> Any:
    """Structs, enums and bytes as JSON knows them."""
    import msgspec

    return _told(msgspec.to_builtins(value, builtin_types=(bytes,)))


def _told(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: told for name, inner in value.items() for key, told in _field(name, inner).items()}
    if isinstance(value, list | tuple):
        return [_told(inner) for inner in value]
    if isinstance(value, str):  # in a list there is no room for a twin
        return value.encode("utf-8", "surrogateescape").decode(errors="replace")
    return value


def _field(name: str, value: Any) -> dict[str, Any]:
    return _exact(name, value) if isinstance(value, bytes | str) else {name: _told(value)}


def _exact(name: str, value: bytes | str) -> dict[str, Any]:
    content = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {name: content.decode(errors="replace"), f"{name}_base64": b64encode(content).decode()}
