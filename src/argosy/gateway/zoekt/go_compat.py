"""JSON and URL templates as Go's packages write them, because zoekt's clients were written against Go's encoder.

JSON has bytes in base64, escapes HTML characters and ends with a newline. URL templates are a small part of
`text/template`: fields (`{{.Version}}`) and `URLJoinPath` with quoted texts and fields, which escapes what it joins.
Other actions produce nothing rather than a guess.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote

import msgspec

ZERO_TIME = "0001-01-01T00:00:00Z"  # the zero value of Go's time.Time, which its clients read as unknown

# Go's encoder escapes these by default, and clients that embed the JSON in HTML rely on it. By first byte: searching
# for one byte is many times faster than searching for three.
_ESCAPES = (
    (b"<", b"<", rb"\u003c"),
    (b">", b">", rb"\u003e"),
    (b"&", b"&", rb"\u0026"),
    (b"\xe2", "\u2028".encode(), rb"\u2028"),
    (b"\xe2", "\u2029".encode(), rb"\u2029"),
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_ENCODER = msgspec.json.Encoder()


def encode(value: object) -> bytes:
    """Encode as JSON with Go's escapes."""
    # The escaped characters occur in JSON only inside strings, so the encoded text can be replaced as a whole.
    encoded = _ENCODER.encode(value)
    for sign, plain, escaped in _ESCAPES:
        if sign in encoded:
            encoded = encoded.replace(plain, escaped)
    return encoded + b"\n"


def text(value: str) -> str:
    """Encodable text: invalid bytes, kept as surrogates in paths, become U+FFFD."""
    return value if value.isascii() else _SURROGATE.sub("\ufffd", value)


def decode_text(content: bytes) -> str:
    """Decode content; each invalid byte becomes one U+FFFD, so that columns stay correct."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub("\ufffd", content.decode("utf-8", "surrogateescape"))


def time_text(seconds: float) -> str:
    """RFC 3339 in UTC, from seconds since 1970; 0 is unknown."""
    if seconds <= 0:
        return ZERO_TIME
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


# -- URL templates -----------------------------------------------------------------------------------------------------

_ACTION = re.compile(r"\{\{\s*(.*?)\s*\}\}")
_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|(\.\w+)|(\S+)')
_ESCAPED = re.compile(r"\\(.)")


def evaluate_template(template: str, fields: Mapping[str, str]) -> str:
    """Evaluate a template; fields are named without their dot."""
    return _ACTION.sub(lambda action: _action(action[1], fields), template)


def host_file_url(template: str, line_template: str, *, version: str, path: str, branch: str, line: int = 0) -> str:
    """The URL of a file or a line; empty if the repository has no template."""
    if not template:
        return ""
    url = evaluate_template(template, {"Version": version, "Path": path, "Branch": branch})
    return url + evaluate_template(line_template, {"LineNumber": str(line)}) if line else url


def _action(action: str, fields: Mapping[str, str]) -> str:
    words = list(_WORD.finditer(action))
    if len(words) == 1 and words[0][2]:
        return _escape_field(fields, words[0][2])
    if not words or words[0][3] != "URLJoinPath" or any(word[3] for word in words[1:]):
        return ""
    parts = [_part(word, fields) for word in words[1:]]
    return "/".join(part.strip("/") if i else part.rstrip("/") for i, part in enumerate(parts) if part)


def _part(word: re.Match[str], fields: Mapping[str, str]) -> str:
    if word[2]:
        return _escape_field(fields, word[2])
    return _ESCAPED.sub(r"\1", word[1])


def _escape_field(fields: Mapping[str, str], name: str) -> str:
    return quote(fields.get(name[1:], ""), safe="/", errors="surrogateescape")
