"""Text that every match of a pattern contains: one of a few literals, or a run of byte sets such as `[0-9]{4}-`.

A required text lies on one line. Its blocks are found by trigrams, its positions by a scan, and RE2 reads only the
lines around those positions. Of a run, the positions with a single byte (ignoring case) are compared first, so a run
without such a position is not usable.
"""

from functools import cached_property
from math import log2
from typing import Protocol

import numpy as np

from argosy.search.arrays import I64, U8, U32, U64, freeze
from argosy.search.index.index import Segment
from argosy.search.kernels.scan import scan_run
from argosy.search.kernels.trigrams import CLASSES
from argosy.search.match.limits import Budget
from argosy.search.match.needle import NO_KEYS, Needle, collect_positions, find_each, frequency, mask_of_any
from argosy.search.match.spans import Mask
from argosy.search.regex import Literal, Prefilter

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
        # Of a letter in both cases the greater byte is the lower case, which the scan compares after setting the case
        # bit.
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
    # Only meaningful in comparisons: bytes of source text are not equally frequent.
    return sum(8 - log2(len(allowed)) for allowed in run)


def best_run(runs: tuple[tuple[frozenset[int], ...], ...]) -> tuple[frozenset[int], ...] | None:
    """The most selective usable run that does not contain a newline."""
    # RE2 reads lines around the run, so the run itself must lie on one.
    usable = [run[:RUN_BYTES_MAX] for run in runs if not any(ord("\n") in allowed for allowed in run)]
    usable = [run for run in usable if len(run) > 1 and singles(run)]
    return max(usable, key=information, default=None)


WINDOW_KEYS_MAX = 300  # a window of three byte sets with more combinations is in most blocks
WINDOWS_MAX = 6  # the most selective ones are looked up
CLAUSE_LITERALS_MAX = 8  # each literal is a scan of its own, so more of them cost more than they save

Run = tuple[frozenset[int], ...]


class RequiredText(Protocol):
    @property
    def keys(self) -> I64:
        """The keys looked up to find its blocks."""
        ...

    def blocks(self, segment: Segment) -> Mask:
        """The blocks that can contain it."""
        ...

    def find(self, data: U8, starts: U32, ends: U32, budget: Budget) -> U32:
        """Its positions inside these ranges, ascending."""
        ...


class RequiredLiteral:
    """One of a few literals."""

    def __init__(self, needles: tuple[Needle, ...]) -> None:
        self._needles = needles

    @property
    def only(self) -> Needle | None:
        """The literal, if it is the only one."""
        return self._needles[0] if len(self._needles) == 1 else None

    @property
    def keys(self) -> I64:
        return np.concatenate([needle.lookups for needle in self._needles])

    def blocks(self, segment: Segment) -> Mask:
        mask = np.zeros(segment.content.blocks, np.bool_)
        for needle in self._needles:
            mask[needle.blocks(segment.postings, segment.content.blocks)] = True
        return mask

    def find(self, data: U8, starts: U32, ends: U32, budget: Budget) -> U32:
        places = find_each(self._needles, data, starts, ends, budget)
        # Two literals can begin at one position, and a line needs to be read once.
        return places[0] if len(places) == 1 else np.unique(np.concatenate(places))


class RequiredByteRun:
    """A run of byte sets."""

    def __init__(self, run: Run) -> None:
        self._run = run

    # Computed on first use: another required literal is often rare enough.

    @cached_property
    def _needle(self) -> RunNeedle:
        return RunNeedle(self._run)

    @cached_property
    def _windows(self) -> list[I64]:
        return windows([self._run])

    @property
    def keys(self) -> I64:
        return np.concatenate([NO_KEYS, *self._windows])

    def blocks(self, segment: Segment) -> Mask:
        mask = np.ones(segment.content.blocks, np.bool_)
        for keys in self._windows:
            mask &= window_blocks(keys, segment)
        return mask

    def find(self, data: U8, starts: U32, ends: U32, budget: Budget) -> U32:
        return self._needle.find(data, starts, ends, budget)


def required_texts(prefilter: Prefilter) -> list[RequiredText]:
    """The required texts that are worth searching for, those with fast lookups first."""
    needles = [clause for clause in map(_needles, prefilter.clauses) if clause is not None]
    found: list[RequiredText] = [RequiredLiteral(clause) for clause in needles if not _is_implied(clause, needles)]
    run = best_run(prefilter.runs)
    if run is not None and len(singles(run)) < len(run):  # a run of single bytes is a literal, which is in the clauses
        # Last, because a run has many keys and each is a lookup.
        found.append(RequiredByteRun(run))
    return found


def _needles(clause: tuple[Literal, ...]) -> tuple[Needle, ...] | None:
    """The needles of a clause. For a literal with newlines, its longest line."""
    if len(clause) > CLAUSE_LITERALS_MAX:
        return None
    # A line at most is looked for, because `lines_around` begins at one line.
    lines = {(max(literal.text.split(b"\n"), key=len), literal.is_folded) for literal in clause}
    # A single byte is in nearly every block.
    if any(len(line) < 2 or b"\0" in line for line, _ in lines):
        return None
    return tuple(Needle(line, is_folded=is_folded) for line, is_folded in sorted(lines))


def _is_implied(clause: tuple[Needle, ...], others: list[tuple[Needle, ...]]) -> bool:
    """Whether a longer clause implies this one: each of its literals contains one of these."""
    return any(
        other is not clause
        and sum(len(needle.text) for needle in other) > sum(len(needle.text) for needle in clause)
        and all(any(_holds(longer, shorter) for shorter in clause) for longer in other)
        for other in others
    )


def _holds(longer: Needle, shorter: Needle) -> bool:
    if shorter.is_folded:
        return shorter.text in longer.text.lower()
    return not longer.is_folded and shorter.text in longer.text


def windows(runs: list[Run]) -> list[I64]:
    """Sets of keys of which a block must have at least one, for the most selective three positions."""
    found = {
        tuple(sorted({a << 12 | b << 6 | c for a in first for b in second for c in third}))
        for run in runs
        for first, second, third in _triples(run)
        if len(first) * len(second) * len(third) <= WINDOW_KEYS_MAX
    }
    return [freeze(np.array(keys, np.int64)) for keys in sorted(found, key=len)[:WINDOWS_MAX]]


def _triples(run: Run) -> list[tuple[set[int], set[int], set[int]]]:
    classes = [{int(CLASSES[byte]) for byte in place} for place in run]
    return list(zip(classes, classes[1:], classes[2:], strict=False))


def window_blocks(keys: I64, segment: Segment) -> Mask:
    return mask_of_any(keys, segment.postings, segment.content.blocks)
