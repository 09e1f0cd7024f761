"""What a match cannot be without, as something to look for: one of a few literals, or a run of bytes.

An anchor lies on one line. Its blocks are found by trigrams, its places by a scan, and only the lines around those
places are ever handed to RE2.
"""

from functools import cached_property
from typing import Protocol

import numpy as np

from argosy.search.index.segment import I64, U8, U32, Segment, frozen
from argosy.search.kernels.classes import CLASSES
from argosy.search.match.budget import Budget
from argosy.search.match.needle import NO_KEYS, Needle, find_each, mask_of_any
from argosy.search.match.runs import RunNeedle, best_run, singles
from argosy.search.match.spans import Mask
from argosy.search.regex import Literal, Prefilter

WINDOW_KEYS_MAX = 300  # a window of three byte sets with more combinations says too little
WINDOWS_MAX = 6  # the most telling ones are looked up
CLAUSE_LITERALS_MAX = 8  # more literals than these cost more to look for than they save

Run = tuple[frozenset[int], ...]


class Anchor(Protocol):
    @property
    def keys(self) -> I64:
        """What is looked up to tell its blocks."""
        ...

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

    @property
    def only(self) -> Needle | None:
        """The literal, if there is no other."""
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
        return places[0] if len(places) == 1 else np.unique(np.concatenate(places))


class RunAnchor:
    """Bytes in a row, each one of a set."""

    def __init__(self, run: Run) -> None:
        self._run = run

    # A literal beside it is often rare enough, and this is never asked.

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


def anchors(prefilter: Prefilter) -> list[Anchor]:
    """Everything that every match holds and that is worth looking for; what is quickly looked up comes first."""
    needles = [clause for clause in map(_needles, prefilter.clauses) if clause is not None]
    found: list[Anchor] = [ClauseAnchor(clause) for clause in needles if not _is_implied(clause, needles)]
    run = best_run(prefilter.runs)
    if run is not None and len(singles(run)) < len(run):  # a run of single bytes is a literal, and there already
        found.append(RunAnchor(run))
    return found


def _needles(clause: tuple[Literal, ...]) -> tuple[Needle, ...] | None:
    """What to look for in place of the clause. Of literals with newlines the longest line is taken."""
    if len(clause) > CLAUSE_LITERALS_MAX:
        return None
    lines = {(max(literal.text.split(b"\n"), key=len), literal.is_folded) for literal in clause}
    if any(len(line) < 2 or b"\0" in line for line, _ in lines):
        return None
    return tuple(Needle(line, is_folded=is_folded) for line, is_folded in sorted(lines))


def _is_implied(clause: tuple[Needle, ...], others: list[tuple[Needle, ...]]) -> bool:
    """Whether a longer clause says as much: each of its literals holds one of these, in the same case or any."""
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
    return mask_of_any(keys, segment.postings, segment.content.blocks)
