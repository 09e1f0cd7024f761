"""RE2 where captures are wanted: one compiled pattern, asked for the spans of its groups.

This is the second and last module that touches RE2 (the first is `engine.py`, which serves queries and has no
captures). Patterns here are ours or made from globs, texts are bytes of any encoding, so both are Latin-1: a byte is a
character, and nothing can fail to decode. RE2 is linear in the text whatever the pattern, and lets go of the GIL.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import re2

Span: TypeAlias = tuple[int, int]
Text: TypeAlias = bytes | npt.NDArray[np.uint8]

NOWHERE = -1                            # the start of a group that took no part
PATTERN_MEMORY_BYTES = 64 << 20         # for the automaton of one pattern; RE2's own 8 MiB is short for 256 globs


class Scanner:
    """One pattern, in which `^` and `$` are line anchors."""

    __slots__ = ("_match",)

    def __init__(self, source: bytes) -> None:
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.max_mem = PATTERN_MEMORY_BYTES
        options.log_errors = False
        self._match = re2.compile(b"(?m)" + source, options)._regexp.Match

    def next(self, text: Text, start: int, end: int) -> list[Span]:
        """The spans of the first match from `start` on: its own, then its groups'. No match has its own NOWHERE."""
        found: list[Span] = self._match(re2._Anchor.UNANCHORED, text, start, end)
        return found

    def is_in(self, text: Text) -> bool:
        """Whether it matches anywhere."""
        return bool(self._match(re2._Anchor.UNANCHORED, text, 0, len(text))[0][0] != NOWHERE)
