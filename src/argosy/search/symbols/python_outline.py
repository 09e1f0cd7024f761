"""The outline of Python: blanks function bodies, brackets and continuation lines, except for definitions.

An assignment in a module or a class declares a variable; one inside a function does not.
"""

import numba
import numpy as np

from argosy.search.arrays import I32, U8
from argosy.search.kernels.compiler import helper, kernel

DEPTH_MAX = 100  # nested indentation levels, the limit of CPython's tokenizer
TAB_COLUMNS = 8  # as Python counts

_NEWLINE, _SPACE, _TAB = ord("\n"), ord(" "), ord("\t")
_COLUMN, _FUNCTION = 0, 1


@helper
def _is_word_at(out: U8, at: int, end: int, first: int, second: int, length: int) -> bool:
    """Whether a word of this length that begins with these bytes follows, and then a blank.

    Two letters and the length identify `def`, `async` and `class`. They also match `del`, which does no harm: no line
    below it is indented more, so its scope ends at once.
    """
    if at + length >= end or out[at] != first or out[at + 1] != second:
        return False
    return bool(out[at + length] == _SPACE or out[at + length] == _TAB)


@helper
def _brackets(out: U8, start: int, end: int, depth: int) -> int:
    for at in range(start, end):
        byte = out[at]
        if byte == ord("(") or byte == ord("[") or byte == ord("{"):
            depth += 1
        elif byte == ord(")") or byte == ord("]") or byte == ord("}"):
            depth = max(0, depth - 1)
    return depth


@helper
def _wipe(out: U8, start: int, end: int) -> None:
    for at in range(start, end):
        out[at] = _SPACE


@kernel(numba.void(numba.uint8[::1]))
def _blank_bodies(out: U8) -> None:
    scopes = np.zeros((DEPTH_MAX, 2), np.int32)
    depth, brackets, start = 0, 0, 0
    is_continued = False
    while start < out.size:
        end = start
        while end < out.size and out[end] != _NEWLINE:
            end += 1
        at, column = start, 0
        while at < end and (out[at] == _SPACE or out[at] == _TAB):
            column += TAB_COLUMNS if out[at] == _TAB else 1
            at += 1
        # Blank lines have no indentation, so they end no scope.
        is_blank = at >= end or out[at] == 13
        if is_blank:
            pass
        # A continued line has any indentation, so it must not end a scope.
        elif brackets or is_continued:
            brackets = _brackets(out, at, end, brackets)
            _wipe(out, start, end)
        else:
            while depth and column <= scopes[depth - 1, _COLUMN]:
                depth -= 1
            is_def = _is_word_at(out, at, end, ord("d"), ord("e"), 3)
            is_def = is_def or _is_word_at(out, at, end, ord("a"), ord("s"), 5)
            is_class = _is_word_at(out, at, end, ord("c"), ord("l"), 5)
            brackets = _brackets(out, at, end, 0)
            if (is_def or is_class) and depth < DEPTH_MAX:
                scopes[depth, _COLUMN], scopes[depth, _FUNCTION] = column, is_def
                depth += 1
            elif depth and scopes[depth - 1, _FUNCTION]:
                _wipe(out, start, end)
        is_continued = end > start and out[end - 1] == ord("\\")
        start = end + 1


def blank_bodies(text: U8) -> None:
    """Blanks in place everything but definitions and the statements of modules and classes."""
    _blank_bodies(text)


@kernel(numba.void(numba.uint8[::1], numba.int32[::1], numba.int32[::1]))
def _columns(text: U8, starts: I32, found: I32) -> None:
    at, column, is_margin = 0, 0, True
    for number in range(starts.size):
        while at < starts[number]:
            byte = text[at]
            if byte == _NEWLINE:
                column, is_margin = 0, True
            elif is_margin and byte in (_SPACE, _TAB):
                column += TAB_COLUMNS if byte == _TAB else 1
            else:
                is_margin = False
            at += 1
        found[number] = column


def columns(text: U8, starts: I32) -> list[int]:
    """The indentation of the line of each position; positions ascend."""
    found = np.empty(len(starts), np.int32)
    _columns(text, starts, found)
    listed: list[int] = found.tolist()
    return listed
