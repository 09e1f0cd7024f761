"""A compiled regular expression with the results of its analysis."""

from enum import Enum
from functools import cached_property

import numpy as np

from argosy.search.arrays import I64, U8, freeze
from argosy.search.match.budget import Budget
from argosy.search.regex import Pattern, Prefilter, parse_regex, prefilter
from argosy.search.regex.line_span import can_be_empty, has_text_anchors, line_span
from argosy.search.regex.literal_set import LiteralSet, literal_set

# Matches read from RE2 between two budget checks: as many as take about FAST_S, because their cost varies widely.
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

    # Expensive properties are computed on first use.

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
            step = min(4 * step, STEP_MAX) if budget.now() - began < FAST_S else max(step // 4, STEP_MIN)
        return np.concatenate(found) if found else _NO_SPANS

    def matches(self, text: U8 | memoryview, mode: DecodeMode) -> bool:
        """Whether the pattern matches, possibly empty."""
        return self._pattern.matches(text, is_utf8=mode is not DecodeMode.BYTES)


def quote(text: str) -> str:
    """Escapes the text as a pattern that matches exactly it."""
    return "".join(char if char.isalnum() or ord(char) > 127 else f"\\x{ord(char):02x}" for char in text)
