"""Looking for bytes in a row of which each may be one of several: `[0-9]{4}-[0-9]{2}` without running RE2.

The places that allow a single byte (up to case) are compared first, so a run without such a place is of no use here.
"""

from math import log2

import numpy as np

from argosy.search.index.segment import I64, U8, U32, U64, frozen
from argosy.search.kernels.scan import scan_run
from argosy.search.match.budget import Budget
from argosy.search.match.needle import collected, frequency

RUN_BYTES_MAX = 64  # a place has a bit
_CASE = 32


class RunNeedle:
    """One run, as `regex.Prefilter` has it."""

    def __init__(self, run: tuple[frozenset[int], ...]) -> None:
        self._size = len(run)
        table = [0] * 256
        for place, allowed in enumerate(run):
            for byte in allowed:
                table[byte] |= 1 << place
        self._table: U64 = frozen(np.array(table, np.uint64))
        self._rare: I64 = frozen(np.array(sorted(singles(run), key=lambda place: frequency(run[place])), np.int64))
        self._pattern: U8 = frozen(np.array([max(allowed) for allowed in run], np.uint8))
        self._folds: U8 = frozen(np.array([_CASE if _is_letter(allowed) else 0 for allowed in run], np.uint8))

    def find(self, data: U8, starts: U32, ends: U32, budget: Budget) -> U32:
        """Where such runs begin inside the ranges, ascending."""
        starts, ends = frozen(starts), frozen(ends)

        def resume(at: int, position: int, out: U32) -> tuple[int, int, int]:
            return scan_run(
                data, starts, ends, self._pattern, self._folds, self._rare, self._size, self._table, at, position, out
            )

        return collected(resume, len(starts), budget)


def singles(run: tuple[frozenset[int], ...]) -> list[int]:
    """The places of one byte, or of one letter in both cases."""
    return [place for place, allowed in enumerate(run) if len(allowed) == 1 or _is_letter(allowed)]


def _is_letter(allowed: frozenset[int]) -> bool:
    low, high = min(allowed), max(allowed)
    return len(allowed) == 2 and high - low == _CASE and ord("a") <= high <= ord("z")


def information(run: tuple[frozenset[int], ...]) -> float:
    """How much a place in random text would have to be like the run, in bits."""
    return sum(8 - log2(len(allowed)) for allowed in run)


def best_run(runs: tuple[tuple[frozenset[int], ...], ...]) -> tuple[frozenset[int], ...] | None:
    """The most telling run that can be looked for and does not cross a line."""
    usable = [run[:RUN_BYTES_MAX] for run in runs if not any(ord("\n") in allowed for allowed in run)]
    usable = [run for run in usable if len(run) > 1 and singles(run)]
    return max(usable, key=information, default=None)
