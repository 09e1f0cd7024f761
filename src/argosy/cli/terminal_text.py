"""Untrusted text on a terminal: file names and lines are escaped so that they cannot control it.

Control characters, bidirectional and invisible characters, and undecodable bytes are written as `\\x1b`, `\\u202e`,
`\\xff`. A backslash is not escaped, so the output is not always reversible; `--json` and `--null` are exact.
"""

import re
from dataclasses import dataclass

import click

# All control characters but the tab; characters that direct or hide text and are not part of words (joiners are, in
# some scripts); and lone surrogates, by which Python represents undecodable bytes.
_HOSTILE = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)
_SHORT = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}
_UNDECODABLE = range(0xDC80, 0xDD00)


def safe_text(content: bytes) -> str:
    """A line of a file; tabs are kept."""
    return _HOSTILE.sub(_escape, content.decode("utf-8", "surrogateescape"))


def safe_name(name: str) -> str:
    """A file name, always on one line."""
    return _HOSTILE.sub(_escape, name).replace("\t", _SHORT["\t"])


def _escape(found: re.Match[str]) -> str:
    letter = found.group()
    code = ord(letter)
    if letter in _SHORT:
        return _SHORT[letter]
    if code in _UNDECODABLE:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


@dataclass(frozen=True, slots=True)
class Paint:
    """The colors of ripgrep, or none."""

    is_on: bool

    def path(self, text: str) -> str:
        return click.style(text, fg="magenta") if self.is_on else text

    def number(self, text: str) -> str:
        return click.style(text, fg="green") if self.is_on else text

    def match(self, text: str) -> str:
        return click.style(text, fg="red", bold=True) if self.is_on and text else text

    def aside(self, text: str) -> str:
        return click.style(text, dim=True) if self.is_on else text
