"""A compiled regular expression with the results of its analysis, and how it runs over many short pieces of text.

Pieces are copied to one buffer with separators, because an RE2 call per piece would cost more than the matching. A
match inside a separator is ignored. Pieces touched by a match that crosses into or out of a separator are matched
again, one by one.
"""

from enum import Enum
from functools import cached_property

import numpy as np

from argosy.search.arrays import I64, U8, U32, Flags, freeze
from argosy.search.kernels.lines import gather
from argosy.search.match.limits import Budget
from argosy.search.match.spans import NOTHING, merge_spans
from argosy.search.regex import Pattern, Prefilter, parse_regex, prefilter
from argosy.search.regex.analysis import LiteralSet, can_be_empty, has_text_anchors, line_span, literal_set

# Matches read from RE2 between two budget checks: as many as take about FAST_S, because their cost varies widely. RE2's
# binding returns one match per call, at about a microsecond; a pattern such as `(?s)a.*b|a` reads the rest of the text
# for each.
STEP_MIN, STEP_MAX = 16, 8192
FAST_S = 0.003
_NO_SPANS: I64 = freeze(np.empty((0, 2), np.int64))


class DecodeMode(Enum):
    """How the bytes of a text are decoded for RE2."""

    UTF8 = "utf8"  # valid; only ASCII letters fold to ASCII
    ODD_UTF8 = "odd"  # valid, contains a Kelvin sign or a long s
    BYTES = "bytes"  # invalid: every byte is a character


class Expression:
    """One pattern: its required substrings (`prefilter`), the line breaks a match can cross (`line_span`), and RE2."""

    def __init__(self, pattern: str, *, is_case_sensitive: bool) -> None:
        self.is_case_sensitive = is_case_sensitive
        self._pattern = Pattern.compile(pattern, is_case_sensitive=is_case_sensitive)
        self._tree = parse_regex(pattern)
        self.has_text_anchors: bool = has_text_anchors(self._tree)
        self.can_be_empty: bool = can_be_empty(self._tree)

    # Expensive properties are computed on first use. Of two threads that compute one at once, both get the same result.

    @cached_property
    def prefilter(self) -> Prefilter:
        return prefilter(self._tree, is_case_sensitive=self.is_case_sensitive)

    @cached_property
    def line_span(self) -> int | None:
        return line_span(self._tree)

    @cached_property
    def literal_set(self) -> LiteralSet | None:
        return literal_set(self._tree)

    @classmethod
    def of_text(cls, text: str, *, is_case_sensitive: bool) -> "Expression":
        return cls(quote(text), is_case_sensitive=is_case_sensitive)

    def find_all(self, text: U8 | memoryview, mode: DecodeMode, budget: Budget) -> I64:
        """The matches that are not empty, as rows (start, end) in order, until the budget is spent."""
        found: list[I64] = []
        at, step, is_more = 0, STEP_MIN, True
        # The first step is always made: the caller has just checked the budget.
        while is_more and not (found and budget.is_spent()):
            began = budget.now()
            spans = self._pattern.find_all(
                text, at, limit=step, is_utf8=mode is not DecodeMode.BYTES, with_empty=self.can_be_empty
            )
            if not spans:
                break
            rows = np.array(spans, np.int64)
            found.append(rows[rows[:, 1] > rows[:, 0]] if self.can_be_empty else rows)
            begin, end = spans[-1]
            at = end + (begin == end)  # inside a character only an empty match can begin
            is_more = len(spans) == step and at <= len(text)
            # Fast in both directions: one step of an expensive pattern can take many times as long as the one before
            # it.
            step = min(4 * step, STEP_MAX) if budget.now() - began < FAST_S else max(step // 4, STEP_MIN)
        return np.concatenate(found) if found else _NO_SPANS

    def matches(self, text: U8 | memoryview, mode: DecodeMode) -> bool:
        """Whether the pattern matches, possibly empty."""
        return self._pattern.matches(text, is_utf8=mode is not DecodeMode.BYTES)


def quote(text: str) -> str:
    """Escapes the text as a pattern that matches exactly it."""
    # By number, so that no character can have a meaning in the pattern.
    return "".join(char if char.isalnum() or ord(char) > 127 else f"\\x{ord(char):02x}" for char in text)


def find_in_pieces(
    expression: Expression, data: U8, starts: U32, ends: U32, mode: DecodeMode, budget: Budget
) -> tuple[U32, U32]:
    """The matches inside the pieces as (starts, ends) in the data, until the budget is spent."""
    if len(starts) == 0:
        return NOTHING, NOTHING
    if expression.has_text_anchors:  # in a buffer of many pieces, `\A` would match in the first one only
        return find_one_by_one(expression, data, starts, ends, mode, budget)
    text, begins = gather(data, freeze(starts), freeze(ends))
    found = expression.find_all(text, mode, budget)
    if len(found) == 0:
        return NOTHING, NOTHING
    first = np.searchsorted(begins, found[:, 0], "right") - 1  # the piece in or after which each match begins
    stops = begins + (ends.astype(np.int64) - starts)
    is_inside, is_again = _classify(found, first, begins, stops)
    good = is_inside & ~is_again[first]
    back = found[good] + (starts.astype(np.int64) - begins)[first[good]][:, None]
    sound = back[:, 0].astype(np.uint32), back[:, 1].astype(np.uint32)
    if not is_again.any():
        return sound
    return merge_spans([sound, find_one_by_one(expression, data, starts[is_again], ends[is_again], mode, budget)])


def _classify(found: I64, first: I64, begins: I64, stops: I64) -> tuple[Flags, Flags]:
    """Which matches are inside one piece, and which pieces are touched by one that is not."""
    last = np.searchsorted(begins, found[:, 1] - 1, "right") - 1
    is_inside: Flags = (last == first) & (found[:, 1] <= stops[last])
    # A match in the separator itself touches no piece and is dropped; any other one outside may hide matches of a
    # piece.
    is_astray = ~is_inside & ((last > first) | (found[:, 0] < stops[first]))
    edges = np.zeros(len(begins) + 1, np.int64)  # +1 at the start of a touched range of pieces, -1 after its end
    np.add.at(edges, (first + (found[:, 0] >= stops[first]))[is_astray], 1)
    np.add.at(edges, last[is_astray] + 1, -1)
    return is_inside, np.cumsum(edges)[:-1] > 0


def find_one_by_one(
    expression: Expression, data: U8, starts: U32, ends: U32, mode: DecodeMode, budget: Budget
) -> tuple[U32, U32]:
    """The same with a call per piece, for pieces of any size such as whole documents."""
    view = data.data
    found: list[I64] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if budget.is_spent():
            break
        rows = expression.find_all(view[start:end], mode, budget)
        if len(rows):
            found.append(rows + start)
    if not found:
        return NOTHING, NOTHING
    pairs = np.concatenate(found).astype(np.uint32)
    return pairs[:, 0].copy(), pairs[:, 1].copy()
