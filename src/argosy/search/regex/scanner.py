"""RE2 where captures are wanted: one compiled pattern, asked for the spans of its groups.

Queries, which have no captures, are in `engine.py`. Patterns here are ours or made from globs, texts are bytes of any
encoding, so both are Latin-1: a byte is a character, and nothing can fail to decode. RE2 is linear in the text whatever
the pattern, and releases the GIL.
"""

from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from argosy.base.errors import Invalid
from argosy.search.regex.binding import NOWHERE, Program, compile_program, latin1, new_options

Text: TypeAlias = bytes | npt.NDArray[np.uint8]

PATTERN_MEMORY_BYTES = 64 << 20  # for the automaton of one pattern; RE2's own 8 MiB is short for 256 globs
PATTERNS_CACHED_MAX = 128  # the same globs are compiled for every repository


class Scanner:
    """One pattern, in which `^` and `$` are line anchors.

    `next(text, start, end)` returns the spans of the first match in the range: its own, then its groups'. Without a
    match its own span begins at NOWHERE.
    """

    __slots__ = ("next",)

    def __init__(self, source: bytes) -> None:
        self.next = _compile(source).match

    def is_in(self, text: Text) -> bool:
        """Whether it matches anywhere."""
        return self.next(text, 0, len(text))[0][0] != NOWHERE


@lru_cache(maxsize=PATTERNS_CACHED_MAX)
def _compile(source: bytes) -> Program:
    options = new_options()
    options.encoding = latin1()
    options.max_mem = PATTERN_MEMORY_BYTES
    program = compile_program(b"(?m)" + source, options)
    if program.error:
        raise Invalid(f"cannot compile the pattern {source[:80]!r}: {program.error[:80]}; use fewer or simpler globs")
    return program
