"""What a match cannot be without, as something to look for: one of a few literals, or a run of bytes.

An anchor lies on one line. Its blocks are found by trigrams, its places by a scan, and only the lines around those
places are ever handed to RE2.
"""

from typing import Protocol

import numpy as np

from argosy.search.index.segment import I64, U8, U32, Segment, frozen
from argosy.search.kernels.classes import CLASSES
from argosy.search.match.budget import Budget
from argosy.search.match.needle import Needle, blocks_with_any, find_each
from argosy.search.match.runs import RunNeedle, best_run, singles
from argosy.search.match.spans import Mask
from argosy.search.regex import Literal, Needs

WINDOW_KEYS_MAX = 300                   # a window of three byte sets with more combinations says too little
WINDOWS_MAX = 6                         # the most telling ones are looked up
CLAUSE_LITERALS_MAX = 8                 # more literals than these cost more to look for than they save

Run = tuple[frozenset[int], ...]


class Anchor(Protocol):
    def blocks(self, segment: Segment) -> Mask:
        """The blocks that may hold it."""
        ...

    def find(self, data: U8, starts: U32, ends: U32, budget: Budget) -> U32:
        """Where it is inside these ranges, ascending."""
        ...


class ClauseAnchor:
    """One of a few literals."""

    def __init__(self, needles: tuple[Needle, ...]) -> None:
        self._needles = needles

    def blocks(self, segment: Segment) -> Mask:
        mask = np.zeros(segment.content.blocks, np.bool_)
        for needle in self._needles:
            mask[needle.blocks(segment.postings, segment.content.blocks)] = True
        return mask

    def find(self, data: U8, starts: U32, ends: U32, budget: Budget) -> U32:
        places = find_each(self._needles, data, starts, ends, budget)
        return places[0] if len(places) == 1 else np.unique(np.concatenate(places))


class RunAnchor:
    """Bytes in a row, each one of a set."""

    def __init__(self, run: Run) -> None:
        self._needle = RunNeedle(run)
        self._windows = windows([run])

    def blocks(self, segment: Segment) -> Mask:
        mask = np.ones(segment.content.blocks, np.bool_)
        for keys in self._windows:
            mask &= window_blocks(keys, segment)
        return mask

    def find(self, data: U8, starts: U32, ends: U32, budget: Budget) -> U32:
        return self._needle.find(data, starts, ends, budget)


def anchors(needs: Needs) -> list[Anchor]:
    """Everything that every match holds and that is worth looking for."""
    found: list[Anchor] = []
    run = best_run(needs.runs)
    if run is not None and len(singles(run)) < len(run):        # a run of single bytes is a literal, and there already
        found.append(RunAnchor(run))
    needles = [_needles(clause) for clause in needs.clauses]
    found.extend(ClauseAnchor(clause) for clause in needles if clause is not None)
    return found


def _needles(clause: tuple[Literal, ...]) -> tuple[Needle, ...] | None:
    """What to look for in place of the clause. Of literals with newlines the longest line is taken."""
    if len(clause) > CLAUSE_LITERALS_MAX:
        return None
    lines = {(max(literal.text.split(b"\n"), key=len), literal.is_folded) for literal in clause}
    if any(len(line) < 2 or b"\0" in line for line, _ in lines):
        return None
    return tuple(Needle(line, is_folded=is_folded) for line, is_folded in sorted(lines))


def windows(runs: list[Run]) -> list[I64]:
    """Keys of which a block must hold at least one, for the most telling three bytes in a row."""
    found = {
        tuple(sorted({a << 12 | b << 6 | c for a in first for b in second for c in third}))
        for run in runs
        for first, second, third in _triples(run)
        if len(first) * len(second) * len(third) <= WINDOW_KEYS_MAX
    }
    return [frozen(np.array(keys, np.int64)) for keys in sorted(found, key=len)[:WINDOWS_MAX]]


def _triples(run: Run) -> list[tuple[set[int], set[int], set[int]]]:
    classes = [{int(CLASSES[byte]) for byte in place} for place in run]
    return list(zip(classes, classes[1:], classes[2:], strict=False))


def window_blocks(keys: I64, segment: Segment) -> Mask:
    mask = np.zeros(segment.content.blocks, np.bool_)
    mask[blocks_with_any(keys, segment.postings, segment.content.blocks)] = True
    return mask
