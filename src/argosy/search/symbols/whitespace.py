"""Squeezes whitespace, because most of a masked text is blank and RE2 would read every byte of it.

A run of whitespace becomes one space; if it contains newlines, one newline, followed by a space if the next line is
indented. Patterns still see lines and indentation, and never a carriage return. Preprocessor lines are removed and
their macros collected here, because a header can define thousands and nothing else.
"""

from dataclasses import dataclass

import numpy as np

from argosy.search.arrays import I32, U8
from argosy.search.kernels.compiler import helper, kernel

MACRO_BYTES = len("#define A\n")  # the shortest macro; it bounds their number in a text

_NEWLINE, _SPACE, _TAB, _RETURN = ord("\n"), ord(" "), ord("\t"), ord("\r")
_IS_BLANK = np.zeros(256, np.bool_)
_IS_BLANK[[_NEWLINE, _SPACE, _TAB, _RETURN]] = True


@dataclass(frozen=True, eq=False)
class SqueezedText:
    """Squeezed text, the original position of each byte, and the start and end of each macro name."""

    text: bytes
    places: I32
    macro_starts: I32
    macro_ends: I32


@helper
def _after_blanks(text: U8, at: int) -> int:
    """The next position on the line that is not blank."""
    while at < text.size and (text[at] == _SPACE or text[at] == _TAB):
        at += 1
    return at


@helper
def _word_end(text: U8, at: int) -> int:
    while at < text.size and not _IS_BLANK[text[at]]:
        at += 1
    return at


@helper
def _macro(text: U8, at: int) -> int:
    """The start of the name that the directive at `at` defines, or -1."""
    at = _after_blanks(text, at + 1)
    end = _word_end(text, at)
    is_define = end - at == 6 and text[at] == ord("d") and text[at + 2] == ord("f") and text[at + 5] == ord("e")
    name = _after_blanks(text, end)
    return name if is_define and name < text.size and not _IS_BLANK[text[name]] else -1


@kernel("UniTuple(int64, 2)(uint8[::1], boolean, uint8[::1], int32[::1], int32[:, ::1])")
def _squeeze(text: U8, has_directives: bool, out: U8, places: I32, macros: I32) -> tuple[int, int]:
    size, count, at, end = 0, 0, 0, text.size
    while at < end:
        if has_directives and text[at] == ord("#"):
            name = _macro(text, at)
            if name >= 0 and count < len(macros):
                macros[count, 0], macros[count, 1] = name, _word_end(text, name)
                count += 1
            while at < end and text[at] != _NEWLINE:
                at += 1
        elif not _IS_BLANK[text[at]]:
            out[size], places[size] = text[at], at
            size += 1
            at += 1
        else:
            line = -1
            while at < end and _IS_BLANK[text[at]]:
                # The last newline of the run, so that a position maps to the line on which the next code begins.
                line = at if text[at] == _NEWLINE else line
                at += 1
            if line >= 0:
                out[size], places[size] = _NEWLINE, line
                size += 1
            if line < at - 1:
                out[size], places[size] = _SPACE, at - 1
                size += 1
    return size, count


def squeeze(text: U8, *, has_directives: bool) -> SqueezedText:
    """Squeezes the text; the result ends with a newline."""
    out, places = np.empty(len(text) + 1, np.uint8), np.empty(len(text) + 1, np.int32)
    macros = np.empty((len(text) // MACRO_BYTES + 1 if has_directives else 0, 2), np.int32)
    size, count = _squeeze(text, has_directives, out, places, macros)
    # With a newline at the end, patterns need no case for the end of the text.
    out[size], places[size] = _NEWLINE, len(text)
    return SqueezedText(out[: size + 1].tobytes(), places[: size + 1], macros[:count, 0], macros[:count, 1])
