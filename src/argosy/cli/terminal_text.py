"""Text of strangers, made fit for a terminal: names and lines of files are shown, never obeyed.

Control characters (escape sequences begin with one), characters that turn the writing round or are invisible, and
bytes that are no text are written out as `\\x1b`, `\\u202e`, `\\xff`. A backslash stays as it is, so what is shown
cannot always be turned back; `--json` and `--null` are exact.
"""

import re
from dataclasses import dataclass

import click

# All controls but the tab; what directs or hides text without being part of a word (joiners are, in some scripts); and
# half surrogates, by which Python stands for undecodable bytes.
_HOSTILE = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)
_SHORT = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}
_UNDECODABLE = range(0xDC80, 0xDD00)


def safe_text(content: bytes) -> str:
    """A line of a file. Tabs stay."""
    return _HOSTILE.sub(_written_out, content.decode("utf-8", "surrogateescape"))


def safe_name(name: str) -> str:
    """A file's name, on one line whatever is in it."""
    return _HOSTILE.sub(_written_out, name).replace("\t", _SHORT["\t"])


def _written_out(found: re.Match[str]) -> str:
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
    """The colours, which are those of ripgrep; or none."""

    is_on: bool

    def path(self, text: str) -> str:
        return click.style(text, fg="magenta") if self.is_on else text

    def number(self, text: str) -> str:
        return click.style(text, fg="green") if self.is_on else text

    def match(self, text: str) -> str:
        return click.style(text, fg="red", bold=True) if self.is_on and text else text

    def aside(self, text: str) -> str:
        return click.style(text, dim=True) if self.is_on else text
