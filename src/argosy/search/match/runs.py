"""Finds runs of byte sets, such as `[0-9]{4}-[0-9]{2}`, without RE2.

Positions with a single byte (ignoring case) are compared first, so a run without such a position is not usable.
"""

from math import log2

import numpy as np

from argosy.search.arrays import I64, U8, U32, U64, freeze
from argosy.search.kernels.scan import scan_run
from argosy.search.match.budget import Budget
from argosy.search.match.needle import collect_positions, frequency

RUN_BYTES_MAX = 64  # one bit per position
_CASE = 32


class RunNeedle:
    """A prepared run of `regex.Prefilter`."""

    def __init__(self, run: tuple[frozenset[int], ...]) -> None:
        self._size = len(run)
        table = [0] * 256
        for place, allowed in enumerate(run):
            for byte in allowed:
                table[byte] |= 1 << place
        self._table: U64 = freeze(np.array(table, np.uint64))
        self._rare: I64 = freeze(np.array(sorted(singles(run), key=lambda place: frequency(run[place])), np.int64))
        self._pattern: U8 = freeze(np.array([max(allowed) for allowed in run], np.uint8))
        self._folds: U8 = freeze(np.array([_CASE if _is_letter(allowed) else 0 for allowed in run], np.uint8))

    def find(self, data: U8, starts: U32, ends: U32, budget: Budget) -> U32:
        """The positions in the ranges at which the run begins, ascending."""
        starts, ends = freeze(starts), freeze(ends)

        def resume(at: int, position: int, out: U32) -> tuple[int, int, int]:
            return scan_run(
                data, starts, ends, self._pattern, self._folds, self._rare, self._size, self._table, at, position, out
            )

        return collect_positions(resume, len(starts), budget)


def singles(run: tuple[frozenset[int], ...]) -> list[int]:
    """The positions with a single byte, or one letter in both cases."""
    return [place for place, allowed in enumerate(run) if len(allowed) == 1 or _is_letter(allowed)]


def _is_letter(allowed: frozenset[int]) -> bool:
    low, high = min(allowed), max(allowed)
    return len(allowed) == 2 and high - low == _CASE and ord("a") <= high <= ord("z")


def information(run: tuple[frozenset[int], ...]) -> float:
    """The information content of the run in bits, for random text."""
    return sum(8 - log2(len(allowed)) for allowed in run)


def best_run(runs: tuple[tuple[frozenset[int], ...], ...]) -> tuple[frozenset[int], ...] | None:
    """The most selective usable run that does not contain a newline."""
    usable = [run[:RUN_BYTES_MAX] for run in runs if not any(ord("\n") in allowed for allowed in run)]
    usable = [run for run in usable if len(run) > 1 and singles(run)]
    return max(usable, key=information, default=None)
