"""A regular expression as matching needs it: compiled, and with all that is known about its matches."""

from enum import Enum

from argosy.search.index.segment import U8
from argosy.search.regex import Needs, Pattern, needs, parse_regex
from argosy.search.regex.finite import Finite, finite
from argosy.search.regex.reach import can_be_empty, has_text_anchors, line_reach


class Manner(Enum):
    """How a text is to be read."""

    UTF8 = "utf8"                       # valid, and ASCII letters are the only ones that fold to ASCII
    ODD_UTF8 = "odd"                    # valid, with a Kelvin sign or a long s in it
    BYTES = "bytes"                     # not valid: every byte is a character


class Expression:
    """One pattern: what every match holds (`needs`), how many line ends it may pass (`reach`), and RE2 to find it."""

    def __init__(self, pattern: str, *, is_case_sensitive: bool) -> None:
        self.is_case_sensitive = is_case_sensitive
        self._pattern = Pattern.compile(pattern, is_case_sensitive=is_case_sensitive)
        tree = parse_regex(pattern)
        self.needs: Needs = needs(tree, is_case_sensitive=is_case_sensitive)
        self.reach: int | None = line_reach(tree)
        self.has_text_anchors: bool = has_text_anchors(tree)
        self.can_be_empty: bool = can_be_empty(tree)
        self.finite: Finite | None = finite(tree, is_case_sensitive=is_case_sensitive)

    @classmethod
    def of_text(cls, text: str, *, is_case_sensitive: bool) -> "Expression":
        return cls(quoted(text), is_case_sensitive=is_case_sensitive)

    def find_all(self, text: U8 | memoryview, limit: int, manner: Manner) -> list[tuple[int, int]]:
        """Its matches that are not empty, from left to right, at most so many."""
        return self._pattern.find_all(text, limit=limit, is_utf8=manner is not Manner.BYTES)

    def matches(self, text: U8 | memoryview, manner: Manner) -> bool:
        """Whether it matches anything, be it nothing."""
        return self._pattern.matches(text, is_utf8=manner is not Manner.BYTES)


def quoted(text: str) -> str:
    """A pattern that matches exactly this text."""
    return "".join(char if char.isalnum() or ord(char) > 127 else f"\\x{ord(char):02x}" for char in text)
