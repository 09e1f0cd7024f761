"""Many indexes in an order, as kernels take them: tables of where the arrays of their parts are.

To ask a hundred small indexes one by one costs a hundred calls, each of which takes longer than the look it is for. So
a kernel is told where everything is, and goes through all parts in one call. A roll keeps the arrays its tables point
to; rows are made once per part, when the first search needs them.
"""

from collections.abc import Collection, Sequence, Set
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from argosy.search.index.index import Index, Part
from argosy.search.index.segment import I64, U32, bitmap_length, frozen
from argosy.search.kernels import candidates, scan, spans

TURN_BLOCKS = 1 << 20  # looked up in one go: a few milliseconds


class Row(NamedTuple):
    """What kernels are told of a part, and what only it points to."""

    choice: I64
    scan: I64
    score: I64
    kept: tuple[U32, ...]


class Roll:
    """Indexes in the order in which they are searched."""

    def __init__(self, indexes: Sequence[Index], before: "Roll | None" = None) -> None:
        """Of the roll `before`, the rows of parts that are still there are taken over."""
        self.indexes = tuple(indexes)
        self.parts = tuple([part for index in self.indexes for part in index.parts])
        self._known: dict[Part, Row] = {}
        if before is not None:
            known = before._known
            self._known = {part: known[part] for part in self.parts if part in known}

    def __len__(self) -> int:
        return len(self.indexes)

    def only(self, names: Collection[str] | None) -> "Roll":
        """Those of the named repositories; None names all."""
        if names is None:
            return self
        named = names if isinstance(names, Set) else frozenset(names)
        if self._names <= named:
            return self
        return self.of([index for index in self.indexes if index.repository.name in named])

    def of(self, indexes: Sequence[Index]) -> "Roll":
        """Some of its indexes, in their order."""
        if len(indexes) == len(self.indexes):
            return self
        assert len(self._rows) == len(self.parts)  # made once for all, not for every selection anew
        return Roll(indexes, self)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset([index.repository.name for index in self.indexes])

    @cached_property
    def firsts(self) -> list[int]:
        """The first row of each index, and past the last."""
        firsts = [0]
        for index in self.indexes:
            firsts.append(firsts[-1] + len(index.parts))
        return firsts

    @cached_property
    def owners(self) -> list[int]:
        """The place of each row's index."""
        return [place for place, index in enumerate(self.indexes) for _ in index.parts]

    @cached_property
    def turns(self) -> list[tuple[int, int]]:
        """Stretches of whole indexes that are looked up in one go: from which to which."""
        turns, first, blocks = [], 0, 0
        for place, index in enumerate(self.indexes):
            blocks += sum(part.segment.content.blocks for part in index.parts)
            if blocks >= TURN_BLOCKS or place + 1 == len(self.indexes):
                turns.append((first, place + 1))
                first, blocks = place + 1, 0
        return turns

    @cached_property
    def choices(self) -> I64:
        """For `choose_in_all`: a row per part."""
        return _table([row.choice for row in self._rows], candidates.COLUMNS)

    @cached_property
    def scans(self) -> I64:
        """For `scan_in_all`."""
        return _table([row.scan for row in self._rows], scan.COLUMNS)

    @cached_property
    def scores(self) -> I64:
        """For `score_in_all`. What decides between equally good files is the index's: a part may be in several."""
        table = np.array([row.score for row in self._rows], np.int64).reshape(len(self.parts), spans.COLUMNS)
        for place, index in enumerate(self.indexes):
            sizes = [part.segment.content.documents for part in index.parts]
            own = table[self.firsts[place] : self.firsts[place + 1]]
            own[:, spans.FIRST_DOCUMENT] = np.cumsum([0, *sizes])[:-1]
            own[:, spans.DOCUMENTS] = sum(sizes)
            own[:, spans.RANK] = index.repository.rank
        scores: I64 = frozen(table)
        return scores

    @cached_property
    def _rows(self) -> list[Row]:
        for part in self.parts:
            if part not in self._known:
                self._known[part] = _row(part)  # whoever takes this roll's place need not make it again
        return [self._known[part] for part in self.parts]


def _row(part: Part) -> Row:
    segment = part.segment
    content, postings, symbols = segment.content, segment.postings, segment.symbols
    odd_folds: U32 = frozen(np.array(segment.odd_folds, np.uint32))
    first_symbols: U32 = frozen(np.searchsorted(symbols.starts, content.starts).astype(np.uint32))
    choice = _filled(
        {
            candidates.PRESENT: _address(postings.present),
            candidates.RANKS: _address(postings.ranks),
            candidates.OFFSETS: _address(postings.offsets),
            candidates.POSTINGS: _address(postings.blocks),
            candidates.BLOCK_STARTS: _address(content.block_starts),
            candidates.BLOCK_DOCS: _address(content.block_docs),
            candidates.BRANCHES: _address(part.branches),
            candidates.ODD_FOLDS: _address(odd_folds),
            candidates.BLOCKS: content.blocks,
            candidates.ALL_DOCUMENTS: content.documents,
            candidates.BITMAP_WORDS: bitmap_length(content.blocks),
            candidates.TRAITS: segment.traits,
            candidates.ODD_FOLDS_COUNT: len(odd_folds),
        }
    )
    scanned = _filled(
        {
            scan.DATA: _address(content.data),
            scan.BLOCK_STARTS: _address(content.block_starts),
            scan.BLOCK_DOCS: _address(content.block_docs),
            scan.NAMES: _address(segment.names.data),
            scan.NAME_STARTS: _address(segment.names.starts),
            scan.DATA_BYTES: len(content.data),
        }
    )
    scored = _filled(
        {
            spans.DATA: _address(content.data),
            spans.NAMES: _address(segment.names.data),
            spans.NAME_STARTS: _address(segment.names.starts),
            spans.CATEGORIES: _address(segment.table.categories),
            spans.SYMBOL_STARTS: _address(symbols.starts),
            spans.SYMBOL_LENGTHS: _address(symbols.lengths),
            spans.SYMBOL_POINTS: _address(symbols.points),
            spans.FIRST_SYMBOLS: _address(first_symbols),
            spans.DATA_BYTES: len(content.data),
            spans.NAMES_BYTES: len(segment.names.data),
            spans.SYMBOLS: len(symbols.starts),
            spans.SYMBOL_BYTES_MAX: int(symbols.lengths.max(initial=0)),
            spans.FIRST_DOCUMENT: 0,
            spans.DOCUMENTS: 0,
            spans.RANK: 0,
        }
    )
    return Row(choice, scanned, scored, (odd_folds, first_symbols))


def _address(array: npt.NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _filled(columns: dict[int, int]) -> I64:
    return np.array([columns[column] for column in range(len(columns))], np.int64)


def _table(rows: list[I64], columns: int) -> I64:
    table: I64 = frozen(np.array(rows, np.int64).reshape(len(rows), columns))
    return table
